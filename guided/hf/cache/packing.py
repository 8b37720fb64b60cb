"""Whether the rows of a model are fed packed or as rectangles: what is right decides, then what is faster."""

from __future__ import annotations

import logging
import time
import weakref
from typing import Any

import torch

from guided.hf.cache.kv_cache import KVCache, RowKV
from guided.hf.cache.packed_kv import NAME, PackedKV
from guided.hf.cache.self_test import CacheTrial, attention_of, short_error
from special_tokens.errors import ModelError

__all__ = ["packs", "why_not_packed"]

#: Attention layers whose rows `packed_attention` computes.
_LAYERS = {"full_attention", "sliding_attention"}

#: What is timed, in CPU time: rows, their tokens in the cache, a piece of a prompt, and rounds, the fastest of which
#: counts.
_ROWS, _CACHED, _PIECE, _ROUNDS = 4, 8, 16, 3

#: Plain steps are near to each other: rectangles stay unless packed ones take at most this share of their time.
_MAX_TIME_SHARE = 0.9

log = logging.getLogger("guided")

_packs: weakref.WeakKeyDictionary[Any, dict[Any, tuple[bool, bool]]] = weakref.WeakKeyDictionary()


def packs(model: Any, *, is_even: bool = False) -> bool:
    """Whether rows of ``model``, which may differ in length, are fed packed: tried and timed once, and logged.

    ``is_even``: in all steps each row feeds one token, and the rows are about as long.
    """
    verdicts = _packs.setdefault(model, {})
    key = (attention_of(model), model.dtype, str(model.device), model.training)
    if key not in verdicts:
        why = why_not_packed(model)
        verdicts[key] = (False, False) if why else _is_faster(model)
        log.info("%s: %s", type(model).__name__, f"rows are fed as rectangles, {why}" if why else _SAID[verdicts[key]])
    return verdicts[key][0 if is_even else 1]


#: Whether plain steps are faster packed, and those with a piece of a prompt.
_SAID = {
    (False, False): "rows are fed as rectangles, which are faster",
    (False, True): "rows are fed packed where one may feed more tokens than another, else as rectangles",
    (True, False): "rows are fed packed where each feeds one token, else as rectangles",
    (True, True): "rows are fed packed",
}


def why_not_packed(model: Any) -> str:
    """Return why packed rows of ``model`` would be wrong, or are not tried; "" if they are right."""
    text = model.config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None)
    if model.device.type != "cpu":
        return f"packed ones take more kernels on {model.device.type}"
    if attention_of(model) != NAME:
        return f"its attention is {attention_of(model)}"
    if kinds is not None and not _LAYERS.issuperset(kinds):
        return f"it has layers of {', '.join(sorted(set(kinds) - _LAYERS))}"
    try:
        trial, made = CacheTrial(model), list[PackedKV]()

        def make(model: Any, rows: int) -> KVCache:
            made.append(PackedKV(model, rows))
            return made[-1]

        error = trial.ragged(make)
        windows = made[-1].windows
    except torch.OutOfMemoryError:
        raise  # it says nothing of the model
    except ModelError as refused:
        return str(refused)
    except Exception as raised:  # models may raise anything: it is the answer
        return f"a forward raised {short_error(raised)}"
    if not error <= trial.bound:
        return f"packed logits differ by {error:.1e} (token by token: {trial.noise:.1e})"
    if kinds is not None:
        right = [text.sliding_window if kind == "sliding_attention" else None for kind in kinds]
    else:
        right = [getattr(text, "sliding_window", None)] * len(windows)
    return "" if windows == right else "its attention is not given its windows"


def _is_faster(model: Any) -> tuple[bool, bool]:
    """Whether packed rows are faster in a plain step, and over one and another with a piece of a prompt."""
    best = {kind: [float("inf")] * 2 for kind in (RowKV, PackedKV)}
    for _ in range(_ROUNDS):
        for kind, seconds in best.items():
            cache: KVCache = kind(model, _ROWS)
            cache.feed([[1] * (_CACHED + r) for r in range(_ROWS)])
            for i, size in enumerate((1, _PIECE)):
                began = time.thread_time()
                cache.feed([[1]] * (_ROWS - 1) + [[1] * size])
                seconds[i] = min(seconds[i], time.thread_time() - began)
    (plain, piece), (packed, packed_piece) = best.values()
    log.info(
        "%s: a step of %d rows takes %.1f ms as a rectangle and %.1f packed, with %d tokens of a prompt %.1f and %.1f",
        type(model).__name__, _ROWS, 1e3 * plain, 1e3 * packed, _PIECE, 1e3 * piece, 1e3 * packed_piece,
    )  # fmt: skip
    return packed < _MAX_TIME_SHARE * plain, packed + packed_piece < plain + piece
