"""The space of conjunctions: from literals to shapes, with memory.

`Space.shape` is the one entry: what a conjunction of literals allows.  Everything is computed once; cyclic
references that never pass through an array or object stand for nothing (the least solution), as no finite value
needs them.  Searches for emptiness made on the way are bounded and never wrong in the direction of "empty".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.solver.semantics import allowed, denied
from grammars.limits.schema_limits import check_deadline
from grammars.json_schema.solver.combine import TooManyForms, apart, meet
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.document.places import Place
from grammars.json_schema.document.reader_differences import reads_differ
from grammars.regular.languages import NONE
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.shapes.shapes import ANYTHING, NOTHING, TRUE, ArrayForm, Conj, ObjectForm, Shape, with_notes
from grammars.json_schema.unevaluated import Either
from special_tokens.errors import SchemaError

__all__ = ["Overrun", "Space"]

_PROBE_DEPTH = 3  # how deep a search for emptiness looks into required values
_BARE = {"$ref"}


class _Unsettled(Exception):
    """A probe met a literal that is being computed: the answer is not known yet."""


class Overrun(SchemaError):
    """A limit on the work that a schema may cost was passed."""


class Space:
    """Shapes of the conjunctions over one set of documents.

    ``coarse`` is the second try for schemas that are too large to be followed in full: ``oneOf`` is then read as
    ``anyOf``, with a note.  ``is_widest``: strings are all that any validator may take for such; see `widest`.
    """

    def __init__(self, documents: Documents, *, coarse: bool = False, is_widest: bool = False) -> None:
        self.documents = documents
        self.coarse = coarse
        self.is_widest = is_widest
        self.limits = documents.limits
        self._conjs: dict[Conj, Shape] = {TRUE: ANYTHING}
        self._literals: dict[tuple[int, bool], Shape] = {}
        self._busy: dict[tuple[int, bool], int] = {}
        self._floor = 1 << 60  # the outermost busy literal that the running computation leaned on
        self._barrier: int | None = None  # busy literals below it belong to the one who asks, not to the probe
        self._depth = 0
        self._steps = 0
        self._end = time.thread_time() + self.limits.seconds  # our own: a busy machine must not change a plan
        self._targets: dict[tuple[int, str], Place] = {}
        self._widest: Space | None = None
        self._is_loose: bool | None = None
        self._loose: dict[int, bool] = {}
        self._empty: dict[Conj, bool] = {}
        self._cuts = 0  # questions that were not followed to their end

    # -- literals

    def child(self, place: Place, schema: Any, *steps: str | int) -> Conj | None:
        """The conjunction of one subschema: nothing for true, None for false, else its literal."""
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
        """The conjunction that a reference stands for; chains of bare references are followed to their end."""
        seen: set[int] = set()
        while True:
            key = (place.number, keyword)
            found = self._targets.get(key)
            if found is None:
                found = self._targets[key] = self.documents.target(place, schema[keyword], keyword)
            if isinstance(found.schema, bool):
                return TRUE if found.schema else None
            if found.number in seen:
                raise SchemaError(
                    "unsatisfiable schema: a reference leads only to itself",
                    pointer=place.pointer,
                    keyword=keyword,
                    hint="let the reference lead to a schema with a type",
                )
            seen.add(found.number)
            bare = [k for k in found.schema if k in CHECKS]
            if bare != ["$ref"]:
                return TRUE if CHECKS.keys().isdisjoint(found.schema) else (found.number,)
            place, schema, keyword = found, found.schema, "$ref"

    def targets(self) -> Iterable[tuple[tuple[int, str], Place]]:
        """Where the references lead that were followed: by the place that has it and its keyword."""
        return self._targets.items()

    def spend(self, steps: int, place: Place | None = None) -> None:
        """Count work done; raises `SchemaError` when a limit is passed."""
        check_deadline(place)
        self._steps += steps
        if self._steps <= self.limits.steps and time.thread_time() <= self._end:
            return
        pointer = place.pointer if place is not None else ""
        if self._steps > self.limits.steps:
            raise Overrun(
                f"the schema expands to more than {self.limits.steps} alternatives, the limit 'steps'",
                pointer=pointer,
                hint="use fewer nested allOf, anyOf and oneOf",
            )
        raise Overrun(
            f"the schema takes longer than {self.limits.seconds} s to work out, the limit 'seconds'",
            pointer=pointer,
            hint="use fewer nested allOf, anyOf and oneOf",
        )

    # -- shapes

    def shape(self, conj: Conj) -> Shape:
        """What the conjunction allows."""
        known = self._conjs.get(conj)
        if known is not None:
            return known
        floor, self._floor = self._floor, 1 << 60
        out = self.literal(conj[-1])
        if len(conj) > 1:  # what all but the last allow is likely to be known
            out = self.both(self.shape(conj[:-1]), out, self.documents[conj[-1]])
        if self._floor >= 1 << 60:
            self._conjs[conj] = out
        self._floor = min(self._floor, floor)
        return out

    def both(self, one: Shape, two: Shape, place: Place, keyword: str = "") -> Shape:
        """The intersection; where it has too many forms ``two`` is left out, with a note at ``place``."""
        self.spend(1 + len(one.objects) * len(two.objects) + len(one.arrays) * len(two.arrays), place)
        try:
            return meet(one, two, self.is_empty, self.limits.forms)
        except TooManyForms:
            reason = f"not enforced: more than {self.limits.forms} alternatives, the limit 'forms'"
            note = ReportRow(place.pointer, keyword or "allOf", Outcome.RELAXED, reason)
            return with_notes(one, (note,))

    def literal(self, literal: int, *, tracked: bool = False) -> Shape:
        """What one literal allows; ``tracked`` forms carry what they evaluated."""
        key = (literal, tracked)
        known = self._literals.get(key)
        if known is not None:
            return known
        if key in self._busy:
            level = self._busy[key]
            if self._barrier is not None and level < self._barrier:
                raise _Unsettled
            self._floor = min(self._floor, level)
            return NOTHING if literal > 0 else ANYTHING
        level = len(self._busy)
        self._busy[key] = level
        outer, self._floor = self._floor, 1 << 60
        try:
            place = self.documents[literal]
            self.spend(1, place)
            run = allowed if literal > 0 else denied
            out = run(self, place, tracked)
            if self._floor >= level:  # leaned on nothing outside itself
                self._literals[key] = out
                self._floor = 1 << 60
        finally:
            del self._busy[key]
            self._floor = min(self._floor, outer)
        return out

    # -- emptiness

    def is_empty(self, conj: Conj, *, to_write: bool = True) -> bool:
        """True only when surely no value satisfies the conjunction.

        What we would write is meant, which is what all validators take; with ``to_write=False`` what any of them may
        take: a proof that something holds anyway, or that branches exclude each other, needs that.
        """
        if not conj:
            return False
        if self._depth >= _PROBE_DEPTH:
            self._cuts += 1
            return False
        if not to_write:
            return self.is_empty(conj) and self.stays(lambda widest: widest.is_empty(conj), conj)
        known = self._empty.get(conj)
        if known is not None:
            return known
        barrier, floor, cuts = self._barrier, self._floor, self._cuts
        self._barrier = len(self._busy)  # what is busy now waits for this answer: it cannot be part of it
        self._depth += 1
        try:
            found = self._nothing_in(self.shape(conj))
        except _Unsettled:
            self._cuts += 1
            return False
        finally:
            self._depth -= 1
            self._barrier, self._floor = barrier, floor
        if found or self._cuts == cuts:  # else asked elsewhere it may be seen further
            self._empty[conj] = found
        return found

    def is_loose(self, conj: Conj) -> bool:
        """May a validator take more for the conjunction than we would write, strings of other forms above all?"""
        if self._is_loose is None:
            self._is_loose = reads_differ(self.documents.root, is_document=True)
        return self._is_loose and any(self._literal_is_loose(abs(literal)) for literal in conj)

    def _literal_is_loose(self, literal: int) -> bool:
        known = self._loose.get(literal)
        if known is None:
            place = self.documents[literal]
            made = place.schema
            known = any(map(self.is_loose, made.options)) if isinstance(made, Either) else reads_differ(place)
            self._loose[literal] = known
        return known

    @property
    def widest(self) -> Space:
        """The space of what some validator may take: for proofs that something cannot be, never to write from.

        Not in it: ``\\d``, ``\\w`` and ``\\s`` read by Unicode where no look-around stands, a ``$`` of keys before a
        newline, and what the validators' faults alone let them take.
        """
        if self.is_widest:
            return self
        if self._widest is None:
            self._widest = Space(self.documents, is_widest=True)
            self._widest._end = self._end
        return self._widest

    def stay_apart(self, one: Conj | None, two: Conj | None) -> bool:
        """Have two conjunctions that share nothing here nothing in common for any validator?"""

        def are_apart(widest: Space) -> bool:
            a, b = widest.shape(one or ()), widest.shape(two or ())
            widest.spend(len(a.objects) * len(b.objects))
            return apart(a, b, widest.is_empty)

        return self.stays(are_apart, one, two)

    def stays(self, find: Callable[[Space], bool], *conjs: Conj | None) -> bool:
        """Does what was found of ``conjs`` here hold for any validator: is it found in `widest` as well?

        Not where that comes to a limit; past the deadline its error is raised.
        """
        if not any(self.is_loose(conj or ()) for conj in conjs):
            return True
        try:
            return find(self.widest)
        except SchemaError:
            check_deadline()
            return False

    def _nothing_in(self, shape: Shape) -> bool:
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
