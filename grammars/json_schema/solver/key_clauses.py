"""Schemas that only speak of single keys, as clauses of facts instead of alternatives.

``if``, ``not``, ``dependentSchemas`` and the like would each double the forms of an object; as clauses they stay one
form, and `tracks` decides them key by key.  `clauses_of` reads a schema as a conjunction of clauses, where it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from grammars.json_schema.passes.normalise import normalise
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.shapes import TRUE, Clause, has, lacks

if TYPE_CHECKING:
    from grammars.json_schema.solver.solver import Space

__all__ = ["Clauses", "any_of", "clauses_of", "conditional", "negated", "one_of"]

_MAX_CLAUSES = 1_500
_MAX_FACTS = 64
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Clauses:
    """What a schema asks of an object (``every`` clause), and whether it holds for all ``others`` types.

    ``late`` is the order in which the keys were named.
    """

    every: tuple[Clause, ...] = ()
    others: bool = True
    late: tuple[str, ...] = ()


def clauses_of(space: Space, place: Place, depth: int = _DEPTH) -> Clauses | None:
    """The schema at ``place`` as clauses; None when it says more than clauses can."""
    if isinstance(place.schema, bool):
        return Clauses() if place.schema else None
    if depth == 0 or not isinstance(place.schema, dict):
        return None
    schema, rows = normalise(place, is_widest=space.is_widest)
    if rows:
        return None  # what the passes have to say belongs to the shape
    parts: list[Clauses] = []
    for keyword, value in schema.items():
        if keyword not in CHECKS:
            continue
        read = _READERS.get(keyword)
        found = read(space, place, schema, value, depth) if read is not None else None
        if found is None:
            return None
        parts.append(found)
    return _all(parts)


def _all(parts: Sequence[Clauses]) -> Clauses | None:
    every = tuple(dict.fromkeys(c for part in parts for c in part.every))
    late = tuple(dict.fromkeys(k for part in parts for k in part.late))
    return Clauses(every, all(part.others for part in parts), late) if len(every) <= _MAX_CLAUSES else None


# -- keywords


def _type(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses(others=False) if value in ("object", ["object"]) else None


def _required(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses(tuple(frozenset((has(key),)) for key in value), late=tuple(value))


def _properties(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    every: list[Clause] = []
    for key, sub in value.items():
        conj = space.child(place, sub, "properties", key)
        if conj is None:
            every.append(frozenset((lacks(key),)))
        elif conj != TRUE:
            every.append(frozenset((lacks(key), has(key, conj))))
    return Clauses(tuple(every), late=tuple(value))


def _dependent(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    every = [frozenset((lacks(k), has(other))) for k, others in value.items() for other in others if other != k]
    return Clauses(tuple(every), late=tuple(dict.fromkeys(k for key, o in value.items() for k in (*o, key))))


def _dependent_schemas(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    parts = []
    for key, sub in value.items():
        found = _below(space, place, sub, depth, "dependentSchemas", key)
        if found is None or not found.others:
            return None
        parts.append(Clauses(tuple(c | {lacks(key)} for c in found.every), late=(*found.late, key)))
    return _all(parts)


def _not(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _below(space, place, value, depth, "not")
    return None if found is None else negated(found)


def _all_of(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(space, place, value, depth, "allOf")
    return None if found is None else _all(found)


def _any(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(space, place, value, depth, "anyOf")
    return None if found is None else any_of(found)


def _one(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    found = _several(space, place, value, depth, "oneOf")
    return None if found is None else one_of(found)


def _if(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    parts = [_below(space, place, schema[k], depth, k) if k in schema else Clauses() for k in ("if", "then", "else")]
    known = [p for p in parts if p is not None]
    return conditional(*known) if len(known) == 3 else None


def _branch(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    return Clauses()  # then and else are read with their if


def _ref(space: Space, place: Place, schema: Mapping[str, Any], value: Any, depth: int) -> Clauses | None:
    conj = space.target(place, schema, "$ref")
    if conj is None:
        return None
    return Clauses() if conj == TRUE else clauses_of(space, space.documents[conj[0]], depth - 1)


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


def _below(space: Space, place: Place, sub: Any, depth: int, *steps: str | int) -> Clauses | None:
    if isinstance(sub, bool):
        return Clauses() if sub else None
    return clauses_of(space, space.documents.at(place, sub, *steps), depth - 1)


def _several(space: Space, place: Place, subs: Sequence[Any], depth: int, keyword: str) -> list[Clauses] | None:
    found = [_below(space, place, sub, depth, keyword, i) for i, sub in enumerate(subs)]
    known = [f for f in found if f is not None]
    return known if len(known) == len(found) else None


# -- the algebra of clauses


def _tautology(clause: Clause) -> bool:
    return any(fact.kind == "lacks" and has(fact.what) in clause for fact in clause)


def _product(parts: Sequence[Iterable[Clause]]) -> tuple[Clause, ...] | None:
    """Clauses that say: one of the parts holds in full."""
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
    """At least one of the options."""
    every = _product([option.every for option in options])
    return None if every is None else Clauses(every, any(o.others for o in options), _late(options))


def negated(one: Clauses) -> Clauses | None:
    """Not what the clauses say."""
    broken = [_broken(clause) for clause in one.every]
    if any(b is None for b in broken):
        return None
    if not one.every:
        return None  # nothing to deny: no object is left, which clauses cannot say
    every = _product([b for b in broken if b is not None])
    return None if every is None else Clauses(every, not one.others, one.late)


def _broken(clause: Clause) -> tuple[Clause, ...] | None:
    """Clauses that all hold where ``clause`` does not."""
    facts = sorted(clause, key=lambda f: (f.kind, str(f.what), f.value))
    if len(facts) == 2 and facts[0].kind == "has" and facts[1] == lacks(facts[0].what):
        value = facts[0].value  # "not there, or right" is broken by "there and wrong"
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
    """Exactly one of the options."""
    least = any_of(options)
    if least is None or len(options) * (len(options) - 1) // 2 > _MAX_CLAUSES:
        return None
    not_each = [negated(option) for option in options]
    denials = [n for n in not_each if n is not None]
    if len(denials) < len(options):
        return None
    every: dict[Clause, None] = dict.fromkeys(least.every)
    for i, one in enumerate(denials):
        for two in denials[i + 1 :]:
            pair = _product([one.every, two.every])
            if pair is None:
                return None
            every.update(dict.fromkeys(pair))
    return Clauses(tuple(every), sum(o.others for o in options) == 1, _late(options))


def conditional(condition: Clauses, then: Clauses, other: Clauses) -> Clauses | None:
    """Where the condition holds ``then`` does, elsewhere ``other``."""
    denied = negated(condition)
    if denied is None:
        return None
    yes, no = _product([denied.every, then.every]), _product([condition.every, other.every])
    if (yes is None and then.every) or (no is None and other.every):
        return None
    others = then.others if condition.others else other.others
    parts = (condition, then, other)
    return Clauses(tuple(dict.fromkeys((*(yes or ()), *(no or ())))), others, _late(parts))
