"""The direct duplicate filter: finds and clears tokens that complete a key or an item that was written before.

It uses only the text so far; whether the remaining tokens can still lead to a new key or item is decided by
`guided.watchers.lookahead_duplicates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from grammars.values.json_escapes import canonical, escaped_forms, split_escape
from grammars.values.json_scanner import ScanFrame, ScanState, feed, is_compared, item_value
from grammars.values.persistent_set import Mode, PersistentSet
from grammars.values.watchers import UniqueNode
from guided.bitmask import allowed_of, clear_ids
from guided.watchers.vocabulary_index import VocabularyIndex

__all__ = ["DirectDuplicates", "is_exhausted"]

_LITERALS = (b"true", b"false", b"null")


class DirectDuplicates:
    """Finds the tokens of a mask that complete a duplicate.  Immutable, but for a cache of the last answers."""

    def __init__(self, nodes: tuple[UniqueNode, ...], tokens: VocabularyIndex) -> None:
        self.nodes = nodes
        self.tokens = tokens
        self._last_holding: tuple[ScanFrame | None, Sequence[int]] = (None, ())  # frames and states never change
        self._last: tuple[ScanState | None, tuple[Sequence[int], Sequence[int]]] = (None, ((), ()))

    def clear(self, words: NDArray[np.int32], scan: ScanState) -> None:
        """Clear the tokens in ``words`` (int32 [ceil(vocab / 32)], one bit a token) that complete a duplicate."""
        clear_ids(words, self.repeating(words, scan))

    def repeating(self, words: NDArray[np.int32], scan: ScanState) -> list[int]:
        """Return the tokens of ``words`` that complete a duplicate."""
        ending, spanning = self.candidates(scan)
        return [
            *allowed_of(words, ending),
            *(i for i in allowed_of(words, spanning) if self._is_duplicate(scan, i)),
        ]

    def candidates(self, scan: ScanState) -> tuple[Sequence[int], Sequence[int]]:
        """Return the tokens that end the current key or scalar as a duplicate, and those that may span one.

        The second ones are scanned if the mask allows them; no other token is looked at.
        """
        last, token_ids = self._last
        if last is scan:
            return token_ids
        mode, frame = scan.mode, scan.frame
        index, spanning = self.tokens.boundary_tokens, self._holding(frame)
        if mode is Mode.IN_KEY or (mode is Mode.STRING and is_compared(frame, self.nodes)):
            if again := index.repeating_current(scan.text):
                spanning = [*spanning, *again]
        elif not self.nodes:  # only keys are compared
            return (), spanning
        if self.nodes:
            spanning = [*spanning, *index.with_scalars]
        token_ids = self._ending(scan), spanning
        self._last = scan, token_ids
        return token_ids

    def _holding(self, frame: ScanFrame | None) -> Sequence[int]:
        """Return the tokens that contain a key or item of ``frame`` or of one around it, or the same one twice."""
        last, token_ids = self._last_holding
        if last is not frame:  # mostly it is that of the token before
            token_ids = self.tokens.boundary_tokens.holding_written(frame, bool(self.nodes))
            self._last_holding = frame, token_ids
        return token_ids

    def _is_duplicate(self, scan: ScanState, token_id: int) -> bool:
        after = feed(scan, self.tokens.token_bytes[token_id], self.nodes)
        if after.is_duplicate or after.mode is not Mode.LITERAL or after.frame is None:
            return after.is_duplicate
        # A literal is decided by its first letter.
        return any((Mode.LITERAL, word) in after.frame.written for word in _LITERALS if word.startswith(after.text))

    def _ending(self, scan: ScanState) -> Sequence[int]:
        """Tokens that end the current key or scalar as one that was written before."""
        frame = scan.frame
        if frame is None or not len(frame.written):
            return ()
        match scan.mode:
            case Mode.IN_KEY:
                return self._string_ends(scan.text, frame.written)
            case Mode.STRING if not frame.is_object:
                return self._string_ends(scan.text, frame.written)
            case Mode.AFTER if is_exhausted(frame, self.nodes):
                return self.tokens.with_prefix(b",")
            case Mode.NUMBER if not frame.is_object:
                return self._number_ends(scan.text, frame.written)
            case Mode.VALUE if not frame.is_object:
                return [*self._number_ends(b"", frame.written), *self._literals(frame.written)]
        return ()

    def _string_ends(self, text: bytes, written: PersistentSet) -> list[int]:
        """Return the tokens that end a string as one of ``written``; loops over the fewer of strings and tokens."""
        start, begun = split_escape(text)
        if not written.has_prefix(start):
            return []
        if begun:
            rests = self.completions(text, written)
            return [i for ending in rests for i in self.tokens.with_prefix(ending + b'"')]
        ends = self.tokens.string_ends
        if written.with_prefix(start, len(ends)) is not None:
            return [i for ending in self.completions(text, written) for i in ends.get(ending, ())]
        return [i for ending, ids in ends.items() if written.has_text(canonical(text + ending)) for i in ids]

    def completions(self, text: bytes, written: PersistentSet) -> list[bytes]:
        """Return the texts that complete ``text`` to one of ``written``, as far as tokens can write them."""
        start, begun = split_escape(text)
        rests = [before[len(start) :] for before in written.with_prefix(start) or ()]
        if begun or any(b"\\" in ending for ending in rests):
            return [way for ending in rests for way in escaped_forms(ending, begun, self.tokens.has_prefix)]
        return rests

    def _number_ends(self, text: bytes, written: PersistentSet) -> list[int]:
        """Return the tokens that end a number as one of ``written``."""
        if not written.has_numbers:
            return []
        # Zero with any exponent is zero.
        is_zero = Fraction(0) in written and not text.strip(b"-0.")
        token_ids = [*self.tokens.exponents_of_zero] if is_zero else []
        for digits, ids in self.tokens.number_ends.items():
            if item_value(Mode.NUMBER, text + digits) in written:
                token_ids += ids
        return token_ids

    def _literals(self, written: PersistentSet) -> Iterator[int]:
        for word in _LITERALS:
            if (Mode.LITERAL, word) in written:
                for size in range(1, len(word)):
                    yield from self.tokens.ids.get(word[:size], ())
                yield from self.tokens.with_prefix(word)


def is_exhausted(frame: ScanFrame, nodes: Sequence[UniqueNode], more: int = 0) -> bool:
    """Whether an array, with ``more`` further items, has all the values that its items may have."""
    if frame.is_object or frame.node < 0 or not nodes[frame.node].values:
        return False
    return len(frame.written) + more >= nodes[frame.node].values
