"""The ordinary tokens of a vocabulary by their bytes, in the groups that run-time watchers ask for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from guided.bitmask import from_ids
from guided.crossing import Crossings

__all__ = ["DigitTokens", "TokenBytes"]

_COUNTED = 6  # digits of a token that are read as a number; no exponent in use has more


@dataclass(frozen=True, slots=True)
class DigitTokens:
    """Tokens that begin with a digit: ids, how many digits come first, and their value (of very many: a large one)."""

    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: NDArray[np.int64]
    longest: int  #: the largest of the sizes


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
    def crossings(self) -> Crossings:
        """Tokens that may end more than one JSON token: they are followed byte by byte."""
        return Crossings(self.of)

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
    def large_exponents(self) -> NDArray[np.int32]:
        """Tokens that write three digits of an exponent or more, with what comes before them: ``e400``, ``-400``."""
        exponent = re.compile(rb"(?:(?:^|[0-9.])[eE][-+]?|^[-+])0*[1-9][0-9]{2}")
        return self._row(i for i, data in enumerate(self.of) if exponent.search(data))

    @cached_property
    def has_large_exponents(self) -> bool:
        return bool(self.large_exponents.any())

    @cached_property
    def digits(self) -> DigitTokens:
        """Tokens that begin with a digit."""
        first = re.compile(rb"[0-9]+")
        found = [(i, run.group()) for i, data in enumerate(self.of) if (run := first.match(data)) is not None]
        return DigitTokens(
            np.array([i for i, _ in found], dtype=np.int64),
            np.array([len(run) for _, run in found], dtype=np.int64),
            np.array([min(int(run), 10**_COUNTED) for _, run in found], dtype=np.int64),
            max((len(run) for _, run in found), default=0),
        )

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
