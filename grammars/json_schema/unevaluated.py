"""``unevaluatedProperties`` and ``unevaluatedItems``: what no other keyword has looked at.

They are applied last, to forms that know what was evaluated on the way to them (`shapes.Seen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grammars.json_schema.keywords.objects import possible
from grammars.json_schema.document.places import Place
from grammars.regular.languages import Regular, alt, inter, matches, neg
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.solver.propagation import settle_array, settle_object
from grammars.json_schema.shapes.shapes import NOT_SEEN, TRUE, ArrayForm, Conj, ObjectForm, Seen, Shape, both, with_notes

if TYPE_CHECKING:
    from grammars.json_schema.solver.solver import Space

__all__ = ["Either", "close"]

_CONTAINS_REASON = "contains evaluates no items, as draft 2019-09 has it, though validators may let it"
_PATTERN_REASON = "not enforced: a pattern beside it is not understood, and may evaluate any key"


@dataclass(frozen=True, slots=True)
class Either:
    """A schema that we made: any of these conjunctions."""

    options: tuple[Conj, ...]


def close(space: Space, place: Place, schema: Mapping[str, Any], shape: Shape, *, tracked: bool = False) -> Shape:
    """The shape with both keywords applied; ``tracked`` forms go on to an outer one, which sees all evaluated."""
    objects: list[ObjectForm | None] = list(shape.objects)
    arrays: list[ArrayForm | None] = list(shape.arrays)
    notes: list[ReportRow] = []
    if "unevaluatedProperties" in schema:
        rest = space.child(place, schema["unevaluatedProperties"], "unevaluatedProperties")
        objects = [settle_object(_close_object(f, rest), space.is_empty) for f in shape.objects]
        if rest != TRUE and any(f.seen.any_key and not f.seen.every_key for f in shape.objects):
            notes.append(ReportRow(place.pointer, "unevaluatedProperties", Outcome.RELAXED, _PATTERN_REASON))
    if "unevaluatedItems" in schema:
        rest = space.child(place, schema["unevaluatedItems"], "unevaluatedItems")
        arrays = [settle_array(_close_array(space, place, f, rest), space.is_empty) for f in shape.arrays]
        if any(f.seen.not_contains and not f.seen.every_item for f in shape.arrays):
            notes.append(ReportRow(place.pointer, "unevaluatedItems", Outcome.NARROWED, _CONTAINS_REASON))
    forms, lists = [f for f in objects if f is not None], [f for f in arrays if f is not None]
    if not tracked:
        forms = [replace(f, seen=NOT_SEEN) for f in forms]
        lists = [replace(f, seen=NOT_SEEN) for f in lists]
    shape = with_notes(shape, notes)
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, tuple(lists), tuple(forms), shape.notes)


def _close_object(form: ObjectForm, rest: Conj | None) -> ObjectForm:
    seen = form.seen
    every = replace(seen, every_key=True)
    if seen.every_key:
        return form
    if seen.any_key:
        return replace(form, seen=every)
    props = {
        key: conj if key in seen.keys or any(matches(p, key) for p in seen.patterns) else both(conj, rest)
        for key, conj in form.props.items()
    }
    cells: list[tuple[Regular, Conj]] = []
    looked_at = alt(*seen.patterns)
    for language, conj in form.cells:
        inside, outside = inter(language, looked_at), inter(language, neg(looked_at))
        if seen.patterns and possible(inside):
            cells.append((inside, conj))
        closed = both(conj, rest)
        if closed is not None and possible(outside):
            cells.append((outside, closed))
    return replace(form, props=_with_seen(props, form, seen), cells=tuple(cells), seen=every)


def _with_seen(props: dict[str, Conj | None], form: ObjectForm, seen: Seen) -> dict[str, Conj | None]:
    """Evaluated keys that the form does not list itself keep the value of their cell."""
    for key in sorted(seen.keys - props.keys()):
        for language, conj in form.cells:
            if matches(language, key):
                props[key] = conj
    return props


def _close_array(space: Space, place: Place, form: ArrayForm, rest: Conj | None) -> ArrayForm:
    seen = form.seen
    every = replace(seen, every_item=True)
    if seen.every_item:
        return form
    if seen.contains:
        options = (*seen.contains, *((rest,) if rest is not None else ()))
        rest = TRUE if TRUE in options else (space.documents.made(place, Either(options), "unevaluatedItems").number,)
    size = max(len(form.prefix), seen.items)
    prefix = tuple(form.item(i) if i < seen.items else both(form.item(i), rest) for i in range(size))
    return replace(form, prefix=prefix, rest=both(form.rest, rest), seen=every)
