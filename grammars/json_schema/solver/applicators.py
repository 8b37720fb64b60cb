"""The applicators: references, ``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if`` and ``dependentSchemas``.

`ALLOW` and `DENY` map a keyword to functions that give the shape of the values that it allows, or that break it.
Where a negation can only be widened, the keyword that needed it is noted as relaxed: validators report errors there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.shapes import ANYTHING, NOTHING, Conj, ObjectForm, Shape, conjoin, negation, with_notes
from grammars.json_schema.solver.combine import unite
from grammars.json_schema.solver.solver import Solver
from grammars.regular.terms import ALL, NONE
from grammars.values.report import Outcome, ReportRow

__all__ = ["ALLOW", "DENY"]

Allow = Callable[["Solver", Place, Mapping[str, Any], bool], Shape]
Deny = Callable[["Solver", Place, Mapping[str, Any]], Shape]

_MAX_SUBSETS = 64  # combinations of branches that are distinguished for unevaluated*
_MAX_PAIRS = 2_000  # pairs of branches of one oneOf that are compared
_MAX_PATTERNS = 6  # overlapping patterns of one oneOf: each doubles the engine's states for their differences


def _dependent_on_negation(shape: Shape, place: Place, keyword: str) -> Shape:
    """The shape, built from a negation: if that was widened, ``keyword`` is relaxed too."""
    if not any(note.outcome is Outcome.RELAXED for note in shape.notes):
        return shape
    return with_notes(shape, (ReportRow(place.pointer, keyword, Outcome.RELAXED, "depends on a part that is relaxed"),))


def _literals(solver: Solver, place: Place, schema: Mapping[str, Any], keyword: str) -> list[Conj | None]:
    return [solver.child(place, sub, keyword, i) for i, sub in enumerate(schema[keyword])]


def _shape(solver: Solver, conj: Conj | None, tracked: bool) -> Shape:
    if conj is None:
        return NOTHING
    if not tracked:
        return solver.shape(conj)
    out = ANYTHING
    for literal in conj:
        out = solver.intersect(out, solver.literal(literal, tracked=literal > 0), solver.documents[literal])
    return out


# -- references and allOf


def _reference(keyword: str) -> Allow:
    def allow(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
        return _shape(solver, solver.target(place, schema, keyword), tracked)

    return allow


def _deny_reference(keyword: str) -> Deny:
    def deny(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
        return _shape(solver, negation(solver.target(place, schema, keyword)), False)

    return deny


def _all_of(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    out = ANYTHING
    for conj in _literals(solver, place, schema, "allOf"):
        part = _shape(solver, conj, tracked)
        out = solver.intersect(out, part, place if not conj else solver.documents[conj[0]], "allOf")
    return out


def _deny_all_of(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    return unite([_shape(solver, negation(c), False) for c in _literals(solver, place, schema, "allOf")])


# -- anyOf


def _any_of(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    shapes = [_shape(solver, c, tracked) for c in _literals(solver, place, schema, "anyOf")]
    if not tracked:
        return unite(shapes)
    return _subsets(solver, place, shapes)


def _subsets(solver: Solver, place: Place, shapes: Sequence[Shape]) -> Shape:
    """The union over all combinations of branches: several branches together may evaluate a key."""
    subsets: list[Shape] = []
    for shape in shapes:
        joined = [solver.intersect(other, shape, place, "anyOf") for other in subsets]
        subsets += [shape, *(j for j in joined if not j.is_nothing)]
        if len(subsets) > _MAX_SUBSETS:
            row = ReportRow(
                place.pointer,
                "anyOf",
                Outcome.NARROWED,
                "the keys and items that several branches evaluate together are not all counted",
            )
            return with_notes(unite(shapes, absorb=False), (row,))
    return unite(subsets, absorb=False)


def _deny_any_of(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    out = ANYTHING
    for conj in _literals(solver, place, schema, "anyOf"):
        out = solver.intersect(out, _shape(solver, negation(conj), False), place, "anyOf")
    return out


# -- oneOf


def _one_of(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    conjs = _literals(solver, place, schema, "oneOf")
    shapes = [_shape(solver, c, tracked) for c in conjs]
    alive = [i for i, s in enumerate(shapes) if not (s.is_nothing and not solver.may_be_wider(conjs[i]))]
    overlaps = _overlaps(solver, place, conjs, shapes, alive)
    if overlaps is None:
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, f"read as anyOf: more than {_MAX_PAIRS} pairs")
        return with_notes(unite(shapes, absorb=not tracked), (row,))
    if solver.coarse and overlaps:
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, "read as anyOf: the schema is too large")
        return with_notes(unite(shapes, absorb=not tracked), (row,))
    if _num_patterns(shapes, overlaps) > _MAX_PATTERNS:
        reason = f"read as anyOf: more than {_MAX_PATTERNS} patterns overlap, which is too much for the engine"
        row = ReportRow(place.pointer, "oneOf", Outcome.RELAXED, reason)
        return with_notes(unite(shapes, absorb=not tracked), (row,))
    out: list[Shape] = []
    for i in alive:
        shape = shapes[i]
        for j in overlaps.get(i, ()):
            shape = solver.intersect(shape, _shape(solver, negation(conjs[j]), False), place, "oneOf")
        out.append(_dependent_on_negation(shape, place, "oneOf") if i in overlaps else shape)
    return unite(out, absorb=not tracked)


def _overlaps(
    solver: Solver, place: Place, conjs: Sequence[Conj | None], shapes: Sequence[Shape], alive: Sequence[int]
) -> dict[int, list[int]] | None:
    """For each branch the others that it may share values with; None when there are too many to compare.

    Stops early once ``oneOf`` has to be relaxed because of the overlaps found.
    """
    if _have_tag(solver, [shapes[i] for i in alive]) and not any(solver.may_be_wider(conjs[i]) for i in alive):
        return {}
    if len(alive) * (len(alive) - 1) // 2 > _MAX_PAIRS:
        return None
    out: dict[int, list[int]] = {}
    for n, i in enumerate(alive):
        for j in alive[n + 1 :]:
            if not _are_disjoint(solver, shapes[i], shapes[j], (conjs[i], conjs[j]), place):
                out.setdefault(i, []).append(j)
                out.setdefault(j, []).append(i)
                if solver.coarse or _num_patterns(shapes, out) > _MAX_PATTERNS:
                    return out
    return out


def _num_patterns(shapes: Sequence[Shape], overlaps: Iterable[int]) -> int:
    languages = (shapes[i].strings for i in overlaps)
    return sum(strings not in (ALL, NONE) and strings.op != "words" for strings in languages)


def _are_disjoint(solver: Solver, one: Shape, two: Shape, conjs: Sequence[Conj | None], place: Place) -> bool:
    """True when surely no value is in both, for every validator."""
    return not any(map(solver.may_be_wider, conjs)) and solver.has_no_value(solver.intersect(one, two, place))


def _have_tag(solver: Solver, shapes: Sequence[Shape]) -> bool:
    """Whether all branches are objects that are distinguished by the strings allowed for one required key."""
    forms = [f for s in shapes for f in s.objects]
    if not forms or any(s.null or s.booleans or s.numbers or s.arrays or s.strings != NONE for s in shapes):
        return False
    for key in forms[0].required:
        taken: set[str] = set()
        for shape in shapes:
            tags: set[str] = set()
            for form in shape.objects:
                conj = form.props.get(key, ())
                values = solver.shape(conj) if key in form.required and conj else None
                if values is None or values.strings.op != "words" or not _only_strings(values):
                    break
                tags |= values.strings.args
            else:
                if taken.isdisjoint(tags):
                    taken |= tags
                    continue
            break
        else:
            return True
    return False


def _only_strings(shape: Shape) -> bool:
    return not (shape.null or shape.booleans or shape.numbers or shape.arrays or shape.objects)


def _deny_one_of(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    conjs = _literals(solver, place, schema, "oneOf")
    none = ANYTHING
    for conj in conjs:
        none = solver.intersect(none, _shape(solver, negation(conj), False), place, "oneOf")
    several = [
        solver.intersect(_shape(solver, a, False), _shape(solver, b, False), place, "oneOf")
        for n, a in enumerate(conjs)
        for b in conjs[n + 1 :]
    ]
    return unite([none, *several])


# -- conditions


def _negated(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    shape = _shape(solver, negation(solver.child(place, schema["not"], "not")), False)
    return _dependent_on_negation(shape, place, "not")


def _deny_negated(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    return _shape(solver, solver.child(place, schema["not"], "not"), False)


def _branch(solver: Solver, place: Place, schema: Mapping[str, Any], keyword: str) -> Conj | None:
    return solver.child(place, schema[keyword], keyword) if keyword in schema else ()


def _if(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    condition = solver.child(place, schema["if"], "if")
    then, other = (_branch(solver, place, schema, k) for k in ("then", "else"))
    if then == () and other == () and not tracked:
        return ANYTHING
    if not tracked:
        yes, no = conjoin(condition, then), conjoin(negation(condition), other)
        shape = unite([_shape(solver, yes, False), _shape(solver, no, False)])
    else:
        yes_shape = solver.intersect(_shape(solver, condition, True), _shape(solver, then, True), place, "then")
        no_shape = solver.intersect(
            _shape(solver, negation(condition), False), _shape(solver, other, True), place, "else"
        )
        shape = unite([yes_shape, no_shape], absorb=False)
    return _dependent_on_negation(shape, place, "if")


def _deny_if(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    condition = solver.child(place, schema["if"], "if")
    then, other = (_branch(solver, place, schema, k) for k in ("then", "else"))
    yes, no = conjoin(condition, negation(then)), conjoin(negation(condition), negation(other))
    return unite([_shape(solver, yes, False), _shape(solver, no, False)])


def _dependent(solver: Solver, place: Place, schema: Mapping[str, Any], tracked: bool) -> Shape:
    out = ANYTHING
    for key, sub in schema["dependentSchemas"].items():
        conj = solver.child(place, sub, "dependentSchemas", key)
        there = Shape(objects=(ObjectForm(required=frozenset((key,))),))
        absent = replace(ANYTHING, objects=(ObjectForm({key: None}),))
        present = solver.intersect(there, _shape(solver, conj, tracked), place, "dependentSchemas")
        out = solver.intersect(out, unite([present, absent], absorb=not tracked), place, "dependentSchemas")
    return out


def _deny_dependent(solver: Solver, place: Place, schema: Mapping[str, Any]) -> Shape:
    shapes = []
    for key, sub in schema["dependentSchemas"].items():
        there = Shape(objects=(ObjectForm(required=frozenset((key,))),))
        broken = _shape(solver, negation(solver.child(place, sub, "dependentSchemas", key)), False)
        shapes.append(solver.intersect(there, broken, place, "dependentSchemas"))
    return unite(shapes)


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
