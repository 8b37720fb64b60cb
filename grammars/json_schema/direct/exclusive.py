"""Do schemas surely exclude each other?  Told by what is written in them, without working them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["exclusive"]


def exclusive(branches: list[Any]) -> bool:
    """Do the branches surely exclude each other: by type, by constants, or by a key that each requires?"""
    return len(branches) <= 60 and all(_apart(one, two) for i, one in enumerate(branches) for two in branches[i + 1 :])


def _apart(one: Any, two: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(two, dict):
        return False
    a, b = _kinds(one), _kinds(two)
    if a is not None and b is not None and a.isdisjoint(b):
        return True
    x, y = _words(one), _words(two)
    if x is not None and y is not None:
        return x.isdisjoint(y)
    if a != {"object"} or b != {"object"}:
        return False
    return _tagged_apart(one, two) or _tagged_apart(two, one)


def _kinds(schema: Mapping[str, Any]) -> set[str] | None:
    types = schema.get("type")
    if types is None:
        return {"string"} if _words(schema) is not None else None
    found = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    return {"number" if t == "integer" else t for t in found}


def _words(schema: Mapping[str, Any]) -> set[str] | None:
    """The strings of a constant or list of strings; None for anything else."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
        return set(values)
    return None


def _tagged_apart(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Does ``one`` require a key that ``two`` cannot have, or not with the same value?"""
    required, listed, other = one.get("required"), one.get("properties"), two.get("properties", {})
    if not isinstance(required, list) or not isinstance(listed, dict) or not isinstance(other, dict):
        return False
    closed = two.get("additionalProperties") is False and "patternProperties" not in two
    for key in required:
        if closed and key not in other:
            return True
        mine, its = listed.get(key), other.get(key)
        if isinstance(mine, dict) and isinstance(its, dict) and key in (two.get("required") or ()):
            x, y = _words(mine), _words(its)
            if x is not None and y is not None and x.isdisjoint(y):
                return True
    return False
