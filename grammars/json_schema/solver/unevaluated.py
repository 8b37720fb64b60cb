"""``unevaluatedProperties`` and ``unevaluatedItems``: conditions on the keys and items that no other keyword evaluated.

They are applied last, to forms that record what was evaluated on the way to them (`shapes.Evaluated`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.shapes import (
    NOTHING_EVALUATED,
    TRUE,
    ArrayForm,
    Conj,
    Evaluated,
    ObjectForm,
    Shape,
    conjoin,
    with_notes,
)
from grammars.json_schema.solver.propagation import propagate_array, propagate_object
from grammars.json_schema.solver.solver import Solver
from grammars.regular.json_strings import may_hold_text
from grammars.regular.terms import Regular, alt, inter, matches, neg
from grammars.values.report import Outcome, ReportRow

__all__ = ["apply_unevaluated"]

_CONTAINS_REASON = "not enforced: contains may evaluate any item"
_PATTERN_REASON = "not enforced: a sibling pattern is not understood, and may evaluate any key"


def apply_unevaluated(
    solver: Solver, place: Place, schema: Mapping[str, Any], shape: Shape, *, tracked: bool = False
) -> Shape:
    """The shape with both keywords applied; ``tracked``: forms go on to an outer one, for which everything is
    evaluated.
    """
    objects: list[ObjectForm | None] = list(shape.objects)
    arrays: list[ArrayForm | None] = list(shape.arrays)
    notes: list[ReportRow] = []
    if "unevaluatedProperties" in schema:
        unevaluated = solver.child(place, schema["unevaluatedProperties"], "unevaluatedProperties")
        objects = [propagate_object(_close_object(f, unevaluated), solver.is_empty) for f in shape.objects]
        if unevaluated != TRUE and any(f.evaluated.unknown_keys and not f.evaluated.every_key for f in shape.objects):
            notes.append(ReportRow(place.pointer, "unevaluatedProperties", Outcome.RELAXED, _PATTERN_REASON))
    if "unevaluatedItems" in schema:
        unevaluated = solver.child(place, schema["unevaluatedItems"], "unevaluatedItems")
        arrays = [propagate_array(_close_array(f, unevaluated), solver.is_empty) for f in shape.arrays]
        if unevaluated != TRUE and any(f.evaluated.contains and not f.evaluated.every_item for f in shape.arrays):
            notes.append(ReportRow(place.pointer, "unevaluatedItems", Outcome.RELAXED, _CONTAINS_REASON))
    forms, lists = [f for f in objects if f is not None], [f for f in arrays if f is not None]
    if not tracked:
        forms = [replace(f, evaluated=NOTHING_EVALUATED) for f in forms]
        lists = [replace(f, evaluated=NOTHING_EVALUATED) for f in lists]
    shape = with_notes(shape, notes)
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, tuple(lists), tuple(forms), shape.notes)


def _close_object(form: ObjectForm, unevaluated: Conj | None) -> ObjectForm:
    evaluated = form.evaluated
    every = replace(evaluated, every_key=True)
    if evaluated.every_key:
        return form
    if evaluated.unknown_keys:
        return replace(form, evaluated=every)
    props = {
        key: conj
        if key in evaluated.keys or any(matches(p, key) for p in evaluated.patterns)
        else conjoin(conj, unevaluated)
        for key, conj in form.props.items()
    }
    cells: list[tuple[Regular, Conj]] = []
    looked_at = alt(*evaluated.patterns)
    for language, conj in form.cells:
        inside, outside = inter(language, looked_at), inter(language, neg(looked_at))
        if evaluated.patterns and may_hold_text(inside):
            cells.append((inside, conj))
        closed = conjoin(conj, unevaluated)
        if closed is not None and may_hold_text(outside):
            cells.append((outside, closed))
    return replace(form, props=_with_evaluated_keys(props, form, evaluated), cells=tuple(cells), evaluated=every)


def _with_evaluated_keys(
    props: dict[str, Conj | None], form: ObjectForm, evaluated: Evaluated
) -> dict[str, Conj | None]:
    """The properties, with evaluated keys that the form does not list added: they keep the value of their cell."""
    for key in sorted(evaluated.keys - props.keys()):
        for language, conj in form.cells:
            if matches(language, key):
                props[key] = conj
    return props


def _close_array(form: ArrayForm, unevaluated: Conj | None) -> ArrayForm:
    evaluated = form.evaluated
    every = replace(evaluated, every_item=True)
    if evaluated.every_item:
        return form
    if evaluated.contains:
        return replace(form, evaluated=every)
    size = max(len(form.prefix), evaluated.items)
    prefix = tuple(form.item(i) if i < evaluated.items else conjoin(form.item(i), unevaluated) for i in range(size))
    return replace(form, prefix=prefix, items=conjoin(form.items, unevaluated), evaluated=every)
