"""From one schema object to its shape, and to the shape of its negation.

The keywords of one type are read together (`keywords`); applicators are intersected one by one in the order of the
schema, in which the grammar writes keys, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.json_schema.keywords import arrays, numeric, objects, text
from grammars.json_schema.passes.kinds import TYPES
from grammars.json_schema.passes.normalise import normalise
from grammars.json_schema.shapes.equality_keys import distinct_values
from grammars.json_schema.shapes.numbers import ANY_NUMBER, Numbers, complement, intersect, listed_numbers
from grammars.json_schema.shapes.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
    ANYTHING,
    NOTHING_EVALUATED,
    TRUE,
    ArrayForm,
    Conj,
    Evaluated,
    ObjectForm,
    Shape,
    has,
    lacks,
    some,
    with_notes,
)
from grammars.json_schema.solver.applicators import ALLOW, DENY
from grammars.json_schema.solver.combine import unite
from grammars.json_schema.solver.propagation import propagate_array, propagate_object
from grammars.json_schema.solver.solver import Solver
from grammars.json_schema.solver.unevaluated import apply_unevaluated
from grammars.limits.schema_limits import with_deadline
from grammars.regular.terms import ALL, NONE, Regular, neg, words
from grammars.values.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = ["solver_of"]

_TYPED = {*arrays.KEYWORDS, *numeric.KEYWORDS, *objects.KEYWORDS, *text.KEYWORDS, "type", "enum"}


def solver_of(documents: Documents, *, coarse: bool = False) -> Solver:
    """A solver over ``documents``; ``coarse``: see `Solver`."""
    return Solver(documents, _allowed, _denied, coarse=coarse)


def _allowed(solver: Solver, place: Place, tracked: bool) -> Shape:
    """The values that satisfy the schema at ``place``."""
    schema, rows = normalise(place)
    notes = list(rows)
    closing = [k for k in ("unevaluatedProperties", "unevaluatedItems") if k in schema]
    inner = tracked or bool(closing)
    out = ANYTHING
    position = "properties" if "properties" in schema else next(iter(schema), "")  # the position of our own keys
    for keyword in schema:
        if keyword == position:
            out = solver.intersect(out, _start(solver, place, schema, notes, inner), place, keyword)
        read = ALLOW.get(keyword)
        if read is not None:
            out = solver.intersect(out, read(solver, place, schema, inner), place, keyword)
    if inner and not tracked:
        out = apply_unevaluated(solver, place, schema, out)
    elif closing:
        out = apply_unevaluated(solver, place, schema, out, tracked=True)
    return with_notes(out, notes)


def _start(solver: Solver, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool) -> Shape:
    if _TYPED.isdisjoint(schema):
        return ANYTHING
    out = _typed(solver, place, schema, notes, tracked)
    if "enum" in schema:
        out = solver.intersect(_enum_shape(solver, place, schema["enum"]), out, place, "enum")
    return out


def _types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type", TYPES)
    return frozenset((named,)) if isinstance(named, str) else frozenset(named)


def _typed(solver: Solver, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool) -> Shape:
    types = _types(schema)
    numbers: tuple[Numbers, ...] = ()
    if types & {"number", "integer"}:
        permitted = numeric.allow(schema, place.pointer)
        if "number" not in types:
            permitted = intersect(permitted, Numbers(integer=True))
        numbers = () if permitted.is_empty() else (permitted,)
    strings = text.allow(schema, place, solver.documents, notes) if "string" in types else NONE
    if "string" not in types:
        notes += text.unknown_format_rows(schema, place)
    return Shape(
        "null" in types,
        3 if "boolean" in types else 0,
        numbers,
        strings,
        _arrays(solver, place, schema, tracked) if "array" in types else (),
        _objects(solver, place, schema, notes, tracked) if "object" in types else (),
    )


def _arrays(solver: Solver, place: Place, schema: dict[str, Any], tracked: bool) -> tuple[ArrayForm, ...]:
    if not any(k in schema for k in arrays.KEYWORDS):
        return (ANY_ARRAY,)
    forms = arrays.allow(schema, place, solver.child)
    form = None if forms is None else propagate_array(forms, solver.is_empty)
    if form is None:
        return ()
    if not tracked:
        form = replace(form, evaluated=NOTHING_EVALUATED)
    return (form,)


def _objects(
    solver: Solver, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool
) -> tuple[ObjectForm, ...]:
    if not any(k in schema for k in objects.KEYWORDS):
        return (ANY_OBJECT,)
    forms = objects.allow(schema, place, solver.documents, solver.child, _names(solver, notes), notes)
    form = propagate_object(forms, solver.is_empty)
    if form is None:
        return ()
    if not tracked and form.evaluated != NOTHING_EVALUATED:
        form = replace(form, evaluated=NOTHING_EVALUATED)
    return (form,)


def _names(solver: Solver, notes: list[ReportRow]) -> Callable[[Conj], Regular]:
    """A function that gives the strings of a conjunction and adds their notes to ``notes``."""

    def names(conj: Conj) -> Regular:
        shape = solver.shape(conj)
        notes.extend(shape.notes)
        return shape.strings

    return names


# -- enum


def _enum_shape(solver: Solver, place: Place, values: list[Any]) -> Shape:
    """Exactly these values; the insides of arrays and objects become literals."""
    null, booleans = None in values, 0
    strings, numbers = [], []
    array_forms: list[ArrayForm] = []
    object_forms: list[ObjectForm] = []
    for i, value in _bounded(values, solver, place):
        if isinstance(value, bool):
            booleans |= 2 if value else 1
        elif isinstance(value, str):
            strings.append(value)
        elif isinstance(value, int | float):
            numbers.append(value)
        elif isinstance(value, list):
            items = tuple(_constant(solver, place, v, "enum", i, j) for j, v in enumerate(value))
            size = len(items)
            array_forms.append(ArrayForm(items, None, size, size, evaluated=Evaluated(every_item=False)))
        elif isinstance(value, dict):
            props = {k: _constant(solver, place, v, "enum", i, k) for k, v in value.items()}
            object_forms.append(ObjectForm(props, (), frozenset(props)))
    return Shape(
        null,
        booleans,
        (listed_numbers(numbers),) if numbers else (),
        words(strings),
        tuple(dict.fromkeys(array_forms)),
        tuple(object_forms),
    )


def _bounded(values: list[Any], solver: Solver, place: Place) -> Iterable[tuple[int, Any]]:
    """The values and their indexes, no array or object twice: each has rules of its own, item by item."""
    nested = [value for value in values if isinstance(value, list | dict)]
    if len(nested) < 2:
        return enumerate(values)
    distinct = distinct_values(with_deadline(values))
    size = sum(1 + len(value) for _, value in distinct if isinstance(value, list | dict))
    if size > solver.limits.edges:
        raise SchemaError(
            f"arrays and objects with {size} items and members are listed, the limit 'edges' is {solver.limits.edges}",
            pointer=place.pointer,
            keyword="enum",
            hint="list fewer arrays and objects, or describe them",
        )
    return distinct


def _constant(solver: Solver, place: Place, value: Any, *steps: str | int) -> Conj:
    return (solver.documents.made(place, {"enum": [value]}, *steps).number,)


# -- negation


def _denied(solver: Solver, place: Place, tracked: bool) -> Shape:
    """The values that do not satisfy the schema at ``place`` (or more, with a note)."""
    schema, rows = normalise(place)
    notes = [note for row in rows for note in _negated_rows(row)]
    options: list[Shape] = []
    types = _types(schema)
    if "type" in schema:
        options.append(_other_types(types))
    options.append(
        Shape(
            numbers=_deny_numbers(schema, place, notes) if types & {"number", "integer"} else (),
            strings=_deny_strings(solver, place, schema, notes) if "string" in types else NONE,
            arrays=_settled_arrays(solver, arrays.deny(schema, place, solver.child, notes)) if "array" in types else (),
            objects=_broken_objects(solver, place, schema, notes) if "object" in types else (),
        )
    )
    if "enum" in schema:
        options.append(_not_enum_shape(solver, place, schema["enum"]))
    options += [deny(solver, place, schema) for keyword, deny in DENY.items() if keyword in schema]
    for keyword, every in _UNEVALUATED.items():
        if schema.get(keyword, True) is not True:
            reason = "not enforced: its negation is not computed"
            options.append(replace(every, notes=(ReportRow(place.pointer, keyword, Outcome.RELAXED, reason),)))
    return with_notes(unite(options), notes)


def _negated_rows(row: ReportRow) -> tuple[ReportRow, ...]:
    """The rows for a negated schema, given a row for the schema itself.

    To deny less is to accept more.  An unknown dialect may have keywords that are weaker and others that are stronger.
    """
    if row.outcome is not Outcome.NARROWED:
        return (row,)
    relaxed = replace(row, outcome=Outcome.RELAXED)
    return (row, relaxed) if row.keyword == "$schema" else (relaxed,)


#: The values that may break these keywords.
_UNEVALUATED = {
    "unevaluatedProperties": Shape(objects=(ANY_OBJECT,)),
    "unevaluatedItems": Shape(arrays=(ANY_ARRAY,)),
}


def _other_types(types: frozenset[str]) -> Shape:
    numbers: tuple[Numbers, ...] = (ANY_NUMBER,)
    if "number" in types:
        numbers = ()
    elif "integer" in types:
        numbers = (Numbers(integer=False),)
    return Shape(
        "null" not in types,
        0 if "boolean" in types else 3,
        numbers,
        NONE if "string" in types else ALL,
        () if "array" in types else (ANY_ARRAY,),
        () if "object" in types else (ANY_OBJECT,),
    )


def _deny_numbers(schema: dict[str, Any], place: Place, notes: list[ReportRow]) -> tuple[Numbers, ...]:
    return numeric.deny(schema, place, notes) if any(k in schema for k in numeric.KEYWORDS) else ()


def _deny_strings(solver: Solver, place: Place, schema: dict[str, Any], notes: list[ReportRow]) -> Regular:
    strings = text.deny(schema, place, solver.documents, notes)
    return NONE if strings is None else strings


def _settled_arrays(solver: Solver, forms: tuple[ArrayForm, ...]) -> tuple[ArrayForm, ...]:
    if ANY_ARRAY in forms:
        return (ANY_ARRAY,)
    return tuple(f for f in (propagate_array(form, solver.is_empty) for form in forms) if f is not None)


def _broken_objects(
    solver: Solver, place: Place, schema: dict[str, Any], notes: list[ReportRow]
) -> tuple[ObjectForm, ...]:
    forms = objects.deny(schema, place, solver.documents, solver.child, _names(solver, notes), notes)
    form = None if forms is None else propagate_object(forms, solver.is_empty)
    return () if form is None else (form,)


def _not_enum_shape(solver: Solver, place: Place, values: list[Any]) -> Shape:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    strings = [v for v in values if isinstance(v, str)]
    out = Shape(
        None not in values,
        3 & ~((2 if True in [v for v in values if isinstance(v, bool)] else 0)
              | (1 if False in [v for v in values if isinstance(v, bool)] else 0)),
        complement(listed_numbers(numbers)) if numbers else (ANY_NUMBER,),
        neg(words(strings)) if strings else ALL,
        (ANY_ARRAY,),
        (ANY_OBJECT,),
    )  # fmt: skip
    for i, value in _bounded(values, solver, place):
        if isinstance(value, dict | list):
            out = solver.intersect(out, _unequal(solver, place, value, i), place, "enum")
    return out


def _unequal(solver: Solver, place: Place, value: Any, index: int) -> Shape:
    """Every value except one array or object."""
    if isinstance(value, list):
        size = len(value)
        forms = [ArrayForm(least=size + 1)] + ([ArrayForm(most=size - 1)] if size else [])
        for j, item in enumerate(value):
            constant = _constant(solver, place, item, "enum", index, j)
            forms.append(ArrayForm((TRUE,) * j + ((-constant[0],),), least=j + 1))
        return replace(ANYTHING, arrays=tuple(forms))
    facts = [some(neg(words(value)), TRUE)]
    for key, item in value.items():
        facts += [lacks(key), has(key, (-_constant(solver, place, item, "enum", index, key)[0],))]
    return replace(ANYTHING, objects=(ObjectForm(clauses=(frozenset(facts),)),))
