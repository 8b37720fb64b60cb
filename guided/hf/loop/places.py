"""The rows of a decode loop: which of them wait, and which have a place in the cache."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, TakenRow
from guided.hf.cache.prefix_pool import num_common
from guided.hf.loop.capacity import Capacity
from guided.hf.loop.loop_row import LoopRow
from guided.hf.masks.transfer import on_device

__all__ = ["Places"]

#: Tokens of room that a waiting row needs in addition, so that it is not taken out again at once.
_MARGIN = 32


@dataclass(eq=False)
class Places:
    """The rows that wait, in their turn, and ``active`` ones: row ``i`` of ``cache`` belongs to the ``i``-th.

    Rows that begin alike have one place until their common prompt is in the cache: they are the first one's twins.
    """

    cache: KVCache
    capacity: Capacity
    active: list[LoopRow] = field(default_factory=list)
    waiting: deque[LoopRow] = field(default_factory=deque)
    num_taken_out: int = 0  #: rows that were taken out for lack of room, to go on later

    def add(self, rows: Sequence[LoopRow]) -> None:
        """Let rows wait."""
        kinds: dict[tuple[int, ...], list[LoopRow]] = {}
        for row in rows:
            kinds.setdefault(tuple(row.chunk), []).append(row)
        for alike in kinds.values():
            chats = frozenset(row.chat for row in alike)
            for row in alike:
                row.chats, row.is_filling, row.began_open = chats, True, row.feeds_last
            alike[0].twins = alike[1:]
            self.waiting.append(alike[0])

    def leave(self) -> list[LoopRow]:
        """Let the rows go that need no forward, and return them; those in the cache are kept."""
        gone = [i for i, row in enumerate(self.active) if not row.needs_forward]
        for i in gone:
            self._keep(i)
        first_ones = [*self.active, *self.waiting]
        if gone:
            self.active = [row for row in self.active if row.needs_forward]
            self.cache.select([i for i in range(len(self.cache)) if i not in gone])
        self.waiting = deque(row for row in self.waiting if row.needs_forward)
        left: list[LoopRow] = []
        for row in first_ones:
            left += [one for one in (row, *row.twins) if not one.needs_forward]
            twins = [twin for twin in row.twins if twin.needs_forward]
            row.twins = [twin for twin in twins if twin.feeds_last == twin.began_open]
            self.waiting.extendleft(twin for twin in twins if twin not in row.twins)  # it failed, and needs less now
            if row.twins and (not row.needs_forward or row.feeds_last != row.began_open):
                first, *first.twins = row.twins  # one of them is computed in its stead
                row.twins = ()
                self.waiting.appendleft(first)
        return left

    def _keep(self, place: int, *, is_last: bool = True) -> None:
        row = self.active[place]
        if row.reuse is not None:
            row.reuse.keep(self.cache, place, row.chats, is_last=is_last)

    def make_room(self) -> None:
        """While there is no room, take out the newest row: it is fed again later, and goes on where it was."""
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
        """Give places to waiting rows, with the longest prefixes that kept and running rows have.

        What would not be fed in the next forward waits: rows before it may have its prefix when its turn comes.
        """
        most, used = self._prompt_tokens(), self._used()
        backlog = sum(len(row.pending) for row in self.active if row.is_filling)
        free = self.capacity.rows - sum(1 + len(row.twins) for row in self.active)
        chosen: list[LoopRow] = []
        for row in self.waiting:
            size, number = len(row.chunk), 1 + len(row.twins)
            used, free = used + number * (size + _MARGIN), free - number
            is_first = not self.active and not chosen
            if backlog >= most or free < 0 or (used > self.capacity.cached_tokens and not is_first):
                break
            if self._follows(row, chosen):
                break
            chosen.append(row)
            backlog += size
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

    def _follows(self, row: LoopRow, chosen: Sequence[LoopRow]) -> bool:
        """Whether a row whose prompt is not fed yet has much of what ``row`` begins with, to be taken from it then."""
        reuse, wanted = row.reuse, row.chunk
        filling = [(one, ids) for one, ids in zip(self.active, self.cache.ids, strict=False) if one.is_filling]
        for other, ids in (*filling, *((one, []) for one in chosen)):
            if reuse is not None and reuse.shares_with(other.reuse):
                num_shared = num_common(ids, wanted)
                if num_common([*ids, *other.chunk], wanted) > num_shared + _MARGIN:
                    return True
        return False

    def _prefix(self, row: LoopRow) -> tuple[TakenRow, int] | None:
        """Return a kept or running row with the longest prefix of what ``row`` is to be fed, and its length."""
        reuse = row.reuse
        if reuse is None:
            return None
        wanted = row.chunk[: -max(1, row.num_columns, *(twin.num_columns for twin in row.twins))]
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
        return self.capacity.prompt_tokens(running, self.cache.num_columns)

    def pieces(self) -> list[int | None]:
        """Return how many tokens the next forward feeds of each active row; None: all, and its logits are read."""
        left = self._prompt_tokens()
        out: list[int | None] = []
        for row in self.active:
            size: int | None = None
            if row.is_filling:
                columns = max(one.num_columns for one in (row, *row.twins)) - len(row.draft.tokens)
                whole = len(row.pending) - (not row.feeds_last)
                if not left or whole > max(left, columns):
                    size = min(left, whole - columns)
                left -= min(left, whole if size is None else size)
            out.append(size)
        return out

    def feed(self, pieces: Sequence[int | None], *, hidden: bool) -> tuple[torch.Tensor, list[int]]:
        """Feed these pieces; return logits float ``[rows, keep, vocab]`` of the newest columns, and the rows to read.

        The twins of the rows whose prompts are in the cache then have places of their own.
        """
        cache, parts = self.cache, list(zip(self.active, pieces, strict=True))
        chunks = [row.chunk if n is None else row.pending[:n] for row, n in parts]
        keep = [max(one.num_columns for one in (row, *row.twins)) if n is None else 0 for row, n in parts]
        logits = cache.feed(chunks, keep=keep, hidden=hidden)
        ready: list[int] = []
        sources = list(range(len(parts)))
        for i, (row, n) in enumerate(parts):
            if n is not None:
                row.pending = row.pending[n:]
                continue
            ready.append(i)
            row.forwards += 1
            if row.is_filling and isinstance(cache, AppendKV):
                # It cannot be cropped later, and the next turn may spell the answer otherwise.
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
