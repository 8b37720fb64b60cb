"""Measure how the time of a forward grows with the number of new tokens per row, to decide whether drafts pay."""

from __future__ import annotations

import time
import weakref
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from guided.hf.cache.kv_cache import RowKV
from guided.hf.cache.self_test import attention_of

__all__ = ["Cost", "interpolate", "measured_cost", "relative_cost"]

#: Columns of a forward (the new tokens of each row) -> its time, divided by that of a forward over one column.
Cost = Callable[[int], float]

#: Column counts to measure, and how often each: the minimum is kept, as other work disturbed it least.
COLUMNS = (1, 2, 8, 32)
ROUNDS = 3

_PREFIX_TOKENS = 32  # tokens in the KV cache before a measured forward

#: Model -> attention, dtype and device -> columns -> seconds.
_timings: weakref.WeakKeyDictionary[Any, dict[Any, dict[int, float]]] = weakref.WeakKeyDictionary()


def measured_cost(model: Any) -> Cost:
    """Return the cost of columns on ``model``, measured by a dozen forwards once per device, dtype and attention."""
    return interpolate(_forward_seconds(model))


def relative_cost(assistant: Any, model: Any) -> float:
    """Return the time of a forward of ``assistant`` over one column, divided by that of ``model``."""
    return _forward_seconds(assistant)[1] / _forward_seconds(model)[1]


def _forward_seconds(model: Any) -> dict[int, float]:
    """Return the seconds of a forward for each measured number of columns."""
    seconds = _timings.setdefault(model, {})
    key = (attention_of(model), model.dtype, str(model.device))
    if key not in seconds:
        seconds[key] = _measure(model)
    return seconds[key]


def interpolate(seconds: dict[int, float]) -> Cost:
    """Return the cost for any number of columns, by straight lines between ``seconds`` and beyond the last."""
    sizes = sorted(seconds)

    def cost(columns: int) -> float:
        at = min(max(bisect_right(sizes, columns), 1), len(sizes) - 1)
        left, right = sizes[at - 1], sizes[at]
        slope = (seconds[right] - seconds[left]) / (right - left)
        return (seconds[left] + slope * (columns - left)) / seconds[sizes[0]]

    return cost


def _measure(model: Any) -> dict[int, float]:
    token = 1
    kv = RowKV(model, 1)
    kv.feed([[token] * _PREFIX_TOKENS])
    best = dict.fromkeys(COLUMNS, float("inf"))
    for _ in range(ROUNDS):
        for columns in COLUMNS:
            began = time.perf_counter()
            logits = kv.feed([[token] * columns], keep=columns)
            float(logits[0, -1, 0])  # waits for the device
            best[columns] = min(best[columns], time.perf_counter() - began)
            kv.crop(0, _PREFIX_TOKENS)
    return dict(zip(COLUMNS, accumulate(best.values(), max), strict=True))  # more columns cost no less
