"""The kept rows of a guide in one run of the decode loop: prefixes are taken at the beginning, rows kept at the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from guided.hf.cache.kv_cache import AppendKV, KVCache, TakenRow
from guided.hf.cache.prefix_pool import PrefixPool, model_state

__all__ = ["Reuse"]

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
        return self._pool.longest(wanted, len(wanted), self._state, is_whole=is_whole)

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
