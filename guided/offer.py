"""The mask of one place as the engine offers it: without sentinels, with the ends that they stand for.

What does not change from place to place (words and bits of the sentinels, masks of the ends) is worked out once per
plan and engine, so that a mask costs little more than the engine takes to fill it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grammars.plan import End, Plan
from guided.bitmask import from_ids, num_words, only_id, scratch_of
from guided.compile import Engine
from guided.watch import Watch

__all__ = ["Offer", "Offers"]

Words: TypeAlias = NDArray[np.int32]


class Offer(NamedTuple):
    """The mask of one place, and the ids that end the answer there.  Never changed, so forks share it."""

    words: Words
    forced: int | None = None  #: the one legal token, where there is but one
    end_ids: tuple[int, ...] = ()  #: of the ends that are open, the ones to prefer first
    taken: Words | None = None  #: what the engine would allow and a watcher does not
    is_repaired: bool = False  #: the engine forced a marker that it would itself refuse


class Offers:
    """What is the same in every mask of one plan on one engine.  Immutable but for the thread's scratch; share it."""

    def __init__(self, plan: Plan, engine: Engine, entry: str = "") -> None:
        self.engine = engine
        size = engine.vocab_size
        self._sizes = (int(engine.ll_tokenizer.vocab_size), size)
        self._last = num_words(size) - 1
        self._markers = engine.tokens.marker_ids
        #: the token that stands for the only end where the grammar has no sentinels
        self.eos = engine.grammar_of(plan, entry)[1]
        #: word and bit of each sentinel (or of that token), and the end that is open where it is set
        self._sentinels = tuple((at >> 5, 1 << (at & 31), end) for end in plan.ends for at in (self.sentinel(end),))
        self._end_bits = {end.sentinel: from_ids(end.ids, size) for end in plan.ends}
        # Where tokens do not fill their last word, the first sentinels stand in it.
        self._spare = size % 32
        self._below = np.uint32((1 << self._spare) - 1)

    def sentinel(self, end: End) -> int:
        """The id that the engine offers where ``end`` is open."""
        return end.sentinel if self.eos is None else self.eos

    def accepts(self, end: End, matcher: Any, tokens: Sequence[int] = ()) -> bool:
        """Is ``end`` open behind ``tokens``, all of which the engine takes?"""
        if self.eos is not None and not tokens:
            return bool(matcher.is_accepting())  # behind a whole value the engine has stopped and validates nothing
        return int(matcher.validate_tokens([*tokens, self.sentinel(end)])) == len(tokens) + 1

    def single(self, token_id: int) -> Offer:
        """The offer of a place where one token is forced."""
        return Offer(from_ids((token_id,), self.engine.vocab_size), token_id)

    def only(self, ids: tuple[int, ...]) -> Offer:
        """The offer of a place behind an end."""
        return Offer(from_ids(ids, self.engine.vocab_size))

    def read(self, matcher: Any, watch: Watch | None = None) -> Offer | None:
        """What ``matcher`` offers, less what ``watch`` takes from it; None when the engine is in error."""
        _, address, size_bytes, items, row = scratch_of(self._sizes)
        matcher.unsafe_compute_mask_ptr(address, size_bytes)
        if matcher.is_error():
            return None
        # Read now: whatever is asked of the engine next may write to the scratch row.
        ends: tuple[End, ...] = ()
        for at, bit, end in self._sentinels:
            if items[at] & bit:
                ends += (end,)
        if ends and self.eos is not None and not matcher.is_accepting():
            ends = ()  # a constant spells the engine's end token, see `_spelled`
        words = row.copy()
        if ends and self.eos is not None:  # it may be no end of this plan
            words.view(np.uint32)[self.eos >> 5] &= ~np.uint32(1 << (self.eos & 31))
        if self._spare and items[self._last] >> self._spare:
            words.view(np.uint32)[-1] &= self._below
        repaired = False
        only = only_id(words)
        if only is not None and only in self._markers and matcher.validate_tokens([only]) != 1:
            words, repaired = self._spelled(words, matcher)
            only = only_id(words)
        if watch is None and not ends:  # the usual case
            return Offer(words, only, (), None, repaired)
        taken: Words | None = None
        if watch is not None:
            before = words.copy()
            watch.restrict(words, matcher, may_end=bool(ends))
            taken = before & ~words
        for end in ends:
            words |= self._end_bits[end.sentinel]
        end_ids = tuple(dict.fromkeys(i for end in ends for i in end.ids))
        return Offer(words, only_id(words), end_ids, taken, repaired)

    def _spelled(self, words: Words, matcher: Any) -> tuple[Words, bool]:
        """The mask where the engine forces a marker that it would itself refuse: the spelled-out pieces instead.

        Client text that spells an added token is forced as that token's id (llguidance 1.9.1, its issue with
        literals equal to added tokens); every ordinary token that begins the forced bytes is right.
        """
        ids = self.engine.tokens_within(bytes(matcher.compute_ff_bytes()))
        ids = [i for i in ids if matcher.validate_tokens([i]) == 1]
        return (from_ids(ids, self.engine.vocab_size), True) if ids else (words, False)
