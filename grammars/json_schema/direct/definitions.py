"""The definitions of a copied schema: can each be finished, does one lead back to itself?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["has_cycle", "is_productive"]


def is_productive(root: Any, defs: Mapping[str, Any]) -> bool:
    """Can every definition, and the root, be finished by a finite value?"""
    done: set[str] = set()

    def ends(schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is True
        if "$ref" in schema:
            return schema["$ref"][len("#/$defs/") :] in done
        if "anyOf" in schema:
            return any(map(ends, schema["anyOf"]))
        types = schema.get("type")
        if types == "object":
            listed = schema.get("properties", {})
            extra = schema.get("additionalProperties", True)
            return all(ends(listed.get(key, extra)) for key in schema.get("required", ()))
        if types == "array" and schema.get("minItems", 0):
            return ends(schema.get("items", True))
        return True

    while True:
        found = {name for name, schema in defs.items() if name not in done and ends(schema)}
        if not found:
            return len(done) == len(defs) and ends(root)
        done |= found


def has_cycle(root: Any, defs: Mapping[str, Any]) -> bool:
    """Does a definition lead back to itself?"""
    below = {name: set(_references(schema)) for name, schema in defs.items()}
    while below:
        free = [name for name, names in below.items() if not names & below.keys()]
        if not free:
            return True
        for name in free:
            del below[name]
    return False


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"][len("#/$defs/") :]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
