"""Run-time watchers: tokens that would write a key or an item twice, or digits without end, are masked.

The watchers of a plan come with its schema (`grammars.json_schema.watchers`).  A `Watch` follows one JSON value from
its first byte; `restrict` takes bits out of a mask that the engine has filled.  It never takes the last bit: where
no other way on exists the repeat stays legal, and the schema's report says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.json_schema.watchers import DigitWatch, UniqueWatch, Watcher
from guided.bitmask import allowed_ids, from_ids, is_allowed, num_words
from guided.json_scanner import Mode, ScanState, Seen, feed

__all__ = ["TokenBytes", "Watch"]

_LOOK_AHEAD = 6  # tokens: how far a value is followed that may turn out to be able to end only as a repeat
_LITERALS = (b"true", b"false", b"null")


@dataclass(frozen=True)
class TokenBytes:
    """The ordinary tokens of a vocabulary by their bytes; build once per vocabulary (about 0.3 s for 150k)."""

    of: Sequence[bytes]  #: bytes of each id; empty for markers and padding

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        return sorted((data, i) for i, data in enumerate(self.of) if data)

    @cached_property
    def ids(self) -> dict[bytes, list[int]]:
        """Ids by bytes."""
        found: dict[bytes, list[int]] = {}
        for data, i in self._sorted:
            found.setdefault(data, []).append(i)
        return found

    @cached_property
    def several(self) -> NDArray[np.int32]:
        """Tokens that may end more than one JSON token: they are followed byte by byte."""
        crossing = re.compile(rb'"[^"]*"|[,\[:]\s*[-0-9tfn]|^\s+[-0-9tfn]', re.DOTALL)
        return self._row(i for data, i in self._sorted if crossing.search(data))

    @cached_property
    def inside(self) -> NDArray[np.int32]:
        """Tokens that end no scalar wherever they stand in one."""
        ending = re.compile(rb'[",\]}:\s]')
        return self._row(i for data, i in self._sorted if not ending.search(data))

    @cached_property
    def number_ends(self) -> dict[bytes, NDArray[np.int32]]:
        """Tokens that end a number, by the digits that they still add to it."""
        ending = re.compile(rb"([-+.0-9eE]*)[,\]}\s]")
        groups: dict[bytes, list[int]] = {}
        for data, i in self._sorted:
            found = ending.match(data)
            if found is not None:
                groups.setdefault(found.group(1), []).append(i)
        return {prefix: self._row(ids) for prefix, ids in groups.items()}

    @cached_property
    def exponents_of_zero(self) -> NDArray[np.int32]:
        """Tokens that write an exponent behind nothing but zeros."""
        exponent = re.compile(rb"[-\s.0]*[eE]")
        return self._row(i for data, i in self._sorted if exponent.match(data))

    @cached_property
    def digits_first(self) -> NDArray[np.int32]:
        """Tokens that begin with a digit."""
        return self._row(i for data, i in self._sorted if data[:1].isdigit())

    @cached_property
    def digit_runs(self) -> NDArray[np.int16]:
        """For each id the digits it ends with, or minus their number when it is nothing but digits."""
        runs = np.zeros(len(self.of), dtype=np.int16)
        for data, i in self._sorted:
            size = len(data) - len(data.rstrip(b"0123456789"))
            runs[i] = -size if size == len(data) else size
        return runs

    def beginning(self, prefix: bytes) -> list[int]:
        """Ids of the tokens that begin with ``prefix``."""
        start = bisect_left(self._sorted, (prefix, -1))
        found = []
        for data, i in self._sorted[start:]:
            if not data.startswith(prefix):
                break
            found.append(i)
        return found

    def _row(self, ids: Iterable[int]) -> NDArray[np.int32]:
        return from_ids(ids, len(self.of))


@dataclass(frozen=True, slots=True)
class _Record:
    """The watch after one token: the scanner's state, and the digits that the text ends with."""

    scan: ScanState
    digits: int


class Watch:
    """The watchers of one JSON value on one sequence.

    ``commit`` each token from the value's first on, ``rollback`` undoes them, ``fork`` copies; ``restrict`` narrows a
    mask in place.  Cost: some 2 us a token, a few hundred where a repeat is near.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: TokenBytes) -> None:
        self.tokens = tokens
        self.most_digits = next((w.most for w in watchers if isinstance(w, DigitWatch)), 0)
        unique = next((w for w in watchers if isinstance(w, UniqueWatch)), None)
        self.is_scanning = unique is not None
        self.nodes = unique.nodes if unique is not None else ()
        self._records = [_Record(ScanState(), 0)]
        self._text: list[bytes] = []

    def commit(self, token_id: int, *, begin: int | None = None) -> None:
        """Follow one token; ``begin`` is the byte of it at which the value begins, None inside the value."""
        last, data = self._records[-1], self.tokens.of[token_id]
        if begin is not None:
            last, data = _Record(ScanState(), 0), data[begin:]
        scan = feed(last.scan, data, self.nodes) if self.is_scanning else last.scan
        run = int(self.tokens.digit_runs[token_id]) if self.most_digits else 0
        self._text.append(data)
        self._records.append(_Record(scan, last.digits - run if run < 0 else run))

    def skip(self) -> None:
        """Count a token that is no part of the value."""
        self._text.append(b"")
        self._records.append(self._records[-1])

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` commits."""
        if num_tokens:
            del self._records[-num_tokens:]
            del self._text[-num_tokens:]

    def fork(self) -> Watch:
        """An independent copy at the same position."""
        twin = object.__new__(Watch)
        twin.__dict__.update(self.__dict__)
        twin._records = self._records.copy()
        twin._text = self._text.copy()
        return twin

    @property
    def is_near(self) -> bool:
        """Could `restrict` take anything here?"""
        record = self._records[-1]
        frame = record.scan.frame
        return (frame is not None and frame.armed) or bool(self.most_digits and record.digits >= self.most_digits)

    def restrict(self, words: NDArray[np.int32], matcher: Any) -> None:
        """Take the tokens out of ``words`` that would repeat, or go on with digits for ever.

        ``words`` is one row as the engine filled it, without bits past the vocabulary; ``matcher`` stands at the same
        position and is only copied.  A mask never gets empty.
        """
        record = self._records[-1]
        if self.most_digits and record.digits >= self.most_digits and self._in_number():
            _clear(words, self.tokens.digits_first)
        frame = record.scan.frame
        if frame is not None and frame.armed:
            self._restrict(words, record.scan, matcher, _LOOK_AHEAD)

    def _in_number(self) -> bool:
        """Does the text end inside a number?  Asked only after very many digits, so the text is read again."""
        state = ScanState()
        for data in self._text:
            state = feed(state, data, ())
        return state.mode is Mode.NUMBER

    # -- repeats

    def _restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any, depth: int) -> bool:
        """Clear repeats; True when nothing else was left (then ``words`` stays as it was)."""
        kept = words.copy()
        self._clear_direct(words, scan)
        _clear_ids(words, [i for i in allowed_ids(words & self.tokens.several) if self._repeats(scan, i)])
        if depth and self._is_tight(scan):
            _clear_ids(words, [i for i in self._toward(scan) if self._is_stuck(scan, i, words, matcher, depth)])
        if words.any():
            return False
        words[:] = kept
        return True

    def _repeats(self, scan: ScanState, token_id: int) -> bool:
        after = feed(scan, self.tokens.of[token_id], self.nodes)
        if after.mode is Mode.LITERAL and after.frame is not None:  # a literal is decided by its first letter
            return any((Mode.LITERAL, word) in after.frame.seen for word in _LITERALS if word.startswith(after.text))
        return after.repeated

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
