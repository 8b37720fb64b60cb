"""Intersection and union of shapes.

Intersection multiplies forms; forms that surely hold nothing are dropped at once, which keeps the product small in
practice.  ``is_empty`` says whether a conjunction surely has no value; it may be a bounded search.
"""

from __future__ import annotations

from collections.abc import Iterable

import grammars.json_schema.shapes.numbers as num
from grammars.json_schema.keywords.objects import cell_value
from grammars.json_schema.shapes.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
    ANYTHING,
    NOTHING,
    TRUE,
    ArrayForm,
    Conj,
    ObjectForm,
    Shape,
    conjoin,
    merged_notes,
)
from grammars.json_schema.solver.propagation import IsEmpty, propagate_array, propagate_object, smaller
from grammars.limits.work import TooMuch
from grammars.regular.json_strings import may_hold_text
from grammars.regular.terms import ALL, NONE, alt, inter

__all__ = ["intersect", "unite"]


def unite(shapes: Iterable[Shape], *, absorb: bool = True) -> Shape:
    """The union of the shapes; without ``absorb`` forms that evaluated different keys or items stay separate."""
    many = [s for s in shapes if not s.is_nothing]
    if len(many) < 2:
        return many[0] if many else NOTHING
    arrays = dict.fromkeys(f for s in many for f in s.arrays)
    objects = _distinct((f for s in many for f in s.objects), absorb=absorb)
    numbers = dict.fromkeys(n for s in many for n in s.numbers)
    return Shape(
        any(s.null for s in many),
        _bit_union(s.booleans for s in many),
        (num.ANY_NUMBER,) if num.ANY_NUMBER in numbers else _joined(numbers),
        alt(*(s.strings for s in many)),
        (ANY_ARRAY,) if absorb and ANY_ARRAY in arrays else tuple(arrays),
        objects,
        merged_notes(many),
    )


def _bit_union(bits: Iterable[int]) -> int:
    out = 0
    for number in bits:
        out |= number
    return out


def _joined(numbers: Iterable[num.Numbers]) -> tuple[num.Numbers, ...]:
    """All listed values in one set, so that an enum stays one lexeme."""
    many = list(numbers)
    listed = [n for n in many if n.values is not None]
    if len(listed) < 2:
        return tuple(many)
    values = {v: t for n in reversed(listed) for v, t in n.values or ()}
    return (num.Numbers(values=tuple(values.items())), *(n for n in many if n.values is None))


def _distinct(forms: Iterable[ObjectForm], *, absorb: bool = True) -> tuple[ObjectForm, ...]:
    out: list[ObjectForm] = []
    seen: set[tuple[object, ...]] = set()
    for form in forms:
        if absorb and form == ANY_OBJECT:
            return (ANY_OBJECT,)
        key = (tuple(form.props.items()), form.cells, form.required, form.clauses, form.least, form.most,
               form.evaluated)  # fmt: skip
        if key not in seen:
            seen.add(key)
            out.append(form)
    return tuple(out)


def intersect(one: Shape, two: Shape, is_empty: IsEmpty, limit: int) -> Shape:
    """The intersection of both shapes.  Raises `TooMuch` past ``limit`` forms of one type."""
    if one is ANYTHING:
        return two
    if two is ANYTHING:
        return one
    strings = inter(one.strings, two.strings)
    if strings.op in ("and", "not") and not may_hold_text(strings):
        strings = NONE
    return Shape(
        one.null and two.null,
        one.booleans & two.booleans,
        _intersect_numbers(one.numbers, two.numbers, limit),
        strings,
        _intersect_arrays(one.arrays, two.arrays, is_empty, limit),
        _intersect_objects(one.objects, two.objects, is_empty, limit),
        merged_notes((one, two)) if one.notes or two.notes else (),
    )


def _intersect_numbers(
    one: tuple[num.Numbers, ...], two: tuple[num.Numbers, ...], limit: int
) -> tuple[num.Numbers, ...]:
    if one == (num.ANY_NUMBER,) or two == (num.ANY_NUMBER,):
        return two if one == (num.ANY_NUMBER,) else one
    meets = [m for a in one for b in two if not (m := num.intersect(a, b)).is_empty()]
    if len(meets) > limit:
        raise TooMuch
    return tuple(dict.fromkeys(meets))


def _intersect_arrays(
    one: tuple[ArrayForm, ...], two: tuple[ArrayForm, ...], is_empty: IsEmpty, limit: int
) -> tuple[ArrayForm, ...]:
    if one == (ANY_ARRAY,) or two == (ANY_ARRAY,):
        return two if one == (ANY_ARRAY,) else one
    forms: dict[ArrayForm, None] = {}
    for a in one:
        for b in two:
            form = propagate_array(_both_arrays(a, b), is_empty)
            if form is not None:
                forms[form] = None
        if len(forms) > limit:
            raise TooMuch
    return tuple(forms)


def _both_arrays(a: ArrayForm, b: ArrayForm) -> ArrayForm:
    size = max(len(a.prefix), len(b.prefix))
    return ArrayForm(
        tuple(conjoin(a.item(i), b.item(i)) for i in range(size)),
        conjoin(a.items, b.items),
        max(a.least, b.least),
        smaller(a.most, b.most),
        tuple(dict.fromkeys(a.counts + b.counts)),
        tuple(dict.fromkeys(a.unique + b.unique)),
        a.evaluated | b.evaluated,
    )


def _intersect_objects(
    one: tuple[ObjectForm, ...], two: tuple[ObjectForm, ...], is_empty: IsEmpty, limit: int
) -> tuple[ObjectForm, ...]:
    if one == (ANY_OBJECT,) or two == (ANY_OBJECT,):
        return two if one == (ANY_OBJECT,) else one
    forms: list[ObjectForm] = []
    for a in one:
        for b in two:
            form = propagate_object(_both_objects(a, b), is_empty)
            if form is not None:
                forms.append(form)
        if len(forms) > limit:
            raise TooMuch
    return _distinct(forms)


def _both_objects(a: ObjectForm, b: ObjectForm) -> ObjectForm:
    props: dict[str, Conj | None] = {}
    for key, conj in a.props.items():
        props[key] = conjoin(conj, b.props[key] if key in b.props else cell_value(b.cells, key))
    for key, conj in b.props.items():
        if key not in props:
            props[key] = conjoin(cell_value(a.cells, key), conj)
    return ObjectForm(
        props,
        _both_cells(a.cells, b.cells),
        a.required | b.required,
        tuple(dict.fromkeys(a.clauses + b.clauses)),
        max(a.least, b.least),
        smaller(a.most, b.most),
        tuple(dict.fromkeys(a.late + b.late)) if a.late and b.late else a.late or b.late,
        a.evaluated | b.evaluated,
    )


def _both_cells(a: tuple[tuple, ...], b: tuple[tuple, ...]) -> tuple[tuple, ...]:  # type: ignore[type-arg]
    if a == ((ALL, TRUE),):
        return b
    if b == ((ALL, TRUE),):
        return a
    out = []
    for left, left_value in a:
        for right, right_value in b:
            conj = conjoin(left_value, right_value)
            language = left if left == right else inter(left, right)
            if conj is not None and (left == right or may_hold_text(language)):
                out.append((language, conj))
    return tuple(out)
