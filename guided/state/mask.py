"""Read the token mask of one position from the engine, and replace sentinels by the ends that they stand for.

Values that are the same at every position (words and bits of the sentinels, masks of the ends) are computed once per
plan and engine, so that a mask costs little more than the engine takes to fill it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grammars.plan.plan import End, Plan
from guided.bitmask import from_ids, num_words, only_id
from guided.engine.engine import Engine
from guided.tracking.commit_log import CommitLog
from guided.watchers.watch import SequenceWatcher

__all__ = ["MaskReader", "MaskRow", "TokenMask", "Words"]

Words: TypeAlias = NDArray[np.int32]

_MAX_FORCED_MASKS = 64  # masks of one forced token that a row keeps


@dataclass(eq=False, slots=True)
class TokenMask:
    """The mask of one position, and the ids that end the answer there.

    Immutable, so forks share it.  Its words are the memory of a `MaskRow`, which is not written to while the mask is in
    use.
    """

    words: Words
    forced: int | None = None  #: the one legal token, if there is only one
    end_ids: tuple[int, ...] = ()  #: the ids of the ends that are open, preferred ones first
    taken: Words | None = None  #: tokens that the engine allows and a watcher forbids
    is_repaired: bool = False  #: the engine forced a token that it would itself refuse, see `_repaired`
    may_end: bool = False  #: an end is open, perhaps one without an id


class MaskRow:
    """The memory into which the engine writes the masks of one sequence, with the sentinels after the tokens.

    Each sequence owns one, so that the mask need not be copied: the engine writes without holding the interpreter's
    lock, and threads must not share the memory.  It also holds the tokens that are known to be forced next.
    """

    __slots__ = (
        "_flags", "_forced", "_vocab_size", "address", "ahead", "items", "last", "nbytes", "plain", "words",
    )  # fmt: skip

    def __init__(self, num_ids: int, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self.nbytes = 4 * num_words(num_ids)
        self.address = 0  #: 0 before the first mask: many forks write none
        self.last = -1  #: the token before this position; -1 if it is not known
        #: the tokens that are known to be forced next, in reverse order; no watcher forbids one of them
        self.ahead: list[int] = []

    def allocate(self) -> None:
        """Take memory, before the first mask."""
        memory = bytearray(self.nbytes)
        self.items = memoryview(memory).cast("I")  #: the words as Python integers, which numpy converts slowly
        #: the words without the sentinels
        self.words: Words = np.frombuffer(memory, dtype=np.int32, count=num_words(self._vocab_size))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.plain = TokenMask(self.words)  #: the mask of most positions: several legal tokens and no end
        self._flags = self.words.view(np.bool_)  # by byte
        self._forced: dict[int, TokenMask] = {}

    def commit(self, token_id: int) -> None:
        """Move one position on, after ``token_id`` was committed."""
        self.last = token_id
        if self.ahead and self.ahead.pop() != token_id:  # the sequence writes the same text with other tokens
            self.ahead.clear()

    def forget(self) -> None:
        """Forget the position: the next mask belongs to another one."""
        self.last = -1
        self.ahead.clear()

    def only_id(self) -> int | None:
        """As `guided.bitmask.only_id` of the mask, but faster."""
        if np.count_nonzero(self.words) != 1:
            return None
        at = int(self._flags.argmax()) >> 2
        word = self.items[at]
        return 32 * at + word.bit_length() - 1 if word & (word - 1) == 0 else None

    def force(self, token_id: int) -> TokenMask:
        """Write and return the mask of a position where ``token_id`` is known to be forced."""
        if not self.address:
            self.allocate()
        self.words.fill(0)
        self.items[token_id >> 5] = 1 << (token_id & 31)
        return self.forced(token_id)

    def forced(self, token_id: int) -> TokenMask:
        """Return the mask for words in which the engine has allowed ``token_id`` alone, and no end."""
        mask = self._forced.get(token_id)
        if mask is None:
            if len(self._forced) == _MAX_FORCED_MASKS:
                self._forced.clear()
            mask = self._forced[token_id] = TokenMask(self.words, token_id)
        return mask


class _Kind(NamedTuple):
    """The kind of a forced token: whether the engine may force it wrongly, and whether it splits a character."""

    is_doubtful: bool
    is_torn: bool


class _ForcedTokens:
    """Facts about an engine's tokens for runs of forced tokens, collected as they are met; shared by all masks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: by token (last entry: no token yet): 1 if nothing was forced after it the last time, so not worth asking
        self.quiet = bytearray(engine.vocab_size + 1)
        self._kinds: dict[int, _Kind] = {}

    def kind(self, token_id: int) -> _Kind:
        """Return the kind of a token; it is doubtful if the engine may be wrong to allow it and nothing else.

        The engine forces a marker token where a client's text spells it, and a space in place of U+2581, see
        `MaskReader._repaired`.  When its lexer has run out of states, llguidance 1.9.1 takes a sentinel for the text by
        which it is written in the grammar, ``[`` and a number.
        """
        kind = self._kinds.get(token_id)
        if kind is None:
            engine = self._engine
            data = engine.token_bytes(token_id)
            is_doubtful = token_id in engine.tokens.marker_ids or data.startswith(b"[")
            is_doubtful = is_doubtful or (engine.blurs_spaces and b" " in data)
            kind = self._kinds[token_id] = _Kind(is_doubtful, _is_torn(data))
        return kind


