"""Tokens that would end a key or an item as one that was there before.

They are found by what is written so far and by what was written before; whether anything else is left behind the other
tokens is asked by `guided.watchers.lookahead_duplicates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import UniqueNode
from guided.bitmask import is_allowed
from guided.watchers.json_scanner import Frame, Mode, ScanState, Seen, feed, is_compared, number_value
from guided.watchers.json_escapes import canonical, spellings, unfinished
from guided.watchers.vocabulary_index import TokenBytes, clear_ids

__all__ = ["DirectRepeats", "has_all"]

_LITERALS = (b"true", b"false", b"null")


class DirectRepeats:
    """Clears tokens of a mask; but for what was asked for last it does not change."""

    def __init__(self, nodes: tuple[UniqueNode, ...], tokens: TokenBytes) -> None:
        self.nodes = nodes
        self.tokens = tokens
        self._known: tuple[Frame | None, Sequence[int]] = (None, ())  # frames and what they have seen never change

    def clear(self, words: NDArray[np.int32], scan: ScanState) -> None:
        """Clear what repeats in ``words``: int32 [ceil(vocab / 32)], one bit a token."""
        self._clear_direct(words, scan)
        clear_ids(words, [i for i in self.crossing(scan) if is_allowed(words, i) and self._repeats(scan, i)])

    def crossing(self, scan: ScanState) -> Sequence[int]:
        """Tokens that may end more than one JSON token, the last of them as a repeat."""
        crossings, frame = self.tokens.crossings, scan.frame
        last, known = self._known
        if last is not frame:  # inside a string, and mostly elsewhere, it is the one of the token before
            known = crossings.known(frame)
            self._known = frame, known
        mirrors: Sequence[int] = ()
        if scan.mode is not Mode.STRING or is_compared(frame, self.nodes):
            mirrors = crossings.mirrors(scan)
        if self.nodes or mirrors:
            return [*known, *mirrors, *(crossings.words if self.nodes else ())]
        return known

    def _repeats(self, scan: ScanState, token_id: int) -> bool:
        after = feed(scan, self.tokens.of[token_id], self.nodes)
        if after.repeated or after.mode is not Mode.LITERAL or after.frame is None:
            return after.repeated
        # A literal is decided by its first letter.
        return any((Mode.LITERAL, word) in after.frame.seen for word in _LITERALS if word.startswith(after.text))

    def _clear_direct(self, words: NDArray[np.int32], scan: ScanState) -> None:
        """Tokens that end the current key or scalar as one that was there before."""
        frame = scan.frame
        assert frame is not None
        match scan.mode:
            case Mode.IN_KEY:
                self._clear_strings(words, scan.text, frame.seen)
            case Mode.STRING if not frame.is_object:
                self._clear_strings(words, scan.text, frame.seen)
            case Mode.AFTER if has_all(frame, self.nodes):
                clear_ids(words, self.tokens.beginning(b","))
            case Mode.NUMBER | Mode.VALUE if not frame.is_object:
                self._clear_numbers(words, scan.text, frame.seen)
                if scan.mode is Mode.VALUE:
                    self._clear_literals(words, frame.seen)

    def _clear_strings(self, words: NDArray[np.int32], text: bytes, seen: Seen) -> None:
        """Tokens that end a string as one of ``seen``: of many that begin so the tokens are tried, which are fewer."""
        if unfinished(text):
            for rest in self.rests(text, seen):
                clear_ids(words, self.tokens.beginning(rest + b'"'))
            return
        ends = self.tokens.string_ends
        if seen.beginning(canonical(text), len(ends)) is not None:
            for rest in self.rests(text, seen):
                clear_ids(words, ends.get(rest, ()))
            return
        for rest, ids in ends.items():
            if seen.has_text(canonical(text + rest)):
                clear_ids(words, ids)

    def rests(self, text: bytes, seen: Seen) -> list[bytes]:
        """How ``text`` can go on to become one of ``seen``, as far as tokens may write it."""
        begun = b""
        if b"\\" in text or b"\x7f" in text:
            begun = unfinished(text)
            text = canonical(text).removesuffix(begun)
        size = len(text)
        rests = [before[size:] for before in seen.beginning(text) or ()]
        if begun or any(b"\\" in rest for rest in rests):
            return [way for rest in rests for way in spellings(rest, begun, self.tokens.may_be)]
        return rests

    def _clear_numbers(self, words: NDArray[np.int32], text: bytes, seen: Seen) -> None:
        if not seen.has_numbers:
            return
        if Fraction(0) in seen and not text.strip(b"-0."):  # whatever exponent follows, it stays zero
            _clear(words, self.tokens.exponents_of_zero)
        for digits, row in self.tokens.number_ends.items():
            try:
                if number_value(text + digits) in seen:
                    _clear(words, row)
            except (ValueError, ZeroDivisionError):
                continue

    def _clear_literals(self, words: NDArray[np.int32], seen: Seen) -> None:
        for word in _LITERALS:
            if (Mode.LITERAL, word) in seen:
                for size in range(1, len(word)):
                    clear_ids(words, self.tokens.ids.get(word[:size], ()))
                clear_ids(words, self.tokens.beginning(word))


def has_all(frame: Frame, nodes: Sequence[UniqueNode], more: int = 0) -> bool:
    """Has an array all the values that its items may have, or with so many ``more``?"""
    if frame.is_object or frame.node < 0 or not nodes[frame.node].values:
        return False
    return len(frame.seen) + more >= nodes[frame.node].values


def _clear(words: NDArray[np.int32], row: NDArray[np.int32]) -> None:
    np.bitwise_and(words, ~row[: len(words)], out=words)
