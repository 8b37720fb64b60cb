"""The ordinary tokens of a vocabulary by their bytes, in the groups that run-time watchers ask for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from guided.bitmask import from_ids, is_allowed
from guided.watchers.boundary_tokens import Crossings
from guided.watchers.json_scanner import NUMBER_BYTES

__all__ = ["Beginnings", "DigitTokens", "TokenBytes", "clear_ids"]

_UNCLOSED = rb'(?:[^"\\]|\\.)*\\?'  # what stands in a string that is not closed
_COUNTED = 6  # digits of a token that are read as a number; no exponent in use has more


@dataclass(frozen=True, slots=True)
class DigitTokens:
    """Tokens that begin with a digit: ids, how many digits come first, and their value (of very many: a large one)."""

    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: NDArray[np.int64]
    longest: int  #: the largest of the sizes


class Beginnings:
    """Tokens that begin a text and do not end it, by how much of it they write."""

    def __init__(self, found: Iterable[tuple[bytes, int]]) -> None:
        self.ids: dict[bytes, list[int]] = {}
        for text, i in found:
            self.ids.setdefault(text, []).append(i)
        self._prefixes = {text[:size] for text in self.ids for size in range(len(text) + 1)}

    def may_be(self, text: bytes) -> bool:
        """Does a token write ``text`` and perhaps more?"""
        return text in self._prefixes

    def of(self, text: bytes) -> list[int]:
        """Ids of the tokens that write some of ``text``, all of it included."""
        found: list[int] = []
        for size in range(len(text) + 1):
            if text[:size] not in self._prefixes:
                break
            found += self.ids.get(text[:size], ())
        return found


class TokenBytes:
    """The ordinary tokens of a vocabulary by their bytes; one per vocabulary.

    ``read`` gives the bytes of each id, empty for markers and padding; it is called once, when the first of them is
    asked for, and each group is made when it is (all of them: some 0.5 s for 200k tokens).
    """

    def __init__(self, read: Callable[[], Sequence[bytes]]) -> None:
        self._read = read

    @cached_property
    def of(self) -> Sequence[bytes]:
        """The bytes of each id."""
        return self._read()

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        of = self.of
        return [(of[i], i) for i in sorted(range(len(of)), key=of.__getitem__) if of[i]]

    @cached_property
    def ids(self) -> dict[bytes, list[int]]:
        """Ids by bytes."""
        found: dict[bytes, list[int]] = {}
        for i, data in enumerate(self.of):
            if data:
                found.setdefault(data, []).append(i)
        return found

    @cached_property
    def crossings(self) -> Crossings:
        """Tokens that may end more than one JSON token: they are followed byte by byte."""
        return Crossings(self.of)

    @cached_property
    def _text(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all tokens in a row, and where each begins."""
        sizes = np.fromiter(map(len, self.of), dtype=np.int64, count=len(self.of))
        return np.frombuffer(b"".join(self.of), dtype=np.uint8), np.cumsum(sizes) - sizes

    def _holding(self, letters: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that hold one of these bytes, ascending: a fast first look before a pattern."""
        text, starts = self._text
        at = np.flatnonzero(_table(letters)[text])
        return np.unique(np.searchsorted(starts, at, side="right") - 1)

    def _beginning(self, letters: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that begin with one of these bytes, ascending."""
        text, starts = self._text
        full = np.flatnonzero(np.diff(starts, append=len(text)))
        return full[_table(letters)[text[starts[full]]]]

    @cached_property
    def inside(self) -> NDArray[np.int32]:
        """Tokens that end no scalar wherever they stand in one."""
        _, starts = self._text
        ending = np.zeros(len(starts), dtype=np.bool_)
        ending[self._holding(b'",]}: \t\n\r\v\f')] = True
        return self._row(i for i in np.flatnonzero(~ending).tolist() if self.of[i])

    @cached_property
    def number_ends(self) -> dict[bytes, NDArray[np.int32]]:
        """Tokens that end a number, by the digits that they still add to it."""
        ending = re.compile(rb"([-+.0-9eE]*)[,\]}\s]")
        groups: dict[bytes, list[int]] = {}
        for i in self._beginning(NUMBER_BYTES + b",]} \t\n\r\v\f").tolist():
            found = ending.match(self.of[i])
            if found is not None:
                groups.setdefault(found.group(1), []).append(i)
        return {prefix: self._row(ids) for prefix, ids in groups.items()}

    @cached_property
    def number_tails(self) -> bytes:
        """By id: 1 where a number may go on behind the token, or nothing is written."""
        return bytes(not data or data[-1] in NUMBER_BYTES for data in self.of)

    @cached_property
    def behind_numbers(self) -> list[int]:
        """A few tokens one of which may stand behind a number that may end there, in most places."""
        return [i for data in (b",", b", ", b"}", b"]") for i in self.ids.get(data, ())[:1]]

    @cached_property
    def exponents_of_zero(self) -> NDArray[np.int32]:
        """Tokens that write an exponent behind nothing but zeros."""
        exponent = re.compile(rb"[-\s.0]*[eE]")
        return self._row(i for i in self._holding(b"eE").tolist() if exponent.match(self.of[i]))

    @cached_property
    def large_exponents(self) -> NDArray[np.int32]:
        """Tokens that write three digits of an exponent or more, with what comes before them: ``e400``, ``-400``."""
        exponent = re.compile(rb"(?:(?:^|[0-9.])[eE][-+]?|^[-+])0*[1-9][0-9]{2}")
        return self._row(i for i in self._holding(b"0123456789").tolist() if exponent.search(self.of[i]))

    @cached_property
    def has_large_exponents(self) -> bool:
        return bool(self.large_exponents.any())

    @cached_property
    def digits(self) -> DigitTokens:
        """Tokens that begin with a digit."""
        first = re.compile(rb"[0-9]+")
        begin = self._beginning(b"0123456789").tolist()
        found = [(i, run.group()) for i in begin if (run := first.match(self.of[i])) is not None]
        return DigitTokens(
            np.array([i for i, _ in found], dtype=np.int64),
            np.array([len(run) for _, run in found], dtype=np.int64),
            np.array([min(int(run), 10**_COUNTED) for _, run in found], dtype=np.int64),
            max((len(run) for _, run in found), default=0),
        )

    @cached_property
    def keys_begun(self) -> Beginnings:
        """Tokens that begin a key where one is to come, by what stands behind its quote."""
        found = re.compile(rb'[ \t\n\r]*"(' + _UNCLOSED + rb")", re.DOTALL)
        ids = self._holding(b'"').tolist()
        return Beginnings((m.group(1), i) for i in ids if (m := found.fullmatch(self.of[i])) is not None)

    @cached_property
    def string_ends(self) -> dict[bytes, list[int]]:
        """Tokens that end a string, by what of it they still write; not for the middle of an escape."""
        found = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)
        groups: dict[bytes, list[int]] = {}
        for i in self._holding(b'"').tolist():
            if (m := found.match(self.of[i])) is not None:
                groups.setdefault(m.group(1), []).append(i)
        return groups

    @cached_property
    def begun_later(self) -> list[int]:
        """Tokens that end something and begin the next string or number, of which they write something."""
        blank = rb"[ \t\n\r]*"
        found = re.compile(rb".*," + blank + rb'(?:"(?!$)' + _UNCLOSED + rb"|[-0-9][-+.0-9eE]*)", re.DOTALL)
        return [i for i in self._holding(b",").tolist() if found.fullmatch(self.of[i])]

    @cached_property
    def keys_crossed(self) -> list[int]:
        """Tokens in which a key has its value, behind which the next may be to come or begin: `": 1, "a`."""
        found = re.compile(rb'.*"[ \t\n\r]*:.*,[ \t\n\r]*(?:"' + _UNCLOSED + rb")?", re.DOTALL)
        return [i for i in self._holding(b":").tolist() if found.fullmatch(self.of[i])]

    @cached_property
    def commas(self) -> list[int]:
        """Tokens behind which a key or an item may be to come, or its first quote."""
        last = re.compile(rb',[ \t\n\r]*"?$')
        return [i for i in self._holding(b",").tolist() if last.search(self.of[i])]

    @cached_property
    def blanks(self) -> list[int]:
        """Tokens that are nothing but white space."""
        return [i for i in self._beginning(b" \t\n\r").tolist() if not self.of[i].strip(b" \t\n\r")]

    def may_be(self, prefix: bytes) -> bool:
        """Does a token begin with ``prefix``?"""
        start = bisect_left(self._sorted, (prefix, -1))
        return start < len(self._sorted) and self._sorted[start][0].startswith(prefix)

    def within(self, text: bytes) -> list[int]:
        """Ids of the tokens that write some of ``text``, all of it included."""
        ids = self.ids
        found: list[int] = []
        for size in range(1, min(len(text), self._longest) + 1):
            found += ids.get(text[:size], ())
        return found

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.of), default=0)

    @cached_property
    def longest_of_number(self) -> int:
        """The most bytes of a token that is nothing but a part of a number, white space before it included."""
        part = re.compile(rb"[ \t\n\r]*[-+.0-9eE]+")
        return max(
            (len(self.of[i]) for i in self._holding(NUMBER_BYTES).tolist() if part.fullmatch(self.of[i])), default=1
        )

    @cached_property
    def digits_alone(self) -> list[int]:
        """Tokens that are nothing but digits."""
        return [i for i in self._beginning(b"0123456789").tolist() if self.of[i].isdigit()]

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


def clear_ids(words: NDArray[np.int32], ids: Iterable[int]) -> None:
    """Take the bits of ``ids`` out of one row of a bitmask."""
    view = words.view(np.uint32)
    for i in ids:
        if is_allowed(words, i):
            view[i >> 5] &= np.uint32(~(1 << (i & 31)) & 0xFFFFFFFF)


def _table(letters: bytes) -> NDArray[np.bool_]:
    """Is a byte one of ``letters``, for each byte."""
    found = np.zeros(256, dtype=np.bool_)
    found[list(letters)] = True
    return found
