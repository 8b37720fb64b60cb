"""The mask of one place as the engine offers it: without sentinels, with the ends that they stand for.

What does not change from place to place (words and bits of the sentinels, masks of the ends) is worked out once per
plan and engine, so that a mask costs little more than the engine takes to fill it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grammars.plan.plan import End, Plan
from guided.bitmask import from_ids, num_words, only_id
from guided.engine.engine import Engine
from guided.watchers.watch import SequenceWatcher

__all__ = ["MaskRow", "Offer", "Offers"]

Words: TypeAlias = NDArray[np.int32]

_MOST_FORCED = 64  # offers that a row keeps


class Offer:
    """The mask of one place, and the ids that end the answer there.

    Never changed, so forks share it; its words are a `MaskRow`'s, which nobody writes to while the offer stands.
    """

    __slots__ = ("end_ids", "forced", "is_repaired", "may_end", "taken", "words")

    def __init__(
        self,
        words: Words,
        forced: int | None = None,
        end_ids: tuple[int, ...] = (),
        taken: Words | None = None,
        is_repaired: bool = False,
        may_end: bool = False,
    ) -> None:
        self.words = words
        self.forced = forced  #: the one legal token, where there is but one
        self.end_ids = end_ids  #: of the ends that are open, the ones to prefer first
        self.taken = taken  #: what the engine would allow and a watcher does not
        self.may_end = may_end  #: an end is open, be it one that no id stands for
        self.is_repaired = is_repaired  #: the engine forced a marker that it would itself refuse


class MaskRow:
    """Memory that one sequence has the engine write its masks into, sentinels behind the tokens.

    Its own, not its thread's: the engine fills it without holding the interpreter's lock, and the mask need not be
    copied out of it.  It also holds what is known of the next masks: the tokens that are forced next.
    """

    __slots__ = ("_flags", "_forced", "address", "ahead", "items", "last", "nbytes", "plain", "words")

    def __init__(self, num_ids: int, vocab_size: int) -> None:
        self.nbytes = 4 * num_words(num_ids)
        memory = bytearray(self.nbytes)
        self.items = memoryview(memory).cast("I")  #: the words as plain integers, which numpy's are slow to become
        #: the part that is a mask
        self.words: Words = np.frombuffer(memory, dtype=np.int32, count=num_words(vocab_size))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.plain = Offer(self.words)  #: the offer of most places: several legal tokens and no end
        self.last = -1  #: the token before, -1 where it is not known
        self.ahead: list[int] = []  #: the tokens that are known to be forced next, the last one first
        self._flags = self.words.view(np.bool_)  # by byte
        self._forced: dict[int, Offer] = {}

    @property
    def size_bytes(self) -> int:
        return self.nbytes + 8 * len(self.ahead)

    def commit(self, token_id: int) -> None:
        """``token_id`` was written."""
        self.last = token_id
        if self.ahead and self.ahead.pop() != token_id:  # another cut of the same text
            self.ahead.clear()

    def forget(self) -> None:
        """The next mask is that of some other place."""
        self.last = -1
        self.ahead.clear()

    def only_id(self) -> int | None:
        """What `guided.bitmask.only_id` says of the mask, sooner."""
        if np.count_nonzero(self.words) != 1:
            return None
        at = int(self._flags.argmax()) >> 2
        word = self.items[at]
        return 32 * at + word.bit_length() - 1 if word & (word - 1) == 0 else None

    def force(self, token_id: int) -> Offer:
        """The offer of a place where ``token_id`` is known to be forced; writes its mask."""
        self.words.fill(0)
        self.items[token_id >> 5] = 1 << (token_id & 31)
        return self.forced(token_id)

    def forced(self, token_id: int) -> Offer:
        """The offer of a place where the mask allows ``token_id`` alone, and no end."""
        found = self._forced.get(token_id)
        if found is None:
            if len(self._forced) == _MOST_FORCED:
                self._forced.clear()
            found = self._forced[token_id] = Offer(self.words, token_id)
        return found


class Offers:
    """What is the same in every mask of one plan on one engine.  Immutable; share it."""

    def __init__(self, plan: Plan, engine: Engine, entry: str = "") -> None:
        self.engine = engine
        self.quiet = engine.quiet
        size = engine.vocab_size
        self._sizes = (int(engine.ll_tokenizer.vocab_size), size)
        self._markers = engine.tokens.marker_ids
        self._blurs_spaces = engine.blurs_spaces
        #: the token that stands for the only end where the grammar has no sentinels
        self.eos = engine.grammar_of(plan, entry)[1]
        #: word and bit of each sentinel (or of that token), and the end that is open where it is set
        self._sentinels = tuple((at >> 5, 1 << (at & 31), end) for end in plan.ends for at in (self.sentinel(end),))
        self._end_bits = {end.sentinel: tuple((i >> 5, 1 << (i & 31)) for i in end.ids) for end in plan.ends}
        self._last = num_words(size) - 1
        self._below = (1 << size % 32) - 1 if size % 32 else 0xFFFFFFFF
        self._special = self._special_bits()
        #: Two words that have legal tokens wherever there are many, as in text: no need to count them, nor to ask for
        #: an error, where the engine offers an end alone.
        self._one, self._other = self._last // 3, self._last - self._last // 3
        if self._one == self._other:
            self._special = ((self._one, 0xFFFFFFFF), *self._special)  # so few tokens are counted

    def _special_bits(self) -> tuple[tuple[int, int], ...]:
        """Words and their bits that are set only where an end is open: sentinels, and what may stand beside them."""
        bits: dict[int, int] = {}
        for at, bit, _ in self._sentinels:
            bits[at] = bits.get(at, 0) | bit
        # Where tokens do not fill their last word, the first sentinels stand in it.
        if self._below != 0xFFFFFFFF:
            bits[self._last] = bits.get(self._last, 0) | (0xFFFFFFFF ^ self._below)
        return tuple(bits.items())

    def sentinel(self, end: End) -> int:
        """The id that the engine offers where ``end`` is open."""
        return end.sentinel if self.eos is None else self.eos

    def accepts(self, end: End, matcher: Any, tokens: Sequence[int] = ()) -> bool:
        """Is ``end`` open behind ``tokens``, all of which the engine takes?"""
        if self.eos is not None and not tokens:
            return bool(matcher.is_accepting())  # behind a whole value the engine has stopped and validates nothing
        return int(matcher.validate_tokens([*tokens, self.sentinel(end)])) == len(tokens) + 1

    def row(self) -> MaskRow:
        """Memory for the masks of one sequence."""
        return MaskRow(*self._sizes)

    def single(self, token_id: int) -> Offer:
        """The offer of a place where one token is forced."""
        return Offer(from_ids((token_id,), self.engine.vocab_size), token_id)

    def only(self, ids: tuple[int, ...]) -> Offer:
        """The offer of a place behind an end."""
        return Offer(from_ids(ids, self.engine.vocab_size))

    def forced_ahead(self, matcher: Any) -> list[int]:
        """The tokens that ``matcher`` forces next, the last one first; as far as masks would say the same.

        Costs little where a mask is computed behind it: the engine itself asks first, and remembers.
        """
        tokens: list[int] = matcher.compute_ff_tokens()
        for i, token in enumerate(tokens):
            if token >= self.engine.vocab_size or self._is_doubtful(token):  # a sentinel, or not sure
                del tokens[i:]
            elif _is_torn(self.engine.token_bytes(token)):  # behind a part of a character the engine cuts otherwise
                del tokens[i + 1 :]
            else:
                continue
            break
        tokens.reverse()
        return tokens

    def next(self, matcher: Any, row: MaskRow) -> Offer | None:
        """What `read` gives, sooner where a run of forced tokens is known or behind a token that often begins one.

        For each mask inside a run the engine works out all the rest of it; a run that is asked for costs that once.
        """
        ahead, last = row.ahead, row.last
        if not ahead and not self.quiet[last]:
            ahead = row.ahead = self.forced_ahead(matcher)
            self.quiet[last] = not ahead
        if ahead:
            return row.force(ahead[-1])
        matcher.unsafe_compute_mask_ptr(row.address, row.nbytes)
        items = row.items
        if items[self._one] and items[self._other]:
            for at, bits in self._special:
                if items[at] & bits:
                    break
            else:
                return row.plain  # the usual case
        offer = self._judged(matcher, row)
        if offer is not row.plain and offer is not None and offer.forced is not None:
            self.quiet[last] = False
        return offer

    def read(self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None = None) -> Offer | None:
        """What ``matcher`` offers, less what ``watch`` takes from it; None when the engine is in error or at a loss.

        The words are those of ``row`` in most cases, good until it is read into again.
        """
        matcher.unsafe_compute_mask_ptr(row.address, row.nbytes)
        return self._judged(matcher, row, watch)

    def _judged(self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None = None) -> Offer | None:
        """What `read` says of the words that the engine has written."""
        if matcher.is_error():
            return None
        items = row.items
        if watch is None and not any(items[at] & bits for at, bits in self._special):
            only = self._only_id(row.words, row)
            if only is None:
                return row.plain
            if not self._is_doubtful(only):
                return row.forced(only)
        offer = self._with_ends(matcher, row, watch)
        return None if matcher.is_error() else offer  # it was asked for more than a mask

    def _is_doubtful(self, only: int) -> bool:
        """May the engine be wrong when it offers ``only`` and nothing else?

        A marker it forces where a client's text spells it, and a space for the character that SentencePiece writes
        spaces as, see `_spelled`.  And behind the last state of its lexer a sentinel looks like the text that it is
        written as, ``[`` and a number, to llguidance 1.9.1.
        """
        data = self.engine.token_bytes(only)
        return only in self._markers or data.startswith(b"[") or (self._blurs_spaces and b" " in data)

    def _with_ends(self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None) -> Offer | None:
        """The offer of a place where sentinels are set: they go, the ends that they stand for come."""
        items = row.items
        ends = tuple(end for at, bit, end in self._sentinels if items[at] & bit)
        if self.eos is not None and ends:
            if matcher.is_accepting():
                items[self.eos >> 5] &= ~(1 << (self.eos & 31))  # it may be no end of this plan
            else:
                ends = ()  # a constant spells the engine's end token, see `_spelled`
        items[self._last] &= self._below
        return self._finished(matcher, row, watch, ends)

    def _finished(
        self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None, ends: tuple[End, ...]
    ) -> Offer | None:
        """The offer of a row without sentinels where ``ends`` are open."""
        words, repaired = row.words, False
        only = self._only_id(words, row)
        if only is not None and self._is_doubtful(only) and matcher.validate_tokens([only]) != 1:
            words, repaired = self._spelled(words, matcher)
            if not repaired and only not in self._markers:
                return None  # no states are left
            only = only_id(words)
        if watch is None and not ends:
            return Offer(words, only, (), None, repaired)
        taken: Words | None = None
        if watch is not None:
            before = words.copy()
            watch.restrict(words, matcher, may_end=bool(ends))
            taken = before & ~words
        items = words.view(np.uint32).data
        for end in ends:
            for at, bit in self._end_bits[end.sentinel]:
                items[at] |= bit
        end_ids = tuple(dict.fromkeys(i for end in ends for i in end.ids))
        return Offer(words, self._only_id(words, row), end_ids, taken, repaired, bool(ends))

    def _only_id(self, words: Words, row: MaskRow) -> int | None:
        """The id that alone is allowed; None where there are more or none."""
        if words is not row.words:
            return only_id(words)
        if row.items[self._one] and row.items[self._other] and self._one != self._other:
            return None
        return row.only_id()

    def _spelled(self, words: Words, matcher: Any) -> tuple[Words, bool]:
        """The mask where the engine forces a token that it would itself refuse: the spelled-out pieces instead.

        Client text that spells an added token is forced as that token's id (llguidance 1.9.1, its issue with
        literals equal to added tokens), and U+2581 as a space; every ordinary token that begins the forced bytes is
        right.
        """
        ids = self.engine.tokens_within(bytes(matcher.compute_ff_bytes()))
        ids = [i for i in ids if matcher.validate_tokens([i]) == 1]
        return (from_ids(ids, self.engine.vocab_size), True) if ids else (words, False)


def _is_torn(data: bytes) -> bool:
    """Does a token end inside a character, or begin there?"""
    if data.isascii():
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False
