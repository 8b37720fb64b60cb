"""The space of conjunctions: from literals to shapes, with memory.

`Space.shape` is the one entry: what a conjunction of literals allows.  Everything is computed once; cyclic
references that never pass through an array or object stand for nothing (the least solution), as no finite value
needs them.  Searches for emptiness made on the way are bounded and never wrong in the direction of "empty".
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from grammars.json_schema.documents import Documents, Place
from grammars.json_schema.expand import allowed, denied
from grammars.json_schema.formats import has_wide_format
from grammars.json_schema.general import patterns_of
from grammars.json_schema.limits import check_deadline
from grammars.json_schema.meet import TooManyForms, meet
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.regular import ALL, NONE, cat, disjoint, text
from grammars.json_schema.report import Outcome, ReportRow
from grammars.json_schema.shapes import ANYTHING, NOTHING, TRUE, ArrayForm, Conj, ObjectForm, Shape, with_notes
from grammars.json_schema.unevaluated import Either
from special_tokens.errors import SchemaError

__all__ = ["Overrun", "Space"]

_PROBE_DEPTH = 3  # how deep a search for emptiness looks into required values
_BARE = {"$ref"}
_ENDS_IN_NEWLINE = cat(ALL, text("\n"))


class _Unsettled(Exception):
    """A probe met a literal that is being computed: the answer is not known yet."""


class Overrun(SchemaError):
    """A limit on the work that a schema may cost was passed."""


class Space:
    """Shapes of the conjunctions over one set of documents.

    ``coarse`` is the second try for schemas that are too large to be followed in full: ``oneOf`` is then read as
    ``anyOf``, with a note.
    """

    def __init__(self, documents: Documents, *, coarse: bool = False) -> None:
        self.documents = documents
        self.coarse = coarse
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
        self._has_wide: bool | None = None
        self._wide: dict[int, bool] = {}
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
        if words == _BARE or ("$ref" in words and place.dialect.ref_stands_alone):
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

        Formats are narrower where they are written, and wider where they are negated, than a validator may have them;
        with ``to_write=False`` a conjunction that negates one is never surely empty.
        """
        if not conj:
            return False
        if self._depth >= _PROBE_DEPTH:
            self._cuts += 1
            return False
        if not to_write:
            if not self.is_empty(conj) or any(self.is_wide(-literal) for literal in conj if literal < 0):
                return False
            return not self._may_end_in_newline(conj)
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

    def is_wide(self, literal: int) -> bool:
        """May the negation of the literal leave out values that a validator takes?"""
        known = self._wide.get(literal)
        if known is not None:
            return known
        if self._has_wide is None:
            self._has_wide = has_wide_format(self.documents.root.schema, is_document=True)
        schema = self.documents[literal].schema
        if isinstance(schema, Either):
            found = any(self.is_wide(abs(n)) for conj in schema.options for n in conj)
        else:
            found = self._has_wide and has_wide_format(schema)
        self._wide[literal] = found
        return found

    def _may_end_in_newline(self, conj: Conj) -> bool:
        """May a newline at the end, before which a negated ``$`` is found as well, be why nothing is left?"""
        denied = [self.documents[-literal].schema for literal in conj if literal < 0]
        patterns = [p for schema in denied for several in patterns_of(schema) for p in several if "$" in p]
        if not patterns:
            return False
        asked = tuple(literal for literal in conj if literal > 0)
        own = {schema.get("pattern") for schema in denied if isinstance(schema, dict)}
        if not asked or not own.issuperset(patterns):  # those further in are of other strings
            return True
        return not disjoint(self.shape(asked).strings, _ENDS_IN_NEWLINE)

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
