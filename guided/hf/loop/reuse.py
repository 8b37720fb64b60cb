"""The kept rows of a guide in one run of the decode loop: prefixes are taken at the beginning, rows kept at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from guided.hf.cache.kv_cache import AppendKV, RowKV
from guided.hf.cache.prefix_pool import PrefixPool, model_state

__all__ = ["Reuse"]

log = logging.getLogger("guided")


class Reuse:
    """The access of one run to ``pool``; ``model`` is the model that the cache belongs to."""

    def __init__(self, pool: PrefixPool, model: Any) -> None:
        self._pool = pool
        self._model = model
        self._state = model_state(model)
        self._epoch = pool.epoch

    def begin(self, cache: RowKV | AppendKV, chunks: Sequence[Sequence[int]], needed: Sequence[int]) -> list[int]:
        """Fill the empty rows of ``cache`` with kept prefixes of ``chunks``; return how many tokens each row got.

        At least ``needed[r]`` tokens of ``chunks[r]``, and at least one, are left to be fed.
        """
        is_whole = isinstance(cache, AppendKV)
        found = [
            self._pool.longest(chunk, len(chunk) - max(1, least), self._state, is_whole=is_whole)
            for chunk, least in zip(chunks, needed, strict=True)
        ]
        if any(prefix is not None for prefix in found):
            cache.begin(found, max(map(len, chunks)))
        return [0 if prefix is None else prefix[1] for prefix in found]

    def keep(
        self, cache: RowKV | AppendKV, rows: Iterable[int] | None, chats: Sequence[frozenset[tuple[int, ...]]]
    ) -> None:
        """Keep these rows of ``cache``, or all rows for None, after which the cache is empty.

        ``chats`` are the conversations of each row of the cache.  Never raises: an answer must not be lost because its
        row cannot be kept, for example for lack of memory.
        """
        size = cache.size_bytes // max(1, len(cache))
        try:
            if model_state(self._model) != self._state:
                self._pool.note_off("the model changed while it answered")  # nothing says when
                return
            if size > self._pool.max_bytes:
                self._pool.note_off(f"a row of {size} bytes is larger than cache_bytes ({self._pool.max_bytes})")
                return
            numbers = list(range(len(cache)) if rows is None else rows)
            taken = cache.hand_over() if rows is None else [cache.take(row) for row in numbers]
            for number, row in zip(numbers, taken, strict=False):
                own = chats[number] if number < len(chats) else ()
                self._pool.keep(row, own, self._state, self._epoch, is_whole=isinstance(cache, AppendKV))
        except Exception as error:
            log.warning("rows could not be kept: %s: %s", type(error).__name__, error)
