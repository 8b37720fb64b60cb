"""The applicators: references, ``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if`` and ``dependentSchemas``.

`ALLOW` and `DENY` map a keyword to the shape of the values that it allows, or that break it.  Where a negation can
only be widened, the keyword that needed it is noted as relaxed, for that is where a validator will complain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grammars.json_schema.solver.key_clauses as facts
from grammars.json_schema.solver.combine import apart, union
from grammars.json_schema.document.places import Place
from grammars.regular.languages import ALL, NONE
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.shapes.shapes import ANYTHING, NOTHING, Conj, ObjectForm, Shape, both, with_notes

if TYPE_CHECKING:
    from grammars.json_schema.solver.solver import Space

__all__ = ["ALLOW", "DENY", "anything"]

Allow = Callable[["Space", Place, Mapping[str, Any], bool], Shape]
Deny = Callable[["Space", Place, Mapping[str, Any]], Shape]

_MAX_SUBSETS = 64  # combinations of branches that are told apart for unevaluated*
_MAX_PAIRS = 2_000  # pairs of branches of one oneOf that are compared
_MAX_PATTERNS = 6  # overlapping patterns of one oneOf: their differences double the engine's states with each
_FEW_CLAUSES = 8  # alternatives with properties of their own are clearer as forms
_MANY_CLAUSES = 64  # conditions double the forms, so even many clauses are cheaper


def anything(place: Place, keyword: str, reason: str) -> Shape:
    """Every value, with the note that ``keyword`` is not enforced."""
    return with_notes(ANYTHING, (ReportRow(place.pointer, keyword, Outcome.RELAXED, f"not enforced: {reason}"),))


def _blamed(shape: Shape, place: Place, keyword: str) -> Shape:
    """The shape, which leans on a negation: if that was widened, ``keyword`` is relaxed too."""
    if not any(note.outcome is Outcome.RELAXED for note in shape.notes):
        return shape
    return with_notes(shape, (ReportRow(place.pointer, keyword, Outcome.RELAXED, "leans on a part that is relaxed"),))


def _literals(space: Space, place: Place, schema: Mapping[str, Any], keyword: str) -> list[Conj | None]:
    return [space.child(place, sub, keyword, i) for i, sub in enumerate(schema[keyword])]


def _shape(space: Space, conj: Conj | None, tracked: bool) -> Shape:
    if conj is None:
        return NOTHING
    if not tracked:
        return space.shape(conj)
    out = ANYTHING
    for literal in conj:
        out = space.both(out, space.literal(literal, tracked=literal > 0), space.documents[literal])
    return out


def _not(conj: Conj | None) -> Conj | None:
    if conj is None:
        return ()
    return (-conj[0],) if conj else None


# -- references and allOf


def _reference(keyword: str) -> Allow:
    def allow(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
        return _shape(space, space.target(place, schema, keyword), tracked)

    return allow


def _deny_reference(keyword: str) -> Deny:
    def deny(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
        return _shape(space, _not(space.target(place, schema, keyword)), False)

    return deny


def _all_of(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    out = ANYTHING
    for conj in _literals(space, place, schema, "allOf"):
        part = _shape(space, conj, tracked)
        out = space.both(out, part, place if not conj else space.documents[conj[0]], "allOf")
    return out


def _deny_all_of(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    return union([_shape(space, _not(c), False) for c in _literals(space, place, schema, "allOf")])


# -- anyOf


def _any_of(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    found = None if tracked else _by_clauses(space, place, {"anyOf": schema["anyOf"]}, "anyOf", _FEW_CLAUSES)
    if found is not None:
        return found
    shapes = [_shape(space, c, tracked) for c in _literals(space, place, schema, "anyOf")]
    if not tracked:
        return union(shapes)
    return _subsets(space, place, shapes)


def _subsets(space: Space, place: Place, shapes: Sequence[Shape]) -> Shape:
    """What evaluates a key may be several branches together: every combination counts."""
    found: list[Shape] = []
    for shape in shapes:
        joined = [space.both(other, shape, place, "anyOf") for other in found]
        found += [shape, *(j for j in joined if not j.is_nothing)]
        if len(found) > _MAX_SUBSETS:
            if space.is_widest:
                return union([_all_seen(s) for s in shapes], absorb=False)
            row = ReportRow(
                place.pointer, "anyOf", Outcome.NARROWED, "what several branches evaluate together is not all counted"
            )
            return with_notes(union(shapes, absorb=False), (row,))
    return union(found, absorb=False)


def _all_seen(shape: Shape) -> Shape:
    """With everything evaluated: at least what any combination of branches lets through to ``unevaluated*``."""
    arrays = tuple(replace(f, seen=replace(f.seen, every_item=True)) for f in shape.arrays)
    objects = tuple(replace(f, seen=replace(f.seen, every_key=True)) for f in shape.objects)
    return replace(shape, arrays=arrays, objects=objects)


def _deny_any_of(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    out = ANYTHING
    for conj in _literals(space, place, schema, "anyOf"):
        out = space.both(out, _shape(space, _not(conj), False), place, "anyOf")
    return out


# -- oneOf


def _one_of(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    found = None if tracked else _by_clauses(space, place, {"oneOf": schema["oneOf"]}, "oneOf", _FEW_CLAUSES)
    if found is not None:
        return found
    conjs = _literals(space, place, schema, "oneOf")
    shapes = [_shape(space, c, tracked) for c in conjs]
    if space.is_widest:
        return union(shapes, absorb=not tracked)
    alive = [i for i, s in enumerate(shapes) if not (s.is_nothing and space.stay_apart(conjs[i], ()))]
    overlaps = _overlaps(space, place, conjs, shapes, alive)
    if overlaps is None:
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, f"read as anyOf: more than {_MAX_PAIRS} pairs")
        return with_notes(union(shapes, absorb=not tracked), (row,))
    if space.coarse and overlaps:
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, "read as anyOf: the schema is too large")
        return with_notes(union(shapes, absorb=not tracked), (row,))
    if _num_patterns(shapes, overlaps) > _MAX_PATTERNS:
        reason = f"read as anyOf: more than {_MAX_PATTERNS} patterns overlap, which is too much for the engine"
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, reason)
        return with_notes(union(shapes, absorb=not tracked), (row,))
    out: list[Shape] = []
    for i in alive:
        shape = shapes[i]
        for j in overlaps.get(i, ()):
            shape = space.both(shape, _shape(space, _not(conjs[j]), False), place, "oneOf")
        out.append(_blamed(shape, place, "oneOf") if i in overlaps else shape)
    return union(out, absorb=not tracked)


def _overlaps(
    space: Space, place: Place, conjs: Sequence[Conj | None], shapes: Sequence[Shape], alive: Sequence[int]
) -> dict[int, list[int]] | None:
    """For each branch the others that it may share values with; None when there are too many to compare.

    Where ``oneOf`` is given up for those that were found, others are not looked for.
    """
    if _tagged(space, [shapes[i] for i in alive]) and space.stays(
        lambda widest: _tagged(widest, [widest.shape(conjs[i] or ()) for i in alive]), *(conjs[i] for i in alive)
    ):
        return {}
    if len(alive) * (len(alive) - 1) // 2 > _MAX_PAIRS:
        return None
    out: dict[int, list[int]] = {}
    for n, i in enumerate(alive):
        for j in alive[n + 1 :]:
            if not _apart(space, shapes[i], shapes[j], (conjs[i], conjs[j]), place):
                out.setdefault(i, []).append(j)
                out.setdefault(j, []).append(i)
                if space.coarse or _num_patterns(shapes, out) > _MAX_PATTERNS:
                    return out
    return out


def _num_patterns(shapes: Sequence[Shape], overlaps: Iterable[int]) -> int:
    found = (shapes[i].strings for i in overlaps)
    return sum(strings not in (ALL, NONE) and strings.op != "words" for strings in found)


def _apart(space: Space, one: Shape, two: Shape, conjs: Sequence[Conj | None], place: Place) -> bool:
    """True when surely no value is in both, as any validator reads them."""
    space.spend(1 + len(one.objects) * len(two.objects), place)
    return apart(one, two, space.is_empty) and space.stay_apart(*conjs)


def _tagged(space: Space, shapes: Sequence[Shape]) -> bool:
    """Are all branches objects told apart by the strings that one required key may hold?"""
    forms = [f for s in shapes for f in s.objects]
    if not forms or any(s.null or s.booleans or s.numbers or s.arrays or s.strings != NONE for s in shapes):
        return False
    for key in forms[0].required:
        taken: set[str] = set()
        for shape in shapes:
            own: set[str] = set()
            for form in shape.objects:
                conj = form.props.get(key, ())
                values = space.shape(conj) if key in form.required and conj else None
                if values is None or values.strings.op != "words" or not _only_strings(values):
                    break
                own |= values.strings.args
            else:
                if taken.isdisjoint(own):
                    taken |= own
                    continue
            break
        else:
            return True
    return False


def _only_strings(shape: Shape) -> bool:
    return not (shape.null or shape.booleans or shape.numbers or shape.arrays or shape.objects)


def _deny_one_of(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    conjs = _literals(space, place, schema, "oneOf")
    none = ANYTHING
    for conj in conjs:
        none = space.both(none, _shape(space, _not(conj), False), place, "oneOf")
    several = [
        space.both(_shape(space, a, False), _shape(space, b, False), place, "oneOf")
        for n, a in enumerate(conjs)
        for b in conjs[n + 1 :]
    ]
    return union([none, *several])


# -- conditions


def _negated(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    shape = _shape(space, _not(space.child(place, schema["not"], "not")), False)
    return _blamed(shape, place, "not")


def _deny_negated(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    return _shape(space, space.child(place, schema["not"], "not"), False)


def _branch(space: Space, place: Place, schema: Mapping[str, Any], keyword: str) -> Conj | None:
    return space.child(place, schema[keyword], keyword) if keyword in schema else ()


def _if(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    condition = space.child(place, schema["if"], "if")
    then, other = (_branch(space, place, schema, k) for k in ("then", "else"))
    if then == () and other == () and not tracked:
        return ANYTHING
    if not tracked:
        parts = {k: schema[k] for k in ("if", "then", "else") if k in schema}
        found = _by_clauses(space, place, parts, "if", _MANY_CLAUSES)
        if found is not None:
            return found
        yes, no = both(condition, then), both(_not(condition), other)
        shape = union([_shape(space, yes, False), _shape(space, no, False)])
    else:
        yes_shape = space.both(_shape(space, condition, True), _shape(space, then, True), place, "then")
        no_shape = space.both(_shape(space, _not(condition), False), _shape(space, other, True), place, "else")
        shape = union([yes_shape, no_shape], absorb=False)
    return _blamed(shape, place, "if")


def _deny_if(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    condition = space.child(place, schema["if"], "if")
    then, other = (_branch(space, place, schema, k) for k in ("then", "else"))
    yes, no = both(condition, _not(then)), both(_not(condition), _not(other))
    return union([_shape(space, yes, False), _shape(space, no, False)])


def _by_clauses(space: Space, place: Place, part: Mapping[str, Any], keyword: str, most: int) -> Shape | None:
    """A part of the schema at ``place`` as one form with clauses; None when it says more, or too much."""
    found = facts.clauses_of(space, space.documents.made(place, part))
    if found is None or len(found.every) > most:
        return None
    form = ObjectForm(clauses=found.every, late=found.late)
    shape = replace(ANYTHING, objects=(form,)) if found.others else Shape(objects=(form,))
    denied = {literal for clause in found.every for fact in clause for literal in fact.value if literal < 0}
    widened = union([space.literal(literal) for literal in denied]) if denied else NOTHING
    return _blamed(replace(shape, notes=widened.notes), place, keyword) if widened.notes else shape


def _dependent(space: Space, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    if not tracked:
        part = {"dependentSchemas": schema["dependentSchemas"]}
        found = _by_clauses(space, place, part, "dependentSchemas", _MANY_CLAUSES)
        if found is not None:
            return found
    out = ANYTHING
    for key, sub in schema["dependentSchemas"].items():
        conj = space.child(place, sub, "dependentSchemas", key)
        there = Shape(objects=(ObjectForm(required=frozenset((key,))),))
        absent = replace(ANYTHING, objects=(ObjectForm({key: None}),))
        present = space.both(there, _shape(space, conj, tracked), place, "dependentSchemas")
        out = space.both(out, union([present, absent], absorb=not tracked), place, "dependentSchemas")
    return out


def _deny_dependent(space: Space, place: Place, schema: Mapping[str, Any]) -> Shape:
    shapes = []
    for key, sub in schema["dependentSchemas"].items():
        there = Shape(objects=(ObjectForm(required=frozenset((key,))),))
        broken = _shape(space, _not(space.child(place, sub, "dependentSchemas", key)), False)
        shapes.append(space.both(there, broken, place, "dependentSchemas"))
    return union(shapes)


ALLOW: Mapping[str, Allow] = {
    "$ref": _reference("$ref"),
    "$dynamicRef": _reference("$dynamicRef"),
    "$recursiveRef": _reference("$recursiveRef"),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _negated,
    "if": _if,
    "dependentSchemas": _dependent,
}

DENY: Mapping[str, Deny] = {
    "$ref": _deny_reference("$ref"),
    "$dynamicRef": _deny_reference("$dynamicRef"),
    "$recursiveRef": _deny_reference("$recursiveRef"),
    "allOf": _deny_all_of,
    "anyOf": _deny_any_of,
    "oneOf": _deny_one_of,
    "not": _deny_negated,
    "if": _deny_if,
    "dependentSchemas": _deny_dependent,
}
