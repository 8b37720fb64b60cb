"""What a schema allows, sorted by JSON type: the value that every keyword is turned into.

A `Shape` is a union over types, and within arrays and objects a union of *forms*.  Values inside a form are not
shapes but conjunctions of *literals*: numbers of places in the schema that must (or, negative, must not) hold
there.  So shapes are small, recursion costs nothing, and two conjunctions are equal when their literals are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from grammars.json_schema.shapes.numbers import ANY_NUMBER, Numbers
from grammars.regular.languages import ALL, NONE, Regular
from grammars.values.report import ReportRow

__all__ = [
    "ANYTHING",
    "ANY_ARRAY",
    "ANY_OBJECT",
    "NOTHING",
    "TRUE",
    "ArrayForm",
    "Clause",
    "Conj",
    "Count",
    "Fact",
    "ObjectForm",
    "Seen",
    "Shape",
    "both",
    "has",
    "lacks",
    "some",
    "with_notes",
]

#: Literals that must all hold: ``p`` for place number p, ``-p`` for its negation.  Empty: anything goes.
Conj = tuple[int, ...]
TRUE: Conj = ()


class Fact(NamedTuple):
    """Something that may hold of an object.

    ``has`` key ``what`` is there and its value satisfies ``value``; ``lacks`` it is not there; ``some`` key of the
    language ``what`` is there with such a value; ``least`` and ``most``: that many keys are there.
    """

    kind: str
    what: Any
    value: Conj = ()


#: Facts of which at least one holds.
Clause = frozenset[Fact]


def has(key: str, value: Conj = TRUE) -> Fact:
    """The key is there, with a value that satisfies ``value``."""
    return Fact("has", key, value)


def lacks(key: str) -> Fact:
    """The key is not there."""
    return Fact("lacks", key)


def some(keys: Regular, value: Conj) -> Fact:
    """A key of the language is there, with a value that satisfies ``value``."""
    return Fact("some", keys, value)


def both(one: Conj | None, two: Conj | None) -> Conj | None:
    """The conjunction of both; None (nothing can hold) when they contradict by their literals."""
    if one is None or two is None:
        return None
    if not two or one == two:
        return one
    if not one:
        return two
    added = tuple(x for x in two if x not in one)
    return None if any(-x in one for x in added) else one + added


@dataclass(frozen=True, slots=True)
class Count:
    """Between ``least`` and ``most`` items from position ``start`` on satisfy ``item``."""

    item: Conj
    least: int
    most: int | None
    start: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the applicators of a form have evaluated, for ``unevaluatedProperties`` and ``unevaluatedItems``.

    ``any_key``: keys that nobody can tell may be as well, by a pattern that is not understood.  ``not_contains``: a
    ``contains`` stood there that evaluates no items in its draft, though validators may let it.
    """

    keys: frozenset[str] = frozenset()
    patterns: tuple[Regular, ...] = ()
    every_key: bool = False
    items: int = 0
    contains: tuple[Conj, ...] = ()
    every_item: bool = False
    any_key: bool = False
    not_contains: bool = False

    def __or__(self, other: Seen) -> Seen:
        return Seen(
            self.keys | other.keys,
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            self.every_key or other.every_key,
            max(self.items, other.items),
            tuple(dict.fromkeys(self.contains + other.contains)),
            self.every_item or other.every_item,
            self.any_key or other.any_key,
            self.not_contains or other.not_contains,
        )


NOT_SEEN = Seen()


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """Arrays whose items satisfy ``prefix`` by position and ``rest`` (None: no more items) after it.

    ``unique`` holds the numbers of the places whose ``uniqueItems`` asks for distinct items.
    """

    prefix: tuple[Conj | None, ...] = ()
    rest: Conj | None = TRUE
    least: int = 0
    most: int | None = None
    counts: tuple[Count, ...] = ()
    unique: tuple[int, ...] = ()
    seen: Seen = NOT_SEEN

    def item(self, index: int) -> Conj | None:
        """What item ``index`` must satisfy; None: there is no such item."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """Objects by key.

    ``props`` lists the keys with a rule of their own, in writing order (None: the key is forbidden).  All other
    keys belong to at most one of ``cells`` (language of keys, their values), or are forbidden.  ``clauses`` are
    conditions across keys, all of which must hold.  ``late`` is the order of the keys that are named only by
    ``required`` or by clauses: they are written after the listed ones.
    """

    props: Mapping[str, Conj | None] = field(default_factory=dict)
    cells: tuple[tuple[Regular, Conj], ...] = ((ALL, TRUE),)
    required: frozenset[str] = frozenset()
    clauses: tuple[Clause, ...] = ()
    least: int = 0
    most: int | None = None
    late: tuple[str, ...] = ()
    seen: Seen = NOT_SEEN


ANY_ARRAY = ArrayForm()
ANY_OBJECT = ObjectForm()


@dataclass(frozen=True, slots=True)
class Shape:
    """A set of JSON values.

    ``booleans`` is a bit set (1 false, 2 true); the tuples are unions.  ``notes`` are the report rows that hold if
    this shape is used.
    """

    null: bool = False
    booleans: int = 0
    numbers: tuple[Numbers, ...] = ()
    strings: Regular = NONE
    arrays: tuple[ArrayForm, ...] = ()
    objects: tuple[ObjectForm, ...] = ()
    notes: tuple[ReportRow, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True when no type is left (forms may still turn out to be empty)."""
        return not (self.null or self.booleans or self.numbers or self.arrays or self.objects or self.strings != NONE)


def merged_notes(shapes: Iterable[Shape]) -> tuple[ReportRow, ...]:
    """The notes of all shapes, each once."""
    return tuple(dict.fromkeys(n for s in shapes for n in s.notes))


NOTHING = Shape()
ANYTHING = Shape(True, 3, (ANY_NUMBER,), ALL, (ANY_ARRAY,), (ANY_OBJECT,))


def with_notes(shape: Shape, notes: Iterable[ReportRow]) -> Shape:
    """The shape with more to say about it, nothing twice."""
    every = tuple(dict.fromkeys((*shape.notes, *notes)))
    return shape if len(every) == len(shape.notes) else replace(shape, notes=every)
