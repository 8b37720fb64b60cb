"""The order in which the keys of an object are written.

Two orders are accepted where they differ: that in which the schema first names the keys, over all its branches, and a
branch's own.  A reader of the schema may take either for its order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.passes.normalise import normalise
from grammars.json_schema.shapes.shapes import Conj
from grammars.json_schema.solver.solver import Solver

__all__ = ["property_order"]

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def property_order(solver: Solver, conj: Conj) -> list[str]:
    """The keys that the schemas of a conjunction name, in order of first mention.

    Keys that are only required come after all that have a schema; a key on which others depend comes before those.
    """
    walk = _OrderWalk(solver)
    for literal in conj:
        if literal > 0:
            walk.visit(solver.documents[literal])
    before: dict[int, list[str]] = {}  # the keys that come before the listed one of that number
    for key, at in walk.triggers.items():
        if key not in walk.listed:
            before.setdefault(at, []).append(key)
    order = [name for at, key in enumerate(walk.listed) for name in (*before.get(at, ()), key)]
    order += before.get(len(walk.listed), ())
    return list(dict.fromkeys((*order, *walk.required)))


class _OrderWalk:
    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.seen: set[int] = set()
        self.listed: dict[str, int] = {}  # and their numbers
        self.required: dict[str, None] = {}
        self.triggers: dict[str, int] = {}  # of ``dependentSchemas``, and the number of the first that depends on it

    def visit(self, place: Place) -> None:
        if place.number in self.seen or not isinstance(place.schema, dict):
            return
        self.seen.add(place.number)
        schema, _ = normalise(place)
        for keyword, value in sorted(schema.items(), key=lambda item: item[0] == "dependentSchemas"):
            if keyword == "properties":
                self.name(key for key, sub in value.items() if sub is not False)
            elif keyword in _LISTS:
                for i, sub in enumerate(value):
                    self.enter(place, sub, keyword, i)
            elif keyword in _SINGLES:
                self.enter(place, value, keyword)
            elif keyword == "dependentSchemas":
                for key, sub in value.items():
                    first = self.triggers.setdefault(key, len(self.listed))
                    self.enter(place, sub, keyword, key)
                    below = sub.get("properties", ()) if isinstance(sub, dict) else ()
                    self.triggers[key] = min([first, *(self.listed.get(k, first) for k in below)])
            elif keyword in _REFERENCES:
                self.follow(place, schema, keyword)
            elif keyword == "enum":
                self.name(key for v in value if isinstance(v, dict) for key in v)
        self.required.update(dict.fromkeys(schema.get("required", ())))
        for key, others in schema.get("dependentRequired", {}).items():
            self.required.update(dict.fromkeys((key, *others)))

    def name(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.listed.setdefault(key, len(self.listed))

    def enter(self, place: Place, sub: Any, *steps: str | int) -> None:
        if isinstance(sub, dict):
            self.visit(self.solver.documents.at(place, sub, *steps))

    def follow(self, place: Place, schema: dict[str, Any], keyword: str) -> None:
        conj = self.solver.target(place, schema, keyword)
        if conj:
            self.visit(self.solver.documents[conj[0]])
