"""Conditions that speak only of which keys are there, as clauses instead of alternatives.

``anyOf`` over ``required`` for each of n keys would make n forms, and several of them n*m; as clauses on the presence
of keys they stay one form (`shapes.Clause`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.shapes import Clause

__all__ = ["Facts", "any_of", "facts", "implies", "named", "one_of"]

#: Keys with whether they are there; all must be as stated.
Facts = frozenset[tuple[str, bool]]

_MAX_CLAUSES = 1_500


def facts(schema: Any) -> tuple[Facts, bool] | None:
    """``(facts, objects only)`` of a schema that says nothing but which keys are there; None for any other."""
    if not isinstance(schema, dict):
        return None
    found: set[tuple[str, bool]] = set()
    typed = False
    for keyword, value in schema.items():
        if keyword not in CHECKS:
            continue
        if keyword == "required" and isinstance(value, list) and all(isinstance(k, str) for k in value):
            found |= {(key, True) for key in value}
        elif (
            keyword == "properties"
            and isinstance(value, dict)
            and all(v is False or v == _NEVER for v in value.values())
        ):
            found |= {(key, False) for key in value}
        elif keyword == "type" and value == "object":
            typed = True
        elif keyword == "not" and isinstance(value, dict):
            inner = facts(value)
            if inner is None or inner[1] or len(inner[0]) != 1:
                return None
            found |= {(key, not there) for key, there in inner[0]}
        else:
            return None
    if "$ref" in schema or "$dynamicRef" in schema or any((key, not there) in found for key, there in found):
        return None
    return frozenset(found), typed


def named(source: Any) -> tuple[str, ...]:
    """The keys that a presence-only schema (or several, or a key) names, in the order in which it does."""
    found: dict[str, None] = {}
    todo = [source]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            found[value] = None
        elif isinstance(value, list | tuple):
            todo.extend(reversed(value))
        elif isinstance(value, dict):
            todo.extend(v for k in ("else", "then", "if", "not", "required") if (v := value.get(k)) is not None)
            todo.extend(reversed(list(value["properties"])) if isinstance(value.get("properties"), dict) else ())
    return tuple(found)


_NEVER: Mapping[str, Any] = {"not": {}}


def any_of(options: Sequence[Facts]) -> tuple[Clause, ...] | None:
    """Clauses that say: at least one option holds; None when there would be too many."""
    if any(not option for option in options):
        return ()
    size = 1
    for option in options:
        size *= len(option)
        if size > 64:
            return None
    found = (frozenset(choice) for choice in product(*(sorted(o) for o in options)))
    return tuple(dict.fromkeys(c for c in found if not any((key, not there) in c for key, there in c)))


def one_of(options: Sequence[Facts]) -> tuple[Clause, ...] | None:
    """Clauses that say: exactly one option holds; None when there would be too many."""
    least = any_of(options)
    if least is None or len(options) * (len(options) - 1) // 2 > _MAX_CLAUSES:
        return None
    out: dict[Clause, None] = dict.fromkeys(least)
    for i, one in enumerate(options):
        for two in options[i + 1 :]:
            together = one | two
            if not any((key, not there) in together for key, there in together):
                out[frozenset((key, not there) for key, there in together)] = None
    return tuple(out)


def implies(condition: Facts, conclusion: Facts) -> tuple[Clause, ...]:
    """Clauses that say: where the condition holds, the conclusion does."""
    unless = frozenset((key, not there) for key, there in condition)
    return tuple(unless | {fact} for fact in sorted(conclusion) if fact not in condition)
