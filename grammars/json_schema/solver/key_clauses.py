"""Schemas that only constrain single keys, as clauses of facts instead of alternatives.

``if``, ``not``, ``dependentSchemas`` and the like would each double the forms of an object; as clauses they stay one
form, and `object_order` decides them key by key.  `clauses_of` reads a schema as a conjunction of clauses if it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.passes.normalise import normalise
from grammars.json_schema.shapes.shapes import TRUE, Clause, has, lacks
from grammars.json_schema.solver.protocol import Solver

__all__ = ["Clauses", "any_of", "clauses_of", "conditional", "negated", "one_of"]

_MAX_CLAUSES = 1_500
_MAX_FACTS = 64
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Clauses:
    """The ``clauses`` that an object must satisfy, and whether values of all ``other_types`` are allowed.

    ``late`` is the order in which the schema names the keys.
    """

    clauses: tuple[Clause, ...] = ()
    other_types: bool = True
    late: tuple[str, ...] = ()


def clauses_of(solver: Solver, place: Place, depth: int = _DEPTH) -> Clauses | None:
    """The schema at ``place`` as clauses; None when clauses cannot express it."""
    if isinstance(place.schema, bool):
        return Clauses() if place.schema else None
    if depth == 0 or not isinstance(place.schema, dict):
        return None
    schema, rows = normalise(place, is_widest=solver.is_widest)
    if rows:
        return None  # the rows of the passes belong to the shape
    parts: list[Clauses] = []
    for keyword, value in schema.items():
        if keyword not in CHECKS:
            continue
        read = _READERS.get(keyword)
        found = read(solver, place, schema, value, depth) if read is not None else None
        if found is None:
            return None
        parts.append(found)
    return _all(parts)


def _all(parts: Sequence[Clauses]) -> Clauses | None:
    clauses = tuple(dict.fromkeys(c for part in parts for c in part.clauses))
    late = tuple(dict.fromkeys(k for part in parts for k in part.late))
    return Clauses(clauses, all(part.other_types for part in parts), late) if len(clauses) <= _MAX_CLAUSES else None


# -- keywords


def _type(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses(other_types=False) if value in ("object", ["object"]) else None


def _required(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses(tuple(frozenset((has(key),)) for key in value), late=tuple(value))


def _properties(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    clauses: list[Clause] = []
    for key, sub in value.items():
        conj = solver.child(place, sub, "properties", key)
        if conj is None:
            clauses.append(frozenset((lacks(key),)))
        elif conj != TRUE:
            clauses.append(frozenset((lacks(key), has(key, conj))))
    return Clauses(tuple(clauses), late=tuple(value))


def _dependent(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    every = [frozenset((lacks(k), has(other))) for k, others in value.items() for other in others if other != k]
    return Clauses(tuple(every), late=tuple(dict.fromkeys(k for key, o in value.items() for k in (*o, key))))


def _dependent_schemas(
    solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int
) -> Clauses | None:
    parts = []
    for key, sub in value.items():
        found = _below(solver, place, sub, depth, "dependentSchemas", key)
        if found is None or not found.other_types:
            return None
        parts.append(Clauses(tuple(c | {lacks(key)} for c in found.clauses), late=(*found.late, key)))
    return _all(parts)


def _not(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _below(solver, place, value, depth, "not")
    return None if found is None else negated(found)


def _all_of(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(solver, place, value, depth, "allOf")
    return None if found is None else _all(found)


def _any(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(solver, place, value, depth, "anyOf")
    return None if found is None else any_of(found)


def _one(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(solver, place, value, depth, "oneOf")
    return None if found is None else one_of(found)


def _if(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    parts = [_below(solver, place, schema[k], depth, k) if k in schema else Clauses() for k in ("if", "then", "else")]
    known = [p for p in parts if p is not None]
    return conditional(*known) if len(known) == 3 else None


def _branch(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses()  # then and else are read with their if


def _ref(solver: Solver, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    conj = solver.target(place, schema, "$ref")
    if conj is None:
        return None
    return Clauses() if conj == TRUE else clauses_of(solver, solver.documents[conj[0]], depth - 1)


_READERS = {
    "type": _type,
    "required": _required,
    "properties": _properties,
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent_schemas,
    "not": _not,
    "allOf": _all_of,
    "anyOf": _any,
    "oneOf": _one,
    "if": _if,
    "then": _branch,
    "else": _branch,
    "$ref": _ref,
}


def _below(solver: Solver, place: Place, sub: Any, depth: int, *steps: str | int) -> Clauses | None:
    if isinstance(sub, bool):
        return Clauses() if sub else None
    return clauses_of(solver, solver.documents.at(place, sub, *steps), depth - 1)


def _several(solver: Solver, place: Place, subs: Sequence[Any], depth: int, keyword: str) -> list[Clauses] | None:
    found = [_below(solver, place, sub, depth, keyword, i) for i, sub in enumerate(subs)]
    known = [f for f in found if f is not None]
    return known if len(known) == len(found) else None


# -- the algebra of clauses


def _tautology(clause: Clause) -> bool:
    return any(fact.kind == "lacks" and has(fact.what) in clause for fact in clause)


def _product(parts: Sequence[Iterable[Clause]]) -> tuple[Clause, ...] | None:
    """Clauses for "at least one of the parts holds in full"; None when they are too many."""
    lists = [list(part) for part in parts]
    size = 1
    for one in lists:
        size *= len(one)
        if size > _MAX_FACTS:
            return None
    joined = (frozenset().union(*choice) for choice in product(*lists))
    return tuple(dict.fromkeys(c for c in joined if not _tautology(c)))


def _late(options: Sequence[Clauses]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(k for option in options for k in option.late))


def any_of(options: Sequence[Clauses]) -> Clauses | None:
    """At least one of the options holds; None when that takes too many clauses."""
    clauses = _product([option.clauses for option in options])
    return None if clauses is None else Clauses(clauses, any(o.other_types for o in options), _late(options))


def negated(one: Clauses) -> Clauses | None:
    """The negation of the clauses; None when clauses cannot express it."""
    broken = [_broken(clause) for clause in one.clauses]
    if any(b is None for b in broken):
        return None
    if not one.clauses:
        return None  # nothing to deny: no object is left, which clauses cannot express
    clauses = _product([b for b in broken if b is not None])
    return None if clauses is None else Clauses(clauses, not one.other_types, one.late)


def _broken(clause: Clause) -> tuple[Clause, ...] | None:
    """Clauses that hold exactly where ``clause`` does not; None when that cannot be said."""
    facts = sorted(clause, key=lambda f: (f.kind, str(f.what), f.value))
    if len(facts) == 2 and facts[0].kind == "has" and facts[1] == lacks(facts[0].what):
        value = facts[0].value  # "absent or valid" is broken by "present and invalid"
        return (frozenset(has(facts[0].what, (-literal,)) for literal in value),) if value else None
    out: list[Clause] = []
    for fact in facts:
        if fact.kind == "lacks":
            out.append(frozenset((has(fact.what),)))
        elif fact.kind == "has":
            out.append(frozenset((lacks(fact.what), *(has(fact.what, (-literal,)) for literal in fact.value))))
        else:
            return None
    return tuple(out)


def one_of(options: Sequence[Clauses]) -> Clauses | None:
    """Exactly one of the options holds; None when clauses cannot express it."""
    least = any_of(options)
    if least is None or len(options) * (len(options) - 1) // 2 > _MAX_CLAUSES:
        return None
    not_each = [negated(option) for option in options]
    denials = [n for n in not_each if n is not None]
    if len(denials) < len(options):
        return None
    clauses: dict[Clause, None] = dict.fromkeys(least.clauses)
    for i, one in enumerate(denials):
        for two in denials[i + 1 :]:
            pair = _product([one.clauses, two.clauses])
            if pair is None:
                return None
            clauses.update(dict.fromkeys(pair))
    return Clauses(tuple(clauses), sum(o.other_types for o in options) == 1, _late(options))


def conditional(condition: Clauses, then: Clauses, other: Clauses) -> Clauses | None:
    """``then`` holds if ``condition`` does, otherwise ``other``; None when clauses cannot express it."""
    denied = negated(condition)
    if denied is None:
        return None
    yes, no = _product([denied.clauses, then.clauses]), _product([condition.clauses, other.clauses])
    if (yes is None and then.clauses) or (no is None and other.clauses):
        return None
    other_types = then.other_types if condition.other_types else other.other_types
    parts = (condition, then, other)
    return Clauses(tuple(dict.fromkeys((*(yes or ()), *(no or ())))), other_types, _late(parts))
