"""The pool of KV cache rows that are kept after their answers, so that the next turn need not compute them again.

A kept row is found by its token ids alone: a new prompt reuses the longest prefix that it shares with any kept row.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.nn.modules import module as of_all_modules

from guided.hf.cache.head_input import foreign_hooks
from guided.hf.cache.kv_cache import AppendKV, KVCache, TakenRow
from guided.tracking.commit_log import num_common
from special_tokens.errors import RequestError, shown

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "CacheStats",
    "PrefixPool",
    "Reuse",
    "checked_cache_bytes",
    "model_state",
]

#: One gibibyte: 23,000 tokens of SmolLM2-135M in float32, 8,000 of a model of 8B in bfloat16 (128 KiB a token).
DEFAULT_CACHE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counters of the kept rows of one guide.

    ``rows`` rows are kept now, in ``size_bytes`` of at most ``max_bytes``.  Since the guide was created, ``hits``
    prompts found a prefix in a kept row and ``misses`` did not; ``reused_tokens`` were not computed again, and
    ``evicted`` rows were dropped to make room.  ``off`` says why the last call kept no rows; it is empty if rows are
    kept.
    """

    rows: int = 0
    size_bytes: int = 0
    max_bytes: int = 0
    hits: int = 0
    misses: int = 0
    reused_tokens: int = 0
    evicted: int = 0
    off: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    row: TakenRow
    state: Any  # the model's when the row was computed
    size_bytes: int


