"""The watcher of one JSON value: removes duplicates, endless digits and unbounded exponents from masks.

`ValueWatcher.restrict` clears bits of a mask that the engine has filled.  It never removes the last possible
continuation: where there is no other the duplicate stays legal, and the schema's report says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import DigitWatch, UniqueWatch, Watcher
from guided.bitmask import allowed_ids, is_allowed
from guided.watchers.json_scanner import ScanState
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.number_range import has_large_exponent, max_exponent
from guided.watchers.persistent_set import Mode
from guided.watchers.vocabulary_index import VocabularyIndex, clear_ids

__all__ = ["ValueWatcher"]


class ValueWatcher:
    """The watchers of one JSON value.  Immutable; the text written so far is a `ScanState`.

    Cost of ``restrict``: about 10 us for numbers, a few hundred near a duplicate.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: VocabularyIndex) -> None:
        self.tokens = tokens
        self.max_digits = next((w.most for w in watchers if isinstance(w, DigitWatch)), 0)
        unique = next((w for w in watchers if isinstance(w, UniqueWatch)), None)
        self.nodes = unique.nodes if unique is not None else ()
        self._duplicates = LookaheadDuplicates(unique, tokens) if unique is not None else None

    @property
    def bounds_numbers_only(self) -> bool:
        """Whether only numbers are watched."""
        return self._duplicates is None

    @property
    def room(self) -> float:
        """The length up to which `restrict` leaves a number without an exponent alone, in bytes."""
        return self.max_digits - self.tokens.digits.longest if self.max_digits else math.inf

    def may_restrict(self, scan: ScanState) -> bool:
        """Whether `restrict` could remove a token here."""
        if self._duplicates is not None and self._duplicates.may_restrict(scan):
            return True
        return bool(self.max_digits) and self._is_number_near(scan)

    def _is_number_near(self, scan: ScanState) -> bool:
        if scan.mode is Mode.NUMBER:
            text = scan.text
            if len(text) > self.room or b"e" in text or b"E" in text:
                return True
        elif scan.mode is not Mode.VALUE:
            return False
        return self.tokens.has_large_exponents or self.room < 0

    def restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any, *, may_end: bool = False) -> None:
        """Clear the tokens in ``words`` that would write a duplicate, or a number without end or bound.

        ``words`` is one row as the engine filled it, without bits past the vocabulary and without end tokens;
        ``matcher`` is at the same position and is only copied.  ``may_end``: the text may also end here, so the mask
        may become empty; otherwise it never does.
        """
        if self.max_digits and self._is_number_near(scan):
            kept = words.copy()
            self._clear_digits(words, scan, matcher)
            if not may_end and not words.any():
                words[:] = kept
        if self._duplicates is not None and self._duplicates.may_restrict(scan):
            self._duplicates.restrict(words, scan, matcher)

    # -- numbers

    def _clear_digits(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Clear digits past the maximum in a row, and exponents that a double cannot hold."""
        if self.tokens.has_large_exponents:
            some = words & self.tokens.large_exponents
            if some.any():
                text = scan.text if scan.mode is Mode.NUMBER else b""
                texts = self.tokens.token_bytes
                clear_ids(words, [i for i in allowed_ids(some) if has_large_exponent(text + texts[i])])
        if scan.mode is not Mode.NUMBER and scan.mode is not Mode.VALUE:
            return
        digits, text = self.tokens.digits, scan.text
        run = len(text) - len(text.rstrip(b"0123456789"))
        over = digits.sizes > self.max_digits - run
        mantissa, mark, exponent = text.replace(b"E", b"e").partition(b"e")
        if mark:
            most = max_exponent(mantissa.decode(), is_negative=exponent[:1] == b"-")
            written = min(int(exponent.lstrip(b"+-") or b"0"), 10**6)
            over |= written * 10 ** np.minimum(digits.sizes, 6) + digits.values > most
        clear_ids(words, digits.ids[over].tolist())
        if run + digits.longest >= self.max_digits and not mark:
            last = digits.ids[digits.sizes == self.max_digits - run].tolist()
            clear_ids(words, [i for i in last if is_allowed(words, i) and self._is_endless(i, matcher)])

    def _is_endless(self, token_id: int, matcher: Any) -> bool:
        """Whether another digit must follow this token: zeros that need another digit, for instance."""
        if not self.tokens.token_bytes[token_id].isdigit():
            return False
        if any(int(matcher.validate_tokens([token_id, i])) == 2 for i in self.tokens.after_numbers):
            return False
        copy = matcher.deep_copy()
        if not copy.consume_token(token_id) or copy.is_accepting():
            return False
        row = np.frombuffer(copy.compute_bitmask(), dtype=np.int32).copy()  # it may include end tokens
        clear_ids(row, self.tokens.digits.ids.tolist())
        return not copy.is_error() and not row.any()
