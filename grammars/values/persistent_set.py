"""A persistent set: the keys or items of a JSON value written so far.

Scanner states are immutable and shared by their successors, so the set is made of immutable runs whose sizes double,
like the digits of a binary counter.  Adding a value merges a few runs, a look-up asks each run, and nothing is copied
when two continuations differ.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from fractions import Fraction

__all__ = ["Mode", "PersistentSet"]

_END = b"\xff"  # greater than every byte of UTF-8 text
_FEW_TEXTS = 16


class Mode(IntEnum):
    """The part of JSON that the next byte belongs to; also the kind of an item."""

    VALUE = 0  #: a value comes next (or the end of an empty array)
    KEY = 1  #: a key comes next (or the end of an object)
    IN_KEY = 2
    AFTER_KEY = 3
    STRING = 4
    NUMBER = 5
    LITERAL = 6
    AFTER = 7  #: a value is complete


class _Run:
    """Some values, and the texts of the keys and strings among them."""

    __slots__ = ("has_numbers", "size", "sorted_texts", "texts", "values")

    def __init__(self, value: object) -> None:
        text = value[1] if isinstance(value, tuple) and value[0] is Mode.STRING else value
        self.size = 1  #: values added, duplicates counted
        self.values = frozenset((value,))
        self.sorted_texts = (text,) if isinstance(text, bytes) else ()
        self.texts = frozenset(self.sorted_texts)
        self.has_numbers = isinstance(value, Fraction)

    def merged(self, other: _Run) -> _Run:
        whole = object.__new__(_Run)
        whole.size = self.size + other.size
        whole.values = self.values | other.values
        whole.sorted_texts = tuple(sorted((*self.sorted_texts, *other.sorted_texts)))  # one pass over sorted runs
        whole.texts = self.texts | other.texts
        whole.has_numbers = self.has_numbers or other.has_numbers
        return whole


class PersistentSet:
    """The keys (texts) or items (a mode and a text, or a number) written so far; only strings count as texts.

    Immutable: `with_value` returns a set with one more value that shares the earlier ones.
    """

    __slots__ = ("_runs", "_size", "before", "value")

    def __init__(self, value: object = None, before: PersistentSet | None = None) -> None:
        self.value = value  #: the latest
        self.before = before  #: the set without the latest; None for the empty set
        self._size: int = 0 if before is None else before._size + 1
        self._runs: tuple[_Run, ...] | None = () if before is None else None

    def with_value(self, value: object) -> PersistentSet:
        return PersistentSet(value, self)

    def __iter__(self) -> Iterator[object]:
        """The values, latest first."""
        at = self
        while at.before is not None:
            yield at.value
            at = at.before

    def __contains__(self, value: object) -> bool:
        at = self
        for _ in range(_FEW_TEXTS):  # the latest are looked at one by one: no runs are made for a few values
            if at._runs is not None or at.before is None:
                break
            if at.value == value:
                return True
            at = at.before
        return any(value in run.values for run in at._all_runs())

    def __len__(self) -> int:
        return self._size

    @property
    def has_numbers(self) -> bool:
        return any(run.has_numbers for run in self._all_runs())

    def with_prefix(self, prefix: bytes, limit: float = math.inf) -> list[bytes] | None:
        """Return the keys, or the texts of the items, with this prefix; None if they are more than ``limit``."""
        texts: list[bytes] = []
        for run in self._all_runs():
            start = bisect_left(run.sorted_texts, prefix)
            end = bisect_left(run.sorted_texts, prefix + _END, start)
            if len(texts) + end - start > limit:
                return None
            texts += run.sorted_texts[start:end]
        return texts

    def has_prefix(self, prefix: bytes) -> bool:
        """Whether a key, or the text of an item, has this prefix."""
        return self.with_prefix(prefix, 0) is None

    def has_text(self, text: bytes) -> bool:
        """Whether ``text`` is a key, or the text of an item."""
        return any(text in run.texts for run in self._all_runs())

    def intersection(self, texts: frozenset[bytes]) -> list[bytes]:
        """Return those of ``texts`` that are a key or the text of an item."""
        return [text for run in self._all_runs() for text in texts & run.texts]

    def _all_runs(self) -> tuple[_Run, ...]:
        """The runs, largest first; computed on first use from those of an earlier set."""
        at, later = self, []
        while at._runs is None:
            later.append(at)
            assert at.before is not None
            at = at.before
        runs = at._runs
        for at in reversed(later):
            runs = at._runs = _added(runs, at.value)
        return runs


def _added(runs: tuple[_Run, ...], value: object) -> tuple[_Run, ...]:
    run = _Run(value)
    while runs and runs[-1].size <= run.size:
        run = runs[-1].merged(run)
        runs = runs[:-1]
    return (*runs, run)
