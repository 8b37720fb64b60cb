"""The memoised solver: from conjunctions of literals to shapes.

`Solver.shape` is the entry: the shape of a conjunction.  Everything is computed once.  A cycle of references
that never passes through an array or object has no value (the least solution), as no finite value needs it.  Searches
for emptiness on the way are bounded; they may miss that something is empty, but never claim it wrongly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.json_schema.document.reader_differences import validators_may_differ
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.shapes.shapes import (
    ANYTHING,
    NOTHING,
    TRUE,
    ArrayForm,
    Conj,
    ObjectForm,
    Shape,
    with_notes,
)
from grammars.json_schema.solver.combine import intersect
from grammars.limits.deadline import time_limits
from grammars.limits.schema_limits import check_deadline
from grammars.limits.work import TooMuch, Work
from grammars.regular.terms import NONE
from grammars.values.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = ["Overrun", "Solver", "Unsatisfiable"]

_PROBE_DEPTH = 3  # levels of required values that a search for emptiness follows
_BARE = {"$ref"}


class _InProgress(Exception):
    """A search for emptiness reached a literal that is being computed: the answer is not known yet."""


class Overrun(SchemaError):
    """Working out a schema exceeded a limit."""


class Unsatisfiable(SchemaError):
    """No value satisfies the schema."""


#: Given the solver, a place, and whether forms record the keys and items that were evaluated.
_ShapeOf: TypeAlias = "Callable[[Solver, Place, bool], Shape]"


class Solver:
    """Shapes of the conjunctions over one set of documents; `semantics.solver_of` makes one.

    ``allowed`` and ``denied`` give the shape of one schema object and of its negation; they ask this solver for parts.
    ``coarse`` is the second attempt for schemas that are too large to follow in full: ``oneOf`` is then read as
    ``anyOf``, with a note.
    """

    def __init__(self, documents: Documents, allowed: _ShapeOf, denied: _ShapeOf, *, coarse: bool) -> None:
        self.documents = documents
        self._allowed, self._denied = allowed, denied
        self.coarse = coarse
        self.limits = documents.limits
        self._conjs: dict[Conj, Shape] = {TRUE: ANYTHING}
        self._literals: dict[tuple[int, bool], Shape] = {}
        self._busy: dict[tuple[int, bool], int] = {}
        self._floor = 1 << 60  # the outermost busy literal that the current computation used
        self._barrier: int | None = None  # busy literals below it belong to the caller of the search for emptiness
        self._depth = 0
        self._work = Work(documents.limits.steps)
        self._seconds = time_limits().schema_cpu_s
        self._end = time.thread_time() + self._seconds  # CPU time of this thread: a busy machine must not change a plan
        self._targets: dict[tuple[int, str], Place] = {}
        self._readings_differ: bool | None = None
        self._wider: dict[int, bool] = {}
        self._empty: dict[Conj, bool] = {}
        self._cuts = 0  # searches for emptiness that were cut short

    # -- literals

    def child(self, place: Place, schema: Any, *steps: str | int) -> Conj | None:
        """The conjunction of one subschema: empty for true, None for false, else its literal."""
        if schema is True:
            return TRUE
        if schema is False:
            return None
        words = schema.keys() & CHECKS.keys()
        if not words:
            return TRUE  # annotations only
        if words == _BARE:
            return self.target(self.documents.at(place, schema, *steps), schema, "$ref")
        return (self.documents.at(place, schema, *steps).number,)

    def target(self, place: Place, schema: Any, keyword: str) -> Conj | None:
        """The conjunction that a reference leads to; chains of bare references are followed to their end."""
        seen: set[int] = set()
        while True:
            key = (place.number, keyword)
            target = self._targets.get(key)
            if target is None:
                target = self._targets[key] = self.documents.target(place, schema[keyword], keyword)
            if isinstance(target.schema, bool):
                return TRUE if target.schema else None
            if target.number in seen:
                raise Unsatisfiable(
                    "unsatisfiable: a reference leads only to itself",
                    pointer=place.pointer,
                    keyword=keyword,
                    hint="let the reference lead to a schema with a type",
                )
            seen.add(target.number)
            bare = [k for k in target.schema if k in CHECKS]
            if bare != ["$ref"]:
                return TRUE if CHECKS.keys().isdisjoint(target.schema) else (target.number,)
            place, schema, keyword = target, target.schema, "$ref"

    def targets(self) -> Iterable[tuple[tuple[int, str], Place]]:
        """The references followed so far: (place number, keyword) of each, and its target."""
        return self._targets.items()

    def spend(self, steps: int, place: Place | None = None) -> None:
        """Count work done.  Raises `SchemaError` past a limit or the deadline."""
        check_deadline(place)
        try:
            self._work.spend(steps)
        except TooMuch:
            over = f"expands to more than {self.limits.steps} alternatives, the limit 'steps'"
        else:
            if time.thread_time() <= self._end:
                return
            over = f"takes longer than {self._seconds} s to work out, the limit 'seconds'"
        pointer = place.pointer if place is not None else ""
        raise Overrun(f"the schema {over}", pointer=pointer, hint="use fewer nested allOf, anyOf and oneOf")

    # -- shapes

    def shape(self, conj: Conj) -> Shape:
        """The values that satisfy every literal of the conjunction."""
        cached = self._conjs.get(conj)
        if cached is not None:
            return cached
        floor, self._floor = self._floor, 1 << 60
        out = self.literal(conj[-1])
        if len(conj) > 1:  # the shape of all but the last is probably known
            out = self.intersect(self.shape(conj[:-1]), out, self.documents[conj[-1]])
        if self._floor >= 1 << 60:
            self._conjs[conj] = out
        self._floor = min(self._floor, floor)
        return out

    def intersect(self, one: Shape, two: Shape, place: Place, keyword: str = "") -> Shape:
        """The intersection; if it has too many forms ``two`` is left out, with a note at ``place``."""
        self.spend(1 + len(one.objects) * len(two.objects) + len(one.arrays) * len(two.arrays), place)
        try:
            return intersect(one, two, self.is_empty, self.limits.forms)
        except TooMuch:
            reason = f"not enforced: more than {self.limits.forms} alternatives, the limit 'forms'"
            note = ReportRow(place.pointer, keyword or "allOf", Outcome.RELAXED, reason)
            return with_notes(one, (note,))

    def literal(self, literal: int, *, tracked: bool = False) -> Shape:
        """The values that satisfy one literal; ``tracked``: forms record the keys and items that were evaluated."""
        key = (literal, tracked)
        cached = self._literals.get(key)
        if cached is not None:
            return cached
        if key in self._busy:
            level = self._busy[key]
            if self._barrier is not None and level < self._barrier:
                raise _InProgress
            self._floor = min(self._floor, level)
            return NOTHING if literal > 0 else ANYTHING
        level = len(self._busy)
        self._busy[key] = level
        outer, self._floor = self._floor, 1 << 60
        try:
            place = self.documents[literal]
            self.spend(1, place)
            run = self._allowed if literal > 0 else self._denied
            out = run(self, place, tracked)
            if self._floor >= level:  # used no busy literal outside itself
                self._literals[key] = out
                self._floor = 1 << 60
        finally:
            del self._busy[key]
            self._floor = min(self._floor, outer)
        return out

    # -- emptiness

    def is_empty(self, conj: Conj, *, for_all: bool = False) -> bool:
        """True only when surely no value satisfies the conjunction.

        By default this is about the values that we would write, which all validators accept; with ``for_all`` about
        those that any of them may accept: a proof that something holds anyway, or that branches exclude each other,
        needs that.  Where readings may differ nothing is proved.
        """
        if not conj:
            return False
        if self._depth >= _PROBE_DEPTH:
            self._cuts += 1
            return False
        if for_all:
            return self.is_empty(conj) and not self.may_be_wider(conj)
        cached = self._empty.get(conj)
        if cached is not None:
            return cached
        barrier, floor, cuts = self._barrier, self._floor, self._cuts
        self._barrier = len(self._busy)  # what is busy now waits for this answer and cannot be part of it
        self._depth += 1
        try:
            emptiness = self.has_no_value(self.shape(conj))
        except _InProgress:
            self._cuts += 1
            return False
        finally:
            self._depth -= 1
            self._barrier, self._floor = barrier, floor
        if emptiness or self._cuts == cuts:  # a search that was cut short may succeed elsewhere
            self._empty[conj] = emptiness
        return emptiness

    def may_be_wider(self, conj: Conj | None) -> bool:
        """Whether a validator may accept more for the conjunction than we would write, above all strings.

        Not looked at are ``\\d``, ``\\w`` and ``\\s`` read by Unicode without a look-around, a ``$`` of keys before a
        newline, and values that validators accept only by a fault of their own.
        """
        if not conj:
            return False
        if self._readings_differ is None:
            self._readings_differ = validators_may_differ(self.documents.root, is_document=True)
        return self._readings_differ and any(self._literal_may_be_wider(abs(literal)) for literal in conj)

    def _literal_may_be_wider(self, literal: int) -> bool:
        cached = self._wider.get(literal)
        if cached is None:
            cached = self._wider[literal] = validators_may_differ(self.documents[literal])
        return cached

    def has_no_value(self, shape: Shape) -> bool:
        """True only when surely no value is in the shape."""
        if shape.null or shape.booleans or shape.numbers or shape.strings != NONE:
            return False
        return not any(map(self._array_possible, shape.arrays)) and not any(map(self._object_possible, shape.objects))

    def _array_possible(self, form: ArrayForm) -> bool:
        for i in range(min(form.least, len(form.prefix) + 1)):
            item = form.item(i)
            if item is None or self.is_empty(item):
                return False
        return True

    def _object_possible(self, form: ObjectForm) -> bool:
        for key in sorted(form.required):
            conj = form.props.get(key, TRUE)
            if conj is None or self.is_empty(conj):
                return False
        return True
