"""From one schema object to its shape: what it allows, and what its negation allows.

The keywords of one type are read together (`keywords`); applicators are met one by one in the order in which they
are written, which is also the order in which the grammar writes keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grammars.json_schema.branches import ALLOW, DENY
from grammars.json_schema.keywords import arrays, numeric, objects, text
from grammars.limits.schema_limits import timely
from grammars.json_schema.solver.combine import union
from grammars.json_schema.passes.normalise import normalise
from grammars.json_schema.shapes.numbers import ANY_NUMBER, Numbers, constants, meet, negated
from grammars.json_schema.passes.kinds import TYPES
from grammars.json_schema.document.places import Place
from grammars.json_schema.document.reader_differences import is_astray
from grammars.regular.languages import ALL, NONE, Regular, neg, words
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.shapes.equality_keys import distinct
from grammars.json_schema.solver.propagation import settle_array, settle_object
from grammars.json_schema.shapes.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
    ANYTHING,
    NOT_SEEN,
    TRUE,
    ArrayForm,
    Conj,
    ObjectForm,
    Seen,
    Shape,
    has,
    lacks,
    some,
    with_notes,
)
from grammars.json_schema.unevaluated import Either, close
from special_tokens.errors import SchemaError

if TYPE_CHECKING:
    from grammars.json_schema.solver.solver import Space

__all__ = ["allowed", "denied"]

_TYPED = {*arrays.KEYWORDS, *numeric.KEYWORDS, *objects.KEYWORDS, *text.KEYWORDS, "type", "enum"}


def allowed(space: Space, place: Place, tracked: bool) -> Shape:
    """The values that satisfy the schema at ``place``."""
    if isinstance(place.schema, Either):
        return union([space.shape(conj) for conj in place.schema.options])
    if space.is_widest and is_astray(place):
        return ANYTHING
    schema, rows = normalise(place, is_widest=space.is_widest)
    notes = list(rows)
    closing = [k for k in ("unevaluatedProperties", "unevaluatedItems") if k in schema]
    inner = tracked or bool(closing)
    out = ANYTHING
    own = "properties" if "properties" in schema else next(iter(schema), "")  # where our own keys stand
    for keyword in schema:
        if keyword == own:
            out = space.both(out, _start(space, place, schema, notes, inner), place, keyword)
        read = ALLOW.get(keyword)
        if read is not None:
            out = space.both(out, read(space, place, schema, inner), place, keyword)
    if inner and not tracked:
        out = close(space, place, schema, out)
    elif closing:
        out = close(space, place, schema, out, tracked=True)
    return with_notes(out, notes)


def _start(space: Space, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool) -> Shape:
    if _TYPED.isdisjoint(schema):
        return ANYTHING
    out = _typed(space, place, schema, notes, tracked)
    if "enum" in schema:
        out = space.both(_listed(space, place, schema["enum"]), out, place, "enum")
    return out


def _types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type", TYPES)
    return frozenset((named,)) if isinstance(named, str) else frozenset(named)


def _typed(space: Space, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool) -> Shape:
    types = _types(schema)
    numbers: tuple[Numbers, ...] = ()
    if types & {"number", "integer"}:
        found = numeric.allow(schema, place.pointer)
        if "number" not in types:
            found = meet(found, Numbers(integer=True))
        numbers = () if found.is_empty() else (found,)
    strings = text.allow(schema, place, space.documents, notes, widest=space.is_widest) if "string" in types else NONE
    if "string" not in types:
        notes += text.ignored_rows(schema, place)
    return Shape(
        "null" in types,
        3 if "boolean" in types else 0,
        numbers,
        strings,
        _arrays(space, place, schema, tracked) if "array" in types else (),
        _objects(space, place, schema, notes, tracked) if "object" in types else (),
    )


def _arrays(space: Space, place: Place, schema: dict[str, Any], tracked: bool) -> tuple[ArrayForm, ...]:
    if not any(k in schema for k in arrays.KEYWORDS):
        return (ANY_ARRAY,)
    found = arrays.allow(schema, place, space.child, widest=space.is_widest)
    form = None if found is None else settle_array(found, space.is_empty)
    if form is None:
        return ()
    if not tracked:
        form = replace(form, seen=NOT_SEEN)
    return (form,)


def _objects(
    space: Space, place: Place, schema: dict[str, Any], notes: list[ReportRow], tracked: bool
) -> tuple[ObjectForm, ...]:
    if not any(k in schema for k in objects.KEYWORDS):
        return (ANY_OBJECT,)
    found = objects.allow(
        schema, place, space.documents, space.child, _names(space, notes), notes, widest=space.is_widest
    )
    form = settle_object(found, space.is_empty)
    if form is None:
        return ()
    if not tracked and form.seen != NOT_SEEN:
        form = replace(form, seen=NOT_SEEN)
    return (form,)


def _names(space: Space, notes: list[ReportRow]) -> Callable[[Conj], Regular]:
    """The strings of a schema; what is to be said of them goes to ``notes``."""

    def names(conj: Conj) -> Regular:
        shape = space.shape(conj)
        notes.extend(shape.notes)
        return shape.strings

    return names


# -- enum


def _listed(space: Space, place: Place, values: list[Any]) -> Shape:
    """Exactly these values; arrays and objects by literals for what is inside them."""
    null, booleans = None in values, 0
    strings, numbers = [], []
    array_forms: list[ArrayForm] = []
    object_forms: list[ObjectForm] = []
    for i, value in _bounded(values, space, place):
        if isinstance(value, bool):
            booleans |= 2 if value else 1
        elif isinstance(value, str):
            strings.append(value)
        elif isinstance(value, int | float):
            numbers.append(value)
        elif isinstance(value, list):
            items = tuple(_constant(space, place, v, "enum", i, j) for j, v in enumerate(value))
            size = len(items)
            array_forms.append(ArrayForm(items, None, size, size, seen=Seen(every_item=False)))
        elif isinstance(value, dict):
            props = {k: _constant(space, place, v, "enum", i, k) for k, v in value.items()}
            object_forms.append(ObjectForm(props, (), frozenset(props)))
    return Shape(
        null,
        booleans,
        (constants(numbers),) if numbers else (),
        words(strings),
        tuple(dict.fromkeys(array_forms)),
        tuple(object_forms),
    )


def _bounded(values: list[Any], space: Space, place: Place) -> Iterable[tuple[int, Any]]:
    """The values and their places, no array or object twice: of those each has rules of its own, item by item."""
    nested = [value for value in values if isinstance(value, list | dict)]
    if len(nested) < 2:
        return enumerate(values)
    found = distinct(timely(values))
    size = sum(1 + len(value) for _, value in found if isinstance(value, list | dict))
    if size > space.limits.edges:
        raise SchemaError(
            f"arrays and objects with {size} items and members are listed, the limit 'edges' is {space.limits.edges}",
            pointer=place.pointer,
            keyword="enum",
            hint="list fewer arrays and objects, or describe them",
        )
    return found


def _constant(space: Space, place: Place, value: Any, *steps: str | int) -> Conj:
    return (space.documents.made(place, {"enum": [value]}, *steps).number,)


# -- negation


def denied(space: Space, place: Place, tracked: bool) -> Shape:
    """The values that do not satisfy the schema at ``place`` (or more, with a note)."""
    if isinstance(place.schema, Either):
        out = ANYTHING
        for conj in place.schema.options:
            out = space.both(out, _deny_conj(space, conj), place, "anyOf")
        return out
    if space.is_widest and is_astray(place):
        return ANYTHING
    schema, rows = normalise(place)
    notes = [note for row in rows for note in _denied(row)]
    options: list[Shape] = []
    types = _types(schema)
    if "type" in schema:
        options.append(_other_types(types))
    options.append(
        Shape(
            numbers=_deny_numbers(schema, place, notes) if types & {"number", "integer"} else (),
            strings=_deny_strings(space, place, schema, notes) if "string" in types else NONE,
            arrays=_settled_arrays(space, arrays.deny(schema, place, space.child, notes)) if "array" in types else (),
            objects=_broken_objects(space, place, schema, notes) if "object" in types else (),
        )
    )
    if "enum" in schema:
        options.append(_unlisted(space, place, schema["enum"]))
    options += [deny(space, place, schema) for keyword, deny in DENY.items() if keyword in schema]
    for keyword, every in _UNEVALUATED.items():
        if schema.get(keyword, True) is not True:
            reason = "not enforced: its negation is not worked out"
            options.append(replace(every, notes=(ReportRow(place.pointer, keyword, Outcome.RELAXED, reason),)))
    return with_notes(union(options), notes)


def _denied(row: ReportRow) -> tuple[ReportRow, ...]:
    """What is to be said of a negated schema where ``row`` is said of the schema itself.

    To deny less is to take more.  A dialect that is not heard may have words of both kinds.
    """
    if row.outcome is not Outcome.NARROWED:
        return (row,)
    relaxed = replace(row, outcome=Outcome.RELAXED)
    return (row, relaxed) if row.keyword == "$schema" else (relaxed,)


#: What may break these keywords.
_UNEVALUATED = {
    "unevaluatedProperties": Shape(objects=(ANY_OBJECT,)),
    "unevaluatedItems": Shape(arrays=(ANY_ARRAY,)),
}


def _deny_conj(space: Space, conj: Conj) -> Shape:
    return union([space.literal(-literal) for literal in conj])


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


def _deny_strings(space: Space, place: Place, schema: dict[str, Any], notes: list[ReportRow]) -> Regular:
    found = text.deny(schema, place, space.documents, notes, widest=space.is_widest)
    return NONE if found is None else found


def _settled_arrays(space: Space, forms: tuple[ArrayForm, ...]) -> tuple[ArrayForm, ...]:
    if ANY_ARRAY in forms:
        return (ANY_ARRAY,)
    return tuple(f for f in (settle_array(form, space.is_empty) for form in forms) if f is not None)


def _broken_objects(
    space: Space, place: Place, schema: dict[str, Any], notes: list[ReportRow]
) -> tuple[ObjectForm, ...]:
    found = objects.deny(
        schema, place, space.documents, space.child, _names(space, notes), notes, widest=space.is_widest
    )
    form = None if found is None else settle_object(found, space.is_empty)
    return () if form is None else (form,)


def _unlisted(space: Space, place: Place, values: list[Any]) -> Shape:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    strings = [v for v in values if isinstance(v, str)]
    out = Shape(
        None not in values,
        3 & ~((2 if True in [v for v in values if isinstance(v, bool)] else 0)
              | (1 if False in [v for v in values if isinstance(v, bool)] else 0)),
        negated(constants(numbers)) if numbers else (ANY_NUMBER,),
        neg(words(strings)) if strings else ALL,
        (ANY_ARRAY,),
        (ANY_OBJECT,),
    )  # fmt: skip
    for i, value in _bounded(values, space, place):
        if isinstance(value, dict | list):
            out = space.both(out, _unequal(space, place, value, i), place, "enum")
    return out


def _unequal(space: Space, place: Place, value: Any, index: int) -> Shape:
    """Every value but one array or object."""
    if isinstance(value, list):
        size = len(value)
        forms = [ArrayForm(least=size + 1)] + ([ArrayForm(most=size - 1)] if size else [])
        for j, item in enumerate(value):
            constant = _constant(space, place, item, "enum", index, j)
            forms.append(ArrayForm((TRUE,) * j + ((-constant[0],),), least=j + 1))
        return replace(ANYTHING, arrays=tuple(forms))
    facts = [some(neg(words(value)), TRUE)]
    for key, item in value.items():
        facts += [lacks(key), has(key, (-_constant(space, place, item, "enum", index, key)[0],))]
    return replace(ANYTHING, objects=(ObjectForm(clauses=(frozenset(facts),)),))
