"""The direct duplicate filter: clears tokens that complete a key or an item that was written before.

It uses only the text so far; whether the remaining tokens can still lead to a new key or item is decided by
`guided.watchers.lookahead_duplicates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import UniqueNode
from guided.bitmask import is_allowed
from guided.watchers.json_escapes import canonical, escaped_forms, unfinished_escape
from guided.watchers.json_scanner import ScanFrame, ScanState, feed, is_compared, number_value
from guided.watchers.persistent_set import Mode, PersistentSet
from guided.watchers.vocabulary_index import VocabularyIndex, clear_ids

__all__ = ["DirectDuplicates", "is_exhausted"]

_LITERALS = (b"true", b"false", b"null")


class DirectDuplicates:
    """Clears tokens of a mask.  Immutable, but for a cache of the last answer."""

    def __init__(self, nodes: tuple[UniqueNode, ...], tokens: VocabularyIndex) -> None:
        self.nodes = nodes
        self.tokens = tokens
        self._known: tuple[ScanFrame | None, Sequence[int]] = (None, ())  # frames never change

    def clear(self, words: NDArray[np.int32], scan: ScanState) -> None:
        """Clear the tokens in ``words`` (int32 [ceil(vocab / 32)], one bit a token) that complete a duplicate."""
        self._clear_direct(words, scan)
        clear_ids(
            words, [i for i in self.boundary_candidates(scan) if is_allowed(words, i) and self._is_duplicate(scan, i)]
        )

    def boundary_candidates(self, scan: ScanState) -> Sequence[int]:
        """Tokens that may span a JSON boundary and complete a duplicate."""
        index, frame = self.tokens.boundary_tokens, scan.frame
        last, known = self._known
        if last is not frame:  # inside a string, and mostly elsewhere, it is the frame of the token before
            known = index.holding_written(frame)
            self._known = frame, known
        repeating: Sequence[int] = ()
        if scan.mode is not Mode.STRING or is_compared(frame, self.nodes):
            repeating = index.repeating_current(scan)
        if self.nodes or repeating:
            return [*known, *repeating, *(index.with_scalars if self.nodes else ())]
        return known

    def _is_duplicate(self, scan: ScanState, token_id: int) -> bool:
        after = feed(scan, self.tokens.token_bytes[token_id], self.nodes)
        if after.is_duplicate or after.mode is not Mode.LITERAL or after.frame is None:
            return after.is_duplicate
        # A literal is decided by its first letter.
        return any((Mode.LITERAL, word) in after.frame.written for word in _LITERALS if word.startswith(after.text))

    def _clear_direct(self, words: NDArray[np.int32], scan: ScanState) -> None:
        """Clear the tokens that end the current key or scalar as one that was written before."""
        frame = scan.frame
        assert frame is not None
        match scan.mode:
            case Mode.IN_KEY:
                self._clear_strings(words, scan.text, frame.written)
            case Mode.STRING if not frame.is_object:
                self._clear_strings(words, scan.text, frame.written)
            case Mode.AFTER if is_exhausted(frame, self.nodes):
                clear_ids(words, self.tokens.with_prefix(b","))
            case Mode.NUMBER | Mode.VALUE if not frame.is_object:
                self._clear_numbers(words, scan.text, frame.written)
                if scan.mode is Mode.VALUE:
                    self._clear_literals(words, frame.written)

    def _clear_strings(self, words: NDArray[np.int32], text: bytes, written: PersistentSet) -> None:
        """Clear the tokens that end a string as one of ``written``; loops over the fewer of strings and tokens."""
        if unfinished_escape(text):
            for rest in self.completions(text, written):
                clear_ids(words, self.tokens.with_prefix(rest + b'"'))
            return
        ends = self.tokens.string_ends
        if written.with_prefix(canonical(text), len(ends)) is not None:
            for rest in self.completions(text, written):
                clear_ids(words, ends.get(rest, ()))
            return
        for rest, ids in ends.items():
            if written.has_text(canonical(text + rest)):
                clear_ids(words, ids)

    def completions(self, text: bytes, written: PersistentSet) -> list[bytes]:
        """Return the texts that complete ``text`` to one of ``written``, as far as tokens can write them."""
        begun = b""
        if b"\\" in text or b"\x7f" in text:
            begun = unfinished_escape(text)
            text = canonical(text).removesuffix(begun)
        size = len(text)
        rests = [before[size:] for before in written.with_prefix(text) or ()]
        if begun or any(b"\\" in rest for rest in rests):
            return [way for rest in rests for way in escaped_forms(rest, begun, self.tokens.has_prefix)]
        return rests

    def _clear_numbers(self, words: NDArray[np.int32], text: bytes, written: PersistentSet) -> None:
        if not written.has_numbers:
            return
        if Fraction(0) in written and not text.strip(b"-0."):  # zero with any exponent is zero
            _clear(words, self.tokens.exponents_of_zero)
        for digits, row in self.tokens.number_ends.items():
            try:
                if number_value(text + digits) in written:
                    _clear(words, row)
            except (ValueError, ZeroDivisionError):
                continue

    def _clear_literals(self, words: NDArray[np.int32], written: PersistentSet) -> None:
        for word in _LITERALS:
            if (Mode.LITERAL, word) in written:
                for size in range(1, len(word)):
                    clear_ids(words, self.tokens.ids.get(word[:size], ()))
                clear_ids(words, self.tokens.with_prefix(word))


def is_exhausted(frame: ScanFrame, nodes: Sequence[UniqueNode], more: int = 0) -> bool:
    """Whether an array, with ``more`` further items, has all the values that its items may have."""
    if frame.is_object or frame.node < 0 or not nodes[frame.node].values:
        return False
    return len(frame.written) + more >= nodes[frame.node].values


def _clear(words: NDArray[np.int32], row: NDArray[np.int32]) -> None:
    np.bitwise_and(words, ~row[: len(words)], out=words)