class PrefixPool:
    """The kept rows, at most ``max_bytes`` of them; the least recently used is dropped first.  Thread-safe."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._rows: OrderedDict[int, _Kept] = OrderedDict()  # the one used last is last
        self._waiting: deque[tuple[_Kept, int, bool]] = deque()  # not added yet
        self.epoch = 0  #: counts the calls of `forget`
        self._numbers = count()
        self._size = self._hits = self._misses = self._reused = self._evicted = 0
        self._off = "" if max_bytes else "cache_bytes is 0"

    @property
    def is_on(self) -> bool:
        """Whether rows are kept at all."""
        return self.max_bytes > 0

    def note_off(self, reason: str) -> None:
        """Record in the counters why no rows are kept for this model; "" if they are."""
        if self.is_on:
            self._off = reason

    def longest(
        self, wanted: Sequence[int], state: Any, *, is_whole: bool = False, is_counted: bool = True
    ) -> tuple[TakenRow, int] | None:
        """Return the kept row that shares the longest prefix with ``wanted``, and its length; None if there is none.

        ``is_whole``: only a row that is a prefix of ``wanted`` as a whole counts, for caches that cannot be cropped.
        Rows that were computed in another ``state`` of the model are dropped.  Of equally long ones the newest is
        returned.  With ``is_counted`` the counters count it.
        """
        wanted = tuple(wanted)
        gone: list[int] = []
        with self._lock:
            self._add_waiting()
            best, length = -1, 0
            for number, kept in reversed(self._rows.items()):
                ids = kept.row.ids
                if kept.state != state:
                    gone.append(number)
                elif length < min(len(ids), len(wanted)) and ids[length] == wanted[length]:
                    shared = num_common(ids, wanted)
                    if shared > length and (not is_whole or shared == len(ids)):
                        best, length = number, shared
            for number in gone:
                self._drop(number)
            if best < 0:
                self._misses += is_counted
                return None
            self._hits += is_counted
            self._reused += length * is_counted
            self._rows.move_to_end(best)
            return self._rows[best].row, length

    def keep(self, row: TakenRow, state: Any, epoch: int, *, is_whole: bool = False) -> None:
        """Keep a row that nothing else writes to; a kept row that is a prefix of it is dropped, unless ``is_whole``.

        Not kept are a row larger than the pool, and a row of a run that began before the last `forget`; ``epoch`` is
        the pool's when the run began.  Never waits for the lock: a stream that is garbage-collected may end here while
        the same thread holds it.
        """
        size = row.size_bytes
        if size > self.max_bytes:
            self.note_off(f"a row of {size} bytes is larger than cache_bytes ({self.max_bytes})")
        elif row.ids:
            self._waiting.append((_Kept(row, state, size), epoch, is_whole))
            if self._lock.acquire(blocking=False):
                try:
                    self._add_waiting()
                finally:
                    self._lock.release()

    def _add_waiting(self) -> None:
        """Add what was kept meanwhile; the lock is held."""
        while self._waiting:
            kept, epoch, is_whole = self._waiting.popleft()
            if epoch == self.epoch:
                self._add(kept, is_whole=is_whole)

    def _add(self, new: _Kept, *, is_whole: bool) -> None:
        ids = new.row.ids
        for number, kept in [*self._rows.items()]:
            shared = num_common(kept.row.ids, ids)
            is_same = shared == len(ids) == len(kept.row.ids)
            if kept.state != new.state or is_same or (shared == len(kept.row.ids) and not is_whole):
                self._drop(number)
            elif shared == len(ids) and not is_whole:  # a longer one has it
                return
        self._rows[next(self._numbers)] = new
        self._size += new.size_bytes
        while self._size > self.max_bytes:
            self._drop(next(iter(self._rows)))
            self._evicted += 1

    def forget(self) -> int:
        """Drop all rows; return how many were dropped.  Runs that are going on keep nothing."""
        with self._lock:
            self._add_waiting()
            self.epoch += 1
            gone = list(self._rows)
            for number in gone:
                self._drop(number)
            return len(gone)

    def stats(self) -> CacheStats:
        """Return the counters now."""
        with self._lock:
            self._add_waiting()
            return CacheStats(
                len(self._rows), self._size, self.max_bytes, self._hits, self._misses, self._reused, self._evicted,
                self._off,
            )  # fmt: skip

    def _drop(self, number: int) -> None:
        self._size -= self._rows.pop(number).size_bytes


#: What peft's layers note of their adapters.
_OF_ADAPTERS = ("_disable_adapters", "_active_adapter", "merged_adapters", "scaling")


def model_state(model: Any) -> Any:
    """Return a value that changes with anything that changes the model's results, so that kept rows can be dropped.

    That is weights, buffers, dtype, autocast, device, attention, hooks, modules whose forward was replaced, adapters,
    training mode.  Weights and buffers are compared by their memory and by torch's counts of writes, which do not
    include writes to ``.data`` and to tensors of inference mode; adapters by what peft notes in its layers.  Not seen
    are patched classes and other attributes of modules.
    """
    adapters = getattr(model, "active_adapters", None)
    try:
        active = tuple(adapters() if callable(adapters) else adapters or ())
    except (ValueError, TypeError):  # a model without adapters raises
        active = ()
    attention = getattr(model.config.get_text_config(decoder=True), "_attn_implementation", None)
    tensors: list[tuple[int, int]] = []
    changed: list[Any] = [foreign_hooks(of_all_modules._global_forward_hooks, of_all_modules._global_forward_pre_hooks)]
    for number, attributes in enumerate(map(vars, _modules(model))):
        tensors += [
            (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)
            for tensor in (*attributes["_parameters"].values(), *attributes["_buffers"].values())
            if tensor is not None
        ]
        if attributes["_forward_hooks"] or attributes["_forward_pre_hooks"] or "forward" in attributes:
            hooks = foreign_hooks(attributes["_forward_hooks"], attributes["_forward_pre_hooks"])
            changed += [(number, hooks, attributes.get("forward"))] if hooks or "forward" in attributes else []
        if "_disable_adapters" in attributes:
            changed.append((number, *(str(attributes.get(name)) for name in _OF_ADAPTERS)))
    kind = model.device.type
    autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    dtype = str(model.dtype), str(torch.get_autocast_dtype(kind)) if autocast else ""
    return hash(tuple(tensors)), changed, dtype, str(model.device), attention, active, model.training


def _modules(model: Any) -> Iterator[Any]:
    """Yield the model and all modules in it; ``model.modules()`` builds names as well and takes three times as long."""
    unvisited = [model]
    while unvisited:
        module = unvisited.pop()
        yield module
        unvisited.extend(part for part in module._modules.values() if part is not None)


def checked_cache_bytes(value: object) -> int:
    """Return ``cache_bytes`` as an integer; raises `RequestError` for a value that is not a number of bytes."""
    if value is None:
        return DEFAULT_CACHE_BYTES
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(f"{shown(value)} is out of range", place="cache_bytes", expected="bytes, 0 or more, or None")
    return value


log = logging.getLogger("guided")


class Reuse:
    """The access of the rows of one call to ``pool``; ``model`` is the model that the cache belongs to."""

    def __init__(self, pool: PrefixPool, model: Any) -> None:
        self._pool = pool
        self._model = model
        self._state = model_state(model)
        self._epoch = pool.epoch

    def shares_with(self, other: Reuse | None) -> bool:
        """Whether rows of the other call, which are running, may be read as kept ones."""
        return other is not None and (other._pool, other._state, other._epoch) == (self._pool, self._state, self._epoch)

    def prefix(self, wanted: Sequence[int], *, is_whole: bool) -> tuple[TakenRow, int] | None:
        """Return the kept row with the longest prefix of ``wanted``, and its length; None if there is none.

        ``is_whole``: only a row that is a prefix as a whole counts.
        """
        return self._pool.longest(wanted, self._state, is_whole=is_whole)

    def keep(self, cache: KVCache, row: int, *, is_last: bool = True) -> None:
        """Keep a row of ``cache``; with ``is_last`` it does not go on in the cache.

        Never raises: an answer must not be lost because its row cannot be kept, for example for lack of memory.
        """
        size = cache.size_bytes // max(1, len(cache))
        try:
            if model_state(self._model) != self._state:
                self._pool.note_off("the model changed while it answered")  # nothing says when
            elif size > self._pool.max_bytes:
                self._pool.note_off(f"a row of {size} bytes is larger than cache_bytes ({self._pool.max_bytes})")
            else:
                taken = cache.take(row, copy=cache.shares_memory or not is_last)
                self._pool.keep(taken, self._state, self._epoch, is_whole=isinstance(cache, AppendKV))
        except Exception as error:
            log.warning("rows could not be kept: %s: %s", type(error).__name__, error)
