"""What watchers take out of the masks of one JSON value: repeats, digits without end, exponents without bound.

`ValueWatch.restrict` takes bits out of a mask that the engine has filled.  It never takes the last way on: where no
other exists the repeat stays legal, and the schema's report says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import DigitWatch, UniqueWatch, Watcher
from guided.bitmask import allowed_ids, is_allowed
from guided.watchers.json_scanner import Mode, ScanState
from guided.watchers.number_range import most_exponent
from guided.watchers.lookahead_duplicates import Repeats
from guided.watchers.vocabulary_index import TokenBytes, clear_ids

__all__ = ["ValueWatch"]

_WITH_EXPONENT = re.compile(rb"(-?[0-9]+(?:\.[0-9]+)?)[eE]([-+]?)([0-9]+)")


class ValueWatch:
    """The watchers of one JSON value.  Immutable; what was written is a `ScanState`.

    Cost of ``restrict``: some 10 us for numbers, a few hundred where a repeat is near.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: TokenBytes) -> None:
        self.tokens = tokens
        self.most_digits = next((w.most for w in watchers if isinstance(w, DigitWatch)), 0)
        unique = next((w for w in watchers if isinstance(w, UniqueWatch)), None)
        self.nodes = unique.nodes if unique is not None else ()
        self._repeats = Repeats(unique, tokens) if unique is not None else None

    @property
    def is_numeric(self) -> bool:
        """Is nothing watched but the length of numbers?"""
        return self._repeats is None

    @property
    def room(self) -> float:
        """Bytes that a number without an exponent has before `restrict` could take anything."""
        return self.most_digits - self.tokens.digits.longest if self.most_digits else math.inf

    def is_near(self, scan: ScanState) -> bool:
        """Could `restrict` take anything here?"""
        if self._repeats is not None and self._repeats.is_near(scan):
            return True
        return bool(self.most_digits) and self._is_number_near(scan)

    def _is_number_near(self, scan: ScanState) -> bool:
        if scan.mode is Mode.NUMBER:
            text = scan.text
            if len(text) > self.room or b"e" in text or b"E" in text:
                return True
        elif scan.mode is not Mode.VALUE:
            return False
        return self.tokens.has_large_exponents or self.room < 0

    def restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any, *, may_end: bool = False) -> None:
        """Take the tokens out of ``words`` that would repeat, or write a number without end or bound.

        ``words`` is one row as the engine filled it, without bits past the vocabulary and without ends; ``matcher``
        stands at the same position and is only copied.  ``may_end`` says that an end is open here, which is a way on
        as well: without it a mask never gets empty.
        """
        if self.most_digits and self._is_number_near(scan):
            kept = words.copy()
            self._clear_digits(words, scan, matcher)
            if not may_end and not words.any():
                words[:] = kept
        if self._repeats is not None and self._repeats.is_near(scan):
            self._repeats.restrict(words, scan, matcher)

    # -- numbers

    def _clear_digits(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Digits past the most in a row, and an exponent past what a double holds."""
        if self.tokens.has_large_exponents:
            some = words & self.tokens.large_exponents
            if some.any():
                text = scan.text if scan.mode is Mode.NUMBER else b""
                clear_ids(words, [i for i in allowed_ids(some) if _is_beyond(text + self.tokens.of[i])])
        if scan.mode is not Mode.NUMBER and scan.mode is not Mode.VALUE:
            return
        digits, text = self.tokens.digits, scan.text
        run = len(text) - len(text.rstrip(b"0123456789"))
        over = digits.sizes > self.most_digits - run
        mantissa, mark, exponent = text.replace(b"E", b"e").partition(b"e")
        if mark:
            most = most_exponent(mantissa.decode(), is_negative=exponent[:1] == b"-")
            written = min(int(exponent.lstrip(b"+-") or b"0"), 10**6)
            over |= written * 10 ** np.minimum(digits.sizes, 6) + digits.values > most
        clear_ids(words, digits.ids[over].tolist())
        if run + digits.longest >= self.most_digits and not mark:
            last = digits.ids[digits.sizes == self.most_digits - run].tolist()
            clear_ids(words, [i for i in last if is_allowed(words, i) and self._is_endless(i, matcher)])

    def _is_endless(self, token_id: int, matcher: Any) -> bool:
        """Must the number go on with a digit behind this token: zeros that wait for another digit, say?"""
        if not self.tokens.of[token_id].isdigit():
            return False
        if any(int(matcher.validate_tokens([token_id, i])) == 2 for i in self.tokens.behind_numbers):
            return False
        copy = matcher.deep_copy()
        if not copy.consume_token(token_id) or copy.is_accepting():
            return False
        row = np.frombuffer(copy.compute_bitmask(), dtype=np.int32).copy()  # an end may stand in it as well
        clear_ids(row, self.tokens.digits.ids.tolist())
        return not copy.is_error() and not row.any()


def _is_beyond(text: bytes) -> bool:
    """Is there a number in ``text`` whose exponent is past what a double holds?"""
    for found in _WITH_EXPONENT.finditer(text):
        mantissa, sign, exponent = found.groups()
        if int(exponent[:400]) > most_exponent(mantissa.decode(), is_negative=sign == b"-"):
            return True
    return False