class MaskReader:
    """Reads masks of one plan from one engine.  Immutable; share it."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.engine = engine
        self._forced = engine.derived(_ForcedTokens)
        self._quiet = self._forced.quiet
        size = engine.vocab_size
        self._sizes = (int(engine.ll_tokenizer.vocab_size), size)
        self._markers = engine.tokens.marker_ids
        #: word and bit of each sentinel, and the end that is open where it is set
        self._sentinels = tuple((end.sentinel >> 5, 1 << (end.sentinel & 31), end) for end in plan.ends)
        self._end_bits = {end.sentinel: tuple((i >> 5, 1 << (i & 31)) for i in end.ids) for end in plan.ends}
        self._last = num_words(size) - 1
        self._below = (1 << size % 32) - 1 if size % 32 else 0xFFFFFFFF
        self._special = self._special_bits()
        #: Two words that both have legal tokens wherever many tokens are legal, as in text.  Then no token need be
        #: counted, nor the engine asked for an error: in an error it allows only an end.
        self._text_word, self._other_text_word = self._last // 3, self._last - self._last // 3
        if self._text_word == self._other_text_word:
            self._special = ((self._text_word, 0xFFFFFFFF), *self._special)  # few tokens: they are counted

    def _special_bits(self) -> tuple[tuple[int, int], ...]:
        """Return words and their bits that are set only where an end is open: sentinels and padding."""
        bits: dict[int, int] = {}
        for at, bit, _ in self._sentinels:
            bits[at] = bits.get(at, 0) | bit
        # Where tokens do not fill their last word, the first sentinels are in it.
        if self._below != 0xFFFFFFFF:
            bits[self._last] = bits.get(self._last, 0) | (0xFFFFFFFF ^ self._below)
        return tuple(bits.items())

    def accepts(self, end: End, matcher: Any) -> bool:
        """Whether the engine accepts ``end`` here."""
        return int(matcher.validate_tokens([end.sentinel])) == 1

    def row(self) -> MaskRow:
        """Return memory for the masks of one sequence."""
        return MaskRow(*self._sizes)

    def only(self, ids: tuple[int, ...], forced: int | None = None) -> TokenMask:
        """Return the mask that allows ``ids``."""
        return TokenMask(from_ids(ids, self.engine.vocab_size), forced)

    def _find_run(self, matcher: Any, row: MaskRow, log: CommitLog, watch: SequenceWatcher | None) -> bool:
        """Ask for forced tokens and keep in ``row`` those that masks would force, too; False if there are none.

        Only the mask shows whether an end is open, and whether a forced marker is a client's text.  To ask for the
        tokens costs little if a mask is computed next: the engine computes them first in any case.
        """
        tokens = matcher.compute_ff_tokens()
        is_forced = bool(tokens)
        for i, token in enumerate(tokens):
            if token >= self._sizes[1] or self._forced.kind(token).is_doubtful:  # a sentinel, or perhaps wrong
                del tokens[i:]
            elif self._forced.kind(token).is_torn:  # after part of a character, masks force other tokens
                del tokens[i + 1 :]
            else:
                continue
            break
        if tokens and watch is not None:
            tokens = watch.free_run(log, tokens)
        row.ahead = tokens[::-1]
        self._quiet[row.last] = not tokens
        return is_forced

    def forced_next(
        self, matcher: Any, row: MaskRow, log: CommitLog, watch: SequenceWatcher | None
    ) -> tuple[int | None, bool]:
        """Return the token that is certainly forced next, or None; and whether the mask may show a forced one."""
        is_doubtful = not row.ahead and self._find_run(matcher, row, log, watch)
        return (row.ahead[-1], False) if row.ahead else (None, is_doubtful)

    def next(self, matcher: Any, row: MaskRow, log: CommitLog, watch: SequenceWatcher | None) -> TokenMask | None:
        """Return the mask of ``matcher``'s position, after ``log``, without the tokens that ``watch`` forbids.

        None if the matcher failed: it is in error, or its lexer has run out of states.  The words of the mask are in
        most cases the memory of ``row``, so they are valid until ``row`` is used again.

        For each mask inside a run of forced tokens the engine computes the whole rest of the run.  So the run is read
        once, at positions after a token after which a run began the last time.
        """
        last = row.last
        if not row.ahead and not self._quiet[last]:
            self._find_run(matcher, row, log, watch)
        if row.ahead:
            return row.force(row.ahead[-1])
        if not row.address:
            row.allocate()
        matcher.unsafe_compute_mask_ptr(row.address, row.nbytes)
        if watch is not None and (not watch.may_restrict(log) or watch.is_quiet(row.words)):
            watch = None  # the usual case
        items = row.items
        if watch is None and items[self._text_word] and items[self._other_text_word]:
            for at, bits in self._special:
                if items[at] & bits:
                    break
            else:
                return row.plain  # the usual case
        mask = self._checked(matcher, row, watch)
        if mask is not None and mask is not row.plain and mask.forced is not None:
            self._quiet[last] = False
        return mask

    def _checked(self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None) -> TokenMask | None:
        """Return the mask that `next` returns for the words that the engine has written."""
        if matcher.is_error():
            return None
        items = row.items
        if watch is None and not any(items[at] & bits for at, bits in self._special):
            only = self._only_id(row.words, row)
            if only is None:
                return row.plain
            if not self._forced.kind(only).is_doubtful:
                return row.forced(only)
        mask = self._finished(matcher, row, watch)
        return None if matcher.is_error() else mask  # the calls above may have failed, too

    def _finished(self, matcher: Any, row: MaskRow, watch: SequenceWatcher | None) -> TokenMask | None:
        """Return the mask in which the ends that are open take the places of their sentinels."""
        items = row.items
        ends = tuple(end for at, bit, end in self._sentinels if items[at] & bit)
        items[self._last] &= self._below
        words, repaired = row.words, False
        only = self._only_id(words, row)
        if only is not None and self._forced.kind(only).is_doubtful and matcher.validate_tokens([only]) != 1:
            words, repaired = self._repaired(words, matcher)
            if not repaired and only not in self._markers:
                return None  # no states are left
            only = only_id(words)
        if watch is None and not ends:
            return TokenMask(words, only, (), None, repaired)
        taken: Words | None = None
        if watch is not None:
            before = words.copy()
            watch.restrict(words, matcher)
            taken = before & ~words
        items = words.view(np.uint32).data
        for end in ends:
            for at, bit in self._end_bits[end.sentinel]:
                items[at] |= bit
        end_ids = tuple(dict.fromkeys(i for end in ends for i in end.ids))
        return TokenMask(words, self._only_id(words, row), end_ids, taken, repaired, bool(ends))

    def _only_id(self, words: Words, row: MaskRow) -> int | None:
        """Return the id that alone is allowed; None if there are more or none."""
        if words is not row.words:
            return only_id(words)
        if row.items[self._text_word] and row.items[self._other_text_word] and self._text_word != self._other_text_word:
            return None
        return row.only_id()

    def _repaired(self, words: Words, matcher: Any) -> tuple[Words, bool]:
        """Return the mask where the engine forces a token that it would itself refuse; False if it stays as it is.

        llguidance 1.9.1 forces the id of an added token where a client's text spells that token, and a space for
        U+2581.  The right mask allows every ordinary token whose bytes are a prefix of the forced bytes.
        """
        ids = self.engine.tokens_within(bytes(matcher.compute_ff_bytes()))
        ids = [i for i in ids if matcher.validate_tokens([i]) == 1]
        return (from_ids(ids, self.engine.vocab_size), True) if ids else (words, False)


def _is_torn(data: bytes) -> bool:
    """Whether a token begins or ends inside a character."""
    if data.isascii():
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False
