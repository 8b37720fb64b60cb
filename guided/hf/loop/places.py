"""The rows of a decode loop: those in the cache, and those that wait for a place in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, TakenRow
from guided.hf.loop.capacity import Capacity
from guided.hf.loop.loop_row import LoopRow
from guided.hf.masks.transfer import on_device
from guided.tracking.commit_log import num_common

__all__ = ["Places"]

#: Tokens of room that a waiting row needs besides its prompt, so that it is not taken out again at once.
_MARGIN = 32

#: Tokens of its prompt that a row waits for, where one that is being fed will soon have them in the cache.
_SHARED_TOKENS = 32


@dataclass(eq=False)
class Places:
    """The rows of a loop: ``active`` rows are in the cache, ``waiting`` rows get places there in order of arrival.

    ``active[i]`` has row ``i`` of ``cache``.  Rows with the same prompt share one place until the prompt is in the
    cache: the first row is the holder of the place, and the other rows are its ``twins``.
    """

    cache: KVCache
    capacity: Capacity
    active: list[LoopRow] = field(default_factory=list)
    waiting: deque[LoopRow] = field(default_factory=deque)
    num_taken_out: int = 0  #: rows that were taken out for lack of room, to go on later

    def add(self, rows: Sequence[LoopRow]) -> None:
        """Append rows to ``waiting``.  Rows that feed the same tokens wait as one row, with the others as twins."""
        rows_by_tokens: dict[tuple[int, ...], list[LoopRow]] = {}
        for row in rows:
            rows_by_tokens.setdefault(tuple(row.chunk), []).append(row)  # a chunk is what is pending, and a draft
        for alike in rows_by_tokens.values():
            for row in alike:
                row.is_filling = True
            alike[0].twins = alike[1:]
            self.waiting.append(alike[0])

    def remove_ended(self) -> list[LoopRow]:
        """Remove the rows that need no forward and return them; what the cache holds of them is kept for reuse."""
        ended = [i for i, row in enumerate(self.active) if not row.needs_forward]
        for i in ended:
            self._keep(i)
        holders = [*self.active, *self.waiting]
        if ended:
            self.active = [row for row in self.active if row.needs_forward]
            self.cache.select([i for i in range(len(self.cache)) if i not in ended])
        self.waiting = deque(row for row in self.waiting if row.needs_forward)
        removed: list[LoopRow] = []
        for holder in holders:
            removed += [row for row in (holder, *holder.twins) if not row.needs_forward]
            holder.twins = [twin for twin in holder.twins if twin.needs_forward]
            if holder.twins and not holder.needs_forward:
                next_holder, *next_holder.twins = holder.twins
                holder.twins = ()
                self.waiting.appendleft(next_holder)
        return removed

    def _keep(self, place: int, *, is_last: bool = True) -> None:
        """Offer the cache row of a place to the pool of kept rows; without ``row.reuse`` nothing is kept."""
        row = self.active[place]
        if row.reuse is not None:
            row.reuse.keep(self.cache, place, is_last=is_last)

    def make_room(self) -> None:
        """Take out the newest rows until the others fit; each is fed again later and goes on where it was."""
        while len(self.active) > 1 and self._used() > self.capacity.cached_tokens:
            place = len(self.active) - 1
            self._keep(place)
            row = self.active.pop()
            row.pending, row.is_filling = self.cache.ids[place] + row.pending, True
            self.cache.select(range(place))
            self.waiting.appendleft(row)
            self.num_taken_out += 1

    def _used(self) -> int:
        """Count the tokens that the cache holds after the next forward."""
        return sum(len(ids) + len(row.pending) for ids, row in zip(self.cache.ids, self.active, strict=True))

    def admit(self) -> None:
        """Give places to waiting rows; each begins with the longest prefix that it shares with a kept or running row.

        A row gets a place only when the next forward feeds it, because the cache may hold a longer prefix of it later.
        """
        max_prompt_tokens = self._prompt_tokens()
        backlog = sum(len(row.pending) for row in self.active if row.is_filling)
        chosen: list[LoopRow] = []
        for row in self._with_room():
            if backlog >= max_prompt_tokens or self._follows(row, chosen):
                break
            chosen.append(row)
            backlog += len(row.chunk)
        if not chosen:
            return
        prefixes = [self._prefix(row) for row in chosen]
        self.cache.extend(prefixes, max(len(row.pending) for row in chosen))
        for row, prefix in zip(chosen, prefixes, strict=True):
            self.waiting.popleft()
            self.active.append(row)
            size = prefix[1] if prefix is not None else 0
            row.pending = row.pending[size:]
            for alike in (row, *row.twins) if not row.forwards else ():
                alike.cached = min(size, row.answer.prompt_tokens)

    def _with_room(self) -> list[LoopRow]:
        """Return the waiting rows, from the first one on, for which there are places and room in the cache."""
        used, free = self._used(), self.capacity.rows - sum(1 + len(row.twins) for row in self.active)
        fitting: list[LoopRow] = []
        for row in self.waiting:
            num_rows = 1 + len(row.twins)
            used, free = used + num_rows * (len(row.chunk) + _MARGIN), free - num_rows
            is_first = not self.active and not fitting
            if free < 0 or (used > self.capacity.cached_tokens and not is_first):
                break
            fitting.append(row)
        return fitting

    def _follows(self, row: LoopRow, chosen: Sequence[LoopRow]) -> bool:
        """Whether ``row`` should wait: one that is being fed will soon share `_SHARED_TOKENS` more with it."""
        reuse, wanted = row.reuse, row.chunk
        filling = [(other, ids) for other, ids in zip(self.active, self.cache.ids, strict=False) if other.is_filling]
        for other, ids in (*filling, *((other, []) for other in chosen)):
            if reuse is not None and reuse.shares_with(other.reuse):
                num_shared = num_common(ids, wanted)
                if num_common([*ids, *other.chunk], wanted) > num_shared + _SHARED_TOKENS:
                    return True
        return False

    def _prefix(self, row: LoopRow) -> tuple[TakenRow, int] | None:
        """Return the kept or running row that shares the longest prefix with ``row``, and the length of this prefix."""
        reuse = row.reuse
        if reuse is None:
            return None
        wanted = row.chunk[: -max(1, row.num_columns, *(twin.num_columns for twin in row.twins))]
        # An `AppendKV` cannot drop tokens: it can use a kept row only if the whole kept row is a prefix.
        prefix = reuse.prefix(wanted, is_whole=isinstance(self.cache, AppendKV))
        sizes = [
            num_common(ids, wanted) if reuse.shares_with(other.reuse) else 0
            for ids, other in zip(self.cache.ids, self.active, strict=True)
        ]
        size = max(sizes, default=0)
        if size > (prefix[1] if prefix is not None else 0):
            return self.cache.take(sizes.index(size), copy=False), size
        return prefix

    # -- prompts

    def _prompt_tokens(self) -> int:
        """The prompt tokens that the next forward may feed."""
        running = sum(not row.is_filling for row in self.active)
        waiting = len(self.active) - running + len(self._with_room())
        return self.capacity.prompt_tokens(running, waiting, self.cache.num_columns)

    def piece_sizes(self) -> list[int | None]:
        """Return how many tokens of each active row the next forward feeds; None for a row whose last token is fed."""
        num_left = self._prompt_tokens()
        sizes: list[int | None] = []
        for row in self.active:
            size: int | None = None
            if row.is_filling:
                num_columns = _num_columns(row) - len(row.draft.tokens)
                num_pending = len(row.pending) - (not row.feeds_newest)
                if not num_left or num_pending > max(num_left, num_columns):
                    size = min(num_left, num_pending - num_columns)
                num_left -= min(num_left, num_pending if size is None else size)
            sizes.append(size)
        return sizes

    def feed(self, sizes: Sequence[int | None], *, hidden: bool) -> tuple[torch.Tensor, list[int]]:
        """Feed pieces of these sizes; return logits float ``[rows, columns, vocab]`` of the newest tokens.

        Return also the rows whose logits are to be read.  Twins get places of their own once their prompt is in the
        cache.
        """
        cache, parts = self.cache, list(zip(self.active, sizes, strict=True))
        chunks = [row.chunk if n is None else row.pending[:n] for row, n in parts]
        logits = cache.feed(chunks, keep=[_num_columns(row) if n is None else 0 for row, n in parts], hidden=hidden)
        ready: list[int] = []
        sources = list(range(len(parts)))
        for i, (row, n) in enumerate(parts):
            if n is not None:
                row.pending = row.pending[n:]
                continue
            ready.append(i)
            row.forwards += 1
            if row.is_filling and isinstance(cache, AppendKV):
                # Keep the row as it is after the prompt: the tokens of the answer cannot be removed from it later,
                # and the prompt of the next turn may hold the answer in other tokens.
                self._keep(i, is_last=False)
            row.is_filling = False
            for twin in row.twins:
                twin.is_filling, twin.forwards = False, row.forwards
                ready.append(len(sources))
                sources.append(i)
                self.active.append(twin)
            row.twins = ()
        if len(sources) > len(parts):
            cache.select(sources)
            index = on_device(sources, torch.long, logits.device)
            logits = logits[index]
            cache.hidden = None if cache.hidden is None else cache.hidden[index.to(cache.hidden.device)]
        return logits, sorted(ready)


def _num_columns(holder: LoopRow) -> int:
    """The largest number of columns of the logits that a holder or one of its twins needs."""
    return max(row.num_columns for row in (holder, *holder.twins))
