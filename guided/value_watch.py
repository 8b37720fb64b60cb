"""What a watcher takes out of the masks of one JSON value: repeats, digits without end, exponents without bound.

`ValueWatch.restrict` takes bits out of a mask that the engine has filled.  It never takes the last bit: where no
other way on exists the repeat stays legal, and the schema's report says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.json_schema.watchers import DigitWatch, UniqueWatch, Watcher
from guided.bitmask import allowed_ids, is_allowed, num_words
from guided.json_scanner import Frame, Mode, ScanState, Seen, feed
from guided.number_range import most_exponent
from guided.token_bytes import TokenBytes

__all__ = ["ValueWatch"]

_LOOK_AHEAD = 6  # tokens: how far a value is followed that may turn out to be able to end only as a repeat
_LITERALS = (b"true", b"false", b"null")
_WITH_EXPONENT = re.compile(rb"(-?[0-9]+(?:\.[0-9]+)?)[eE]([-+]?)([0-9]+)")


class ValueWatch:
    """The watchers of one JSON value.  Immutable; what was written is a `ScanState`.

    Cost of ``restrict``: some 10 us for numbers, a few hundred where a repeat is near.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: TokenBytes) -> None:
        self.tokens = tokens
        self.most_digits = next((w.most for w in watchers if isinstance(w, DigitWatch)), 0)
        unique = next((w for w in watchers if isinstance(w, UniqueWatch)), None)
        self.is_unique = unique is not None
        self.nodes = unique.nodes if unique is not None else ()
        self._known: tuple[Frame | None, Sequence[int]] = (None, ())  # of the frame asked for last; frames never change

    def is_near(self, scan: ScanState) -> bool:
        """Could `restrict` take anything here?"""
        if self.is_unique and self._is_repeat_near(scan):
            return True
        return bool(self.most_digits) and self._is_number_near(scan)

    def _is_number_near(self, scan: ScanState) -> bool:
        if scan.mode is Mode.NUMBER:
            text = scan.text
            if len(text) > self.most_digits - self.tokens.digits.longest or b"e" in text or b"E" in text:
                return True
        elif scan.mode is not Mode.VALUE:
            return False
        return self.tokens.has_large_exponents

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
        if self.is_unique and self._is_repeat_near(scan):
            self._restrict(words, scan, matcher, _LOOK_AHEAD)

    # -- numbers

    def _clear_digits(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Digits past the most in a row, and an exponent past what a double holds."""
        if self.tokens.has_large_exponents:
            some = words & self.tokens.large_exponents
            if some.any():
                text = scan.text if scan.mode is Mode.NUMBER else b""
                _clear_ids(words, [i for i in allowed_ids(some) if _is_beyond(text + self.tokens.of[i])])
        if scan.mode is not Mode.NUMBER:
            return
        digits, text = self.tokens.digits, scan.text
        run = len(text) - len(text.rstrip(b"0123456789"))
        over = digits.sizes > self.most_digits - run
        mantissa, mark, exponent = text.replace(b"E", b"e").partition(b"e")
        if mark:
            most = most_exponent(mantissa.decode(), is_negative=exponent[:1] == b"-")
            written = min(int(exponent.lstrip(b"+-") or b"0"), 10**6)
            over |= written * 10 ** np.minimum(digits.sizes, 6) + digits.values > most
        _clear_ids(words, digits.ids[over].tolist())
        if run + digits.longest >= self.most_digits and not mark:
            last = digits.ids[digits.sizes == self.most_digits - run].tolist()
            _clear_ids(words, [i for i in last if is_allowed(words, i) and self._is_endless(i, matcher)])

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
        _clear_ids(row, self.tokens.digits.ids.tolist())
        return not copy.is_error() and not row.any()

    # -- repeats

    def _restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any, depth: int) -> bool:
        """Clear repeats; True when nothing else was left (then ``words`` stays as it was)."""
        kept = words.copy()
        self._clear_direct(words, scan)
        _clear_ids(words, [i for i in self._crossing(scan) if is_allowed(words, i) and self._repeats(scan, i)])
        if depth and self._is_tight(scan):
            _clear_ids(words, [i for i in self._toward(scan) if self._is_stuck(scan, i, words, matcher, depth)])
        if words.any():
            return False
        words[:] = kept
        return True

    def _crossing(self, scan: ScanState) -> Sequence[int]:
        """Tokens that may end more than one JSON token, the last of them as a repeat."""
        crossings, frame = self.tokens.crossings, scan.frame
        last, known = self._known
        if last is not frame:  # inside a string, and mostly elsewhere, it is the one of the token before
            known = crossings.known(frame)
            self._known = frame, known
        mirrors = crossings.mirrors(scan)
        if self.nodes or mirrors:
            return [*known, *mirrors, *(crossings.words if self.nodes else ())]
        return known

    def _is_repeat_near(self, scan: ScanState) -> bool:
        """Is there a token that could be a repeat here?  What an object holds is taken by its keys alone."""
        frame = scan.frame
        if frame is None or not frame.armed:
            return False
        at_repeat = scan.mode is Mode.IN_KEY if frame.is_object else bool(len(frame.seen))
        return at_repeat or bool(self._crossing(scan))

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
                self._clear_strings(words, scan.text, (s for s in frame.seen if isinstance(s, bytes)))
            case Mode.STRING if not frame.is_object:
                seen = (s[1] for s in frame.seen if isinstance(s, tuple) and s[0] == Mode.STRING)
                self._clear_strings(words, scan.text, seen)
            case Mode.AFTER if self._is_exhausted(scan):
                _clear_ids(words, self.tokens.beginning(b","))
            case Mode.NUMBER | Mode.VALUE if not frame.is_object:
                self._clear_numbers(words, scan.text, {s for s in frame.seen if isinstance(s, Fraction)})
                if scan.mode is Mode.VALUE:
                    self._clear_literals(words, frame.seen)

    def _is_exhausted(self, scan: ScanState) -> bool:
        frame = scan.frame
        if frame is None or frame.is_object or frame.node < 0:
            return False
        values = self.nodes[frame.node].values
        return bool(values) and len(frame.seen) >= values

    def _clear_strings(self, words: NDArray[np.int32], text: bytes, seen: Iterable[bytes]) -> None:
        for before in seen:
            if before.startswith(text):
                _clear_ids(words, self.tokens.beginning(before[len(text) :] + b'"'))

    def _clear_numbers(self, words: NDArray[np.int32], text: bytes, seen: set[Fraction]) -> None:
        if not seen:
            return
        if Fraction(0) in seen and not text.strip(b"-0."):  # whatever exponent follows, it stays zero
            _clear(words, self.tokens.exponents_of_zero)
        for digits, row in self.tokens.number_ends.items():
            try:
                if Fraction((text + digits).decode("ascii")) in seen:
                    _clear(words, row)
            except (ValueError, ZeroDivisionError):
                continue

    def _clear_literals(self, words: NDArray[np.int32], seen: Seen) -> None:
        for word in _LITERALS:
            if (Mode.LITERAL, word) in seen:
                for size in range(1, len(word)):
                    _clear_ids(words, self.tokens.ids.get(word[:size], ()))
                _clear_ids(words, self.tokens.beginning(word))

    # -- values that can only end as a repeat

    def _is_tight(self, scan: ScanState) -> bool:
        """Is an item being written, in an array whose values are short or few?"""
        frame = scan.frame
        return (
            scan.mode in (Mode.VALUE, Mode.STRING, Mode.NUMBER)
            and frame is not None
            and not frame.is_object
            and frame.node >= 0
            and self.nodes[frame.node].tight
        )

    def _toward(self, scan: ScanState) -> list[int]:
        """Tokens that go on exactly as a value that was there before does."""
        assert scan.frame is not None
        found: dict[int, None] = {}
        for before in scan.frame.seen:
            spelled = _spelled(before)
            texts = [spelled.removeprefix(b'"')] if scan.mode is not Mode.VALUE else [spelled, b" " + spelled]
            texts += [b"-" + text for text in texts] if before == 0 else []
            for text in texts:
                if text.startswith(scan.text):
                    rest = text[len(scan.text) :]
                    for size in range(1, len(rest) + 1):
                        found.update(dict.fromkeys(self.tokens.ids.get(rest[:size], ())))
        return list(found)

    def _is_stuck(self, scan: ScanState, token_id: int, words: NDArray[np.int32], matcher: Any, depth: int) -> bool:
        """Can what begins with the token only end as a repeat?"""
        if not is_allowed(words, token_id):
            return False
        copy = matcher.deep_copy()
        if not copy.consume_token(token_id):
            return False
        data = np.frombuffer(copy.compute_bitmask(), dtype=np.int32)[: num_words(len(self.tokens.of))].copy()
        after = feed(scan, self.tokens.of[token_id], self.nodes)
        if self._leads_off(data, after):
            return False
        return self._restrict(data, after, copy, depth - 1)

    def _leads_off(self, words: NDArray[np.int32], scan: ScanState) -> bool:
        """Is there a token that goes on otherwise than any value before?  Then no repeat can be forced any more."""
        if scan.mode not in (Mode.STRING, Mode.NUMBER):
            return False
        away = words & self.tokens.inside
        _clear_ids(away, self._toward(scan))
        return bool(away.any())


def _is_beyond(text: bytes) -> bool:
    """Is there a number in ``text`` whose exponent is past what a double holds?"""
    for found in _WITH_EXPONENT.finditer(text):
        mantissa, sign, exponent = found.groups()
        if int(exponent[:400]) > most_exponent(mantissa.decode(), is_negative=sign == b"-"):
            return True
    return False


def _spelled(item: object) -> bytes:
    """How an item begins in the text, as far as it matters: strings with their first quote."""
    if isinstance(item, Fraction):
        return (str(item) if item.denominator == 1 else repr(float(item))).encode()
    mode, text = item if isinstance(item, tuple) else (Mode.LITERAL, item)
    return b'"' + text if mode is Mode.STRING else bytes(text)


def _clear(words: NDArray[np.int32], row: NDArray[np.int32]) -> None:
    np.bitwise_and(words, ~row[: len(words)], out=words)


def _clear_ids(words: NDArray[np.int32], ids: Iterable[int]) -> None:
    view = words.view(np.uint32)
    for i in ids:
        if is_allowed(words, i):
            view[i >> 5] &= np.uint32(~(1 << (i & 31)) & 0xFFFFFFFF)
