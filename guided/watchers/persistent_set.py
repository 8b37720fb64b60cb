"""The keys or the items that were written so far: a value that grows, and answers in a time that hardly grows with it.

A state of the scanner never changes and is shared by all that go on from it, so what was written is kept in runs that
never change either: of sizes that double, as a binary counter carries.  To add a value costs the merge of a few runs,
to look one up a look into each of them; nothing is copied for those that go on otherwise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from fractions import Fraction

__all__ = ["Mode", "Seen"]

_END = b"\xff"  # behind every byte of a text that is UTF-8


class Mode(IntEnum):
    """What the next byte belongs to, and of what kind an item was."""

    VALUE = 0  #: a value is to come (or the end of an empty array)
    KEY = 1  #: a key is to come (or the end of an object)
    IN_KEY = 2
    AFTER_KEY = 3
    STRING = 4
    NUMBER = 5
    LITERAL = 6
    AFTER = 7  #: a value is complete


class _Run:
    """Some values, and the texts of keys and strings among them."""

    __slots__ = ("has_numbers", "size", "texts", "texts_in_order", "values")

    def __init__(self, value: object) -> None:
        text = value[1] if isinstance(value, tuple) and value[0] is Mode.STRING else value
        self.size = 1  #: how many were added, the same one counted as often as it was
        self.values = frozenset((value,))
        self.texts_in_order = (text,) if isinstance(text, bytes) else ()
        self.texts = frozenset(self.texts_in_order)
        self.has_numbers = isinstance(value, Fraction)

    def merged(self, other: _Run) -> _Run:
        whole = object.__new__(_Run)
        whole.size = self.size + other.size
        whole.values = self.values | other.values
        whole.texts_in_order = tuple(sorted((*self.texts_in_order, *other.texts_in_order)))  # two in order: one pass
        whole.texts = self.texts | other.texts
        whole.has_numbers = self.has_numbers or other.has_numbers
        return whole


class Seen:
    """The keys (texts) or items (a mode and a text, or numbers) written so far; only strings count as texts.

    It grows by one value at a time and shares all earlier ones.
    """

    __slots__ = ("_before", "_runs", "_size", "_value")

    def __init__(self, value: object = None, before: Seen | None = None) -> None:
        self._value = value
        self._before = before
        self._size: int = 0 if before is None else before._size + 1
        self._runs: tuple[_Run, ...] | None = () if before is None else None

    def with_value(self, value: object) -> Seen:
        return Seen(value, self)

    def __iter__(self) -> Iterator[object]:
        """The latest first."""
        at = self
        while at._before is not None:
            yield at._value
            at = at._before

    def __contains__(self, value: object) -> bool:
        return any(value in run.values for run in self._known())

    def __len__(self) -> int:
        return self._size

    @property
    def has_numbers(self) -> bool:
        return any(run.has_numbers for run in self._known())

    def beginning(self, prefix: bytes, most: float = math.inf) -> list[bytes] | None:
        """The keys, or the texts of the items, that begin so; None where they are more than ``most``."""
        found: list[bytes] = []
        for run in self._known():
            start = bisect_left(run.texts_in_order, prefix)
            end = bisect_left(run.texts_in_order, prefix + _END, start)
            if len(found) + end - start > most:
                return None
            found += run.texts_in_order[start:end]
        return found

    def has_text(self, text: bytes) -> bool:
        """Is it a key, or the text of an item?"""
        return any(text in run.texts for run in self._known())

    def among(self, texts: frozenset[bytes]) -> list[bytes]:
        """Those of ``texts`` that are a key or the text of an item."""
        return [text for run in self._known() for text in texts & run.texts]

    def _known(self) -> tuple[_Run, ...]:
        """The runs, the largest first; worked out when they are first asked for, from those of what was before."""
        at, later = self, []
        while at._runs is None:
            later.append(at)
            assert at._before is not None
            at = at._before
        runs = at._runs
        for at in reversed(later):
            runs = at._runs = _added(runs, at._value)
        return runs


def _added(runs: tuple[_Run, ...], value: object) -> tuple[_Run, ...]:
    run = _Run(value)
    while runs and runs[-1].size <= run.size:
        run = runs[-1].merged(run)
        runs = runs[:-1]
    return (*runs, run)
