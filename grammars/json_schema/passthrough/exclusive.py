"""Prove that schemas exclude each other, from their keywords alone.

A branch is read as alternatives, each a record of conditions that every value must meet.  What is not understood is
left out, which makes an alternative larger and never makes the proof wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

__all__ = ["KINDS", "are_mutually_exclusive", "kinds_of"]

_MAX_BRANCHES = 60
_MAX_ALTERNATIVES = 40
_DEPTH = 4
_MOST_PAIRS = 50_000  # of alternatives that are compared: some tenths of a second

#: Resolves a schema that is a reference to its target.
Resolve = Callable[[Any], Any]

#: The kinds of JSON value; integers are numbers.
KINDS = frozenset({"null", "boolean", "number", "string", "array", "object"})
_RANGES: Mapping[str, tuple[str, str]] = {
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


_BOUNDS = frozenset(keyword for pair in _RANGES.values() for keyword in pair)


@dataclass(slots=True)
class _Conditions:
    """The conditions of one alternative: types, constants, required and listed keys, bounds."""

    kinds: frozenset[str] = KINDS
    values: frozenset[tuple[str, Any]] | None = None
    required: frozenset[str] = frozenset()
    listed: tuple[Mapping[str, Any], ...] = ()
    closed: tuple[frozenset[str], ...] = ()
    bounds: dict[str, float] = field(default_factory=dict)

    def also(self, other: _Conditions) -> _Conditions:
        """The intersection."""
        values = self.values if other.values is None else other.values
        if self.values is not None and other.values is not None:
            values = self.values & other.values
        bounds = dict(self.bounds)
        for key, value in other.bounds.items():
            bounds[key] = max(bounds.get(key, value), value) if key[:3] == "min" else min(bounds.get(key, value), value)
        return _Conditions(
            self.kinds & other.kinds,
            values,
            self.required | other.required,
            self.listed + other.listed,
            self.closed + other.closed,
            bounds,
        )


def are_mutually_exclusive(branches: Sequence[Any], siblings: Mapping[str, Any], resolve: Resolve) -> bool:
    """Whether no value can satisfy two of the branches together with the keywords next to them (``siblings``)."""
    if len(branches) > _MAX_BRANCHES:
        return False
    around = _own(siblings)
    reader = _Reader(resolve)
    read = [[around.also(found) for found in reader.alternatives(branch, _DEPTH)] for branch in branches]
    return all(
        _are_disjoint(one, two, reader, _DEPTH)
        for i, ones in enumerate(read)
        for twos in read[i + 1 :]
        for one, two in product(ones, twos)
    )


class _Reader:
    """Reads schemas as alternatives, each schema once."""

    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self.known: dict[tuple[int, int], list[_Conditions]] = {}
        self.disjoint: dict[
            tuple[int, int, int], bool
        ] = {}  # by the ids of alternatives, which are all kept, and depth

    def alternatives(self, schema: Any, depth: int) -> list[_Conditions]:
        schema = self.resolve(schema)
        if schema is False:
            return []
        if not isinstance(schema, dict) or depth == 0:
            return [_Conditions()]
        key = (id(schema), depth)
        if key not in self.known:
            self.known[key] = self.read(schema, depth)
        return self.known[key]

    def read(self, schema: Mapping[str, Any], depth: int) -> list[_Conditions]:
        found = [_own(schema)]
        groups = [[part] for part in _list(schema.get("allOf"))]
        groups += [options for k in ("anyOf", "oneOf") if (options := _list(schema.get(k)))]
        for options in groups:
            below = [one for option in options for one in self.alternatives(option, depth - 1)]
            if len(found) * len(below) <= _MAX_ALTERNATIVES:
                found = [one.also(two) for one, two in product(found, below)]
        return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _own(schema: Mapping[str, Any]) -> _Conditions:
    """The conditions of the schema's own keywords."""
    own = _Conditions()
    if schema.get("nullable"):
        return own  # adds null to whatever its siblings allow
    types = schema.get("type")
    if isinstance(types, str | list):
        named = [types] if isinstance(types, str) else [t for t in types if isinstance(t, str)]
        own.kinds = frozenset("number" if t == "integer" else t for t in named)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        read = [_value(v) for v in values]
        own.kinds &= {kind for kind, _ in read}
        if not any(kind in ("array", "object") for kind, _ in read):
            own.values = frozenset(read)
    if isinstance(schema.get("required"), list):
        own.required = frozenset(k for k in schema["required"] if isinstance(k, str))
    listed = schema.get("properties")
    if isinstance(listed, dict):
        own.listed = (listed,)
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        own.closed = (frozenset(listed if isinstance(listed, dict) else ()),)
    if not _BOUNDS.isdisjoint(schema):
        own.bounds = {k: v for k, v in schema.items() if k in _BOUNDS and isinstance(v, int | float)}
    return own


def kinds_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that the schema's own keywords allow."""
    return _own(schema).kinds


def _value(value: Any) -> tuple[str, Any]:
    """Type and value, so that 1 and true differ and 1 and 1.0 do not; arrays and objects by type alone."""
    match value:
        case None:
            return "null", None
        case bool():
            return "boolean", value
        case str():
            return "string", value
        case list():
            return "array", None
        case dict():
            return "object", None
    return "number", value


def _are_disjoint(one: _Conditions, two: _Conditions, reader: _Reader, depth: int) -> bool:
    """Whether no value satisfies both; False, which proves nothing, after too many pairs were compared."""
    key = (id(one), id(two), depth)
    found = reader.disjoint.get(key)
    if found is None:
        found = len(reader.disjoint) < _MOST_PAIRS and _compared(one, two, reader, depth)
        reader.disjoint[key] = found
    return found


def _compared(one: _Conditions, two: _Conditions, reader: _Reader, depth: int) -> bool:
    """`_are_disjoint`, not cached."""
    if one.values is not None and two.values is not None:
        return one.values.isdisjoint(two.values)
    return all(_are_disjoint_of_type(kind, one, two, reader, depth) for kind in one.kinds & two.kinds)


def _are_disjoint_of_type(kind: str, one: _Conditions, two: _Conditions, reader: _Reader, depth: int) -> bool:
    """Whether no value of this type satisfies both."""
    if kind in _RANGES:
        low, high = _RANGES[kind]
        for a, b in ((one, two), (two, one)):
            if a.bounds.get(low, float("-inf")) > b.bounds.get(high, float("inf")):
                return True
    return kind == "object" and (
        _are_disjoint_by_key(one, two, reader, depth) or _are_disjoint_by_key(two, one, reader, depth)
    )


def _are_disjoint_by_key(one: _Conditions, two: _Conditions, reader: _Reader, depth: int) -> bool:
    """Whether ``one`` requires a key that ``two`` excludes, or whose values are disjoint."""
    for key in one.required:
        if any(key not in keys for keys in two.closed):
            return True
        if depth == 0:
            continue
        mine = [listed[key] for listed in one.listed if key in listed]
        its = [listed[key] for listed in two.listed if key in listed]
        for a, b in product(mine, its):
            if a is b:
                continue
            pairs = product(reader.alternatives(a, 2), reader.alternatives(b, 2))
            if all(_are_disjoint(x, y, reader, depth - 1) for x, y in pairs):
                return True
    return False
