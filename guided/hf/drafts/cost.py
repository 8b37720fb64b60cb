"""The measured cost of a forward by the number of its columns: whether a draft pays depends on it."""

from __future__ import annotations

import time
import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from guided.hf.cache.kv_cache import RowKV

__all__ = ["Cost", "interpolated", "measured_cost", "relative_cost"]

#: The time of a forward by its number of columns, in times of a forward over one.
Cost = Callable[[int], float]

#: Columns that are measured, each so often that the least time is not one that something else disturbed.
COLUMNS = (1, 2, 8, 32)
ROUNDS = 3

#: Tokens in the cache before.
_PREFIX = 32

_seconds_of: weakref.WeakKeyDictionary[Any, dict[Any, dict[int, float]]] = weakref.WeakKeyDictionary()


def measured_cost(model: Any) -> Cost:
    """Return the cost of columns on ``model``: measured once, by a dozen forwards, per device, dtype and attention."""
    return interpolated(_seconds(model))


def relative_cost(assistant: Any, model: Any) -> float:
    """Return the time of a forward of ``assistant`` over one column in times of one of ``model``, measured as above."""
    return _seconds(assistant)[1] / _seconds(model)[1]


def _seconds(model: Any) -> dict[int, float]:
    """Return the seconds of a forward by its columns."""
    seconds = _seconds_of.setdefault(model, {})
    config = model.config.get_text_config(decoder=True)
    key = (str(getattr(config, "_attn_implementation", "")), model.dtype, str(model.device))
    if key not in seconds:
        seconds[key] = _measured(model)
    return seconds[key]


def interpolated(seconds: dict[int, float]) -> Cost:
    """Return the cost by straight lines through ``seconds`` by columns, going on after the last two."""
    sizes = sorted(seconds)

    def cost(columns: int) -> float:
        at = min(max(bisect_right(sizes, columns), 1), len(sizes) - 1)
        left, right = sizes[at - 1], sizes[at]
        slope = (seconds[right] - seconds[left]) / (right - left)
        return (seconds[left] + slope * (columns - left)) / seconds[sizes[0]]

    return cost


def _measured(model: Any) -> dict[int, float]:
    token = 1
    cache = RowKV(model, 1)
    cache.feed([[token] * _PREFIX])
    best = dict.fromkeys(COLUMNS, float("inf"))
    for _ in range(ROUNDS):
        for columns in COLUMNS:
            began = time.perf_counter()
            logits = cache.feed([[token] * columns], keep=columns)
            float(logits[0, -1, 0])  # waits for the device
            best[columns] = min(best[columns], time.perf_counter() - began)
            cache.crop(0, _PREFIX)
    most = 0.0
    for columns in COLUMNS:  # more columns cost no less
        most = best[columns] = max(best[columns], most)
    return best
