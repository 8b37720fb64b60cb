"""A `Shape`: the set of values that a schema allows, by JSON type.  Every keyword is turned into one.

A shape is a union over types, and within arrays and objects a union of *forms*.  The values inside a form are not
shapes but conjunctions of *literals*: numbers of places in the schema that must (or, negative, must not) hold there.
So shapes are small, recursive schemas need no special case, and equal conjunctions have equal literals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from grammars.json_schema.shapes.numbers import ANY_NUMBER, Numbers
from grammars.regular.terms import ALL, NONE, Regular
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
    "Evaluated",
    "Fact",
    "ObjectForm",
    "Shape",
    "conjoin",
    "has",
    "lacks",
    "negation",
    "some",
    "with_notes",
]

#: Literals that must all hold: ``p`` for place number p, ``-p`` for its negation.  Empty: every value satisfies it.
Conj = tuple[int, ...]
TRUE: Conj = ()


class Fact(NamedTuple):
    """A condition on an object.

    ``has``: the key ``what`` is present and its value satisfies ``value``; ``lacks``: the key is absent; ``some``: a
    key of the language ``what`` is present with such a value; ``least`` and ``most``: at least or at most ``what`` keys
    are present.
    """

    kind: str
    what: Any
    value: Conj = ()


#: Facts of which at least one holds.
Clause = frozenset[Fact]


def has(key: str, value: Conj = TRUE) -> Fact:
    """The key is present, with a value that satisfies ``value``."""
    return Fact("has", key, value)


def lacks(key: str) -> Fact:
    """The key is absent."""
    return Fact("lacks", key)


def some(keys: Regular, value: Conj) -> Fact:
    """A key of the language is present, with a value that satisfies ``value``."""
    return Fact("some", keys, value)


def conjoin(one: Conj | None, two: Conj | None) -> Conj | None:
    """The conjunction of both; None (nothing satisfies it) when their literals contradict each other."""
    if one is None or two is None:
        return None
    if not two or one == two:
        return one
    if not one:
        return two
    added = tuple(x for x in two if x not in one)
    return None if any(-x in one for x in added) else one + added


def negation(conj: Conj | None) -> Conj | None:
    """The negation of a conjunction from ``child``, which has at most one literal."""
    if conj is None:
        return TRUE
    return None if not conj else (-conj[0],)


@dataclass(frozen=True, slots=True)
class Count:
    """Between ``least`` and ``most`` items from position ``start`` on satisfy ``item``."""

    item: Conj
    least: int
    most: int | None
    start: int = 0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The keys and items that the applicators of a form have evaluated, for ``unevaluated*``.

    ``unknown_keys``: a pattern that is not understood may evaluate further keys; ``contains``: one may evaluate items.
    """

    keys: frozenset[str] = frozenset()
    patterns: tuple[Regular, ...] = ()
    every_key: bool = False
    items: int = 0
    contains: bool = False
    every_item: bool = False
    unknown_keys: bool = False

    def __or__(self, other: Evaluated) -> Evaluated:
        return Evaluated(
            self.keys | other.keys,
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            self.every_key or other.every_key,
            max(self.items, other.items),
            self.contains or other.contains,
            self.every_item or other.every_item,
            self.unknown_keys or other.unknown_keys,
        )


NOTHING_EVALUATED = Evaluated()


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """Arrays whose items satisfy ``prefix`` by position and ``items`` (None: no more items) after it.

    ``unique`` holds the numbers of the places whose ``uniqueItems`` requires distinct items.
    """

    prefix: tuple[Conj | None, ...] = ()
    items: Conj | None = TRUE
    least: int = 0
    most: int | None = None
    counts: tuple[Count, ...] = ()
    unique: tuple[int, ...] = ()
    evaluated: Evaluated = NOTHING_EVALUATED

    def item(self, index: int) -> Conj | None:
        """The condition on item ``index``; None: there is no such item."""
        return self.prefix[index] if index < len(self.prefix) else self.items


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """Objects by key.

    ``props`` lists the keys with a rule of their own, in writing order (None: the key is forbidden).  Every other key
    belongs to at most one of ``cells`` (a language of keys and the condition on their values), or is forbidden.  All
    ``clauses``, conditions across keys, must hold.  ``late`` orders the keys that only ``required`` or clauses name:
    they are written after the listed ones.
    """

    props: Mapping[str, Conj | None] = field(default_factory=dict)
    cells: tuple[tuple[Regular, Conj], ...] = ((ALL, TRUE),)
    required: frozenset[str] = frozenset()
    clauses: tuple[Clause, ...] = ()
    least: int = 0
    most: int | None = None
    late: tuple[str, ...] = ()
    evaluated: Evaluated = NOTHING_EVALUATED


ANY_ARRAY = ArrayForm()
ANY_OBJECT = ObjectForm()


@dataclass(frozen=True, slots=True)
class Shape:
    """A set of JSON values.

    ``booleans`` is a bit set (1 false, 2 true); the tuples are unions.  ``notes`` are the report rows that apply if
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
        """Whether no type is left (forms may still turn out to be empty)."""
        return not (self.null or self.booleans or self.numbers or self.arrays or self.objects or self.strings != NONE)


def merged_notes(shapes: Iterable[Shape]) -> tuple[ReportRow, ...]:
    """The notes of all shapes, each once."""
    return tuple(dict.fromkeys(n for s in shapes for n in s.notes))


NOTHING = Shape()
ANYTHING = Shape(True, 3, (ANY_NUMBER,), ALL, (ANY_ARRAY,), (ANY_OBJECT,))


def with_notes(shape: Shape, notes: Iterable[ReportRow]) -> Shape:
    """The shape with further notes, duplicates dropped."""
    every = tuple(dict.fromkeys((*shape.notes, *notes)))
    return shape if len(every) == len(shape.notes) else replace(shape, notes=every)
