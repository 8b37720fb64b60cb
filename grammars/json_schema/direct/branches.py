"""Applicators: branches to choose from, and schemas that all hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.direct.copy import Copy, NotDirect, Reader, has_siblings
from grammars.json_schema.direct.exclusive import exclusive
from grammars.json_schema.passes.kinds import CHECKS

__all__ = ["READERS"]

_MAX_REORDERED = 8
_MAX_COMPARED = 2_000  # schemas looked at to see whether they contradict each other


def _any_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value:
        raise NotDirect
    if len(value) == 1:
        _merge(copy, "anyOf", value, schema, out)
    else:
        _choose(copy, "anyOf", value, schema, out)


def _one_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value or "anyOf" in schema:
        raise NotDirect
    if len(value) == 1:
        _merge(copy, "oneOf", value, schema, out)
    elif exclusive([copy.resolved(sub) for sub in value]):
        _choose(copy, "oneOf", value, schema, out)
    else:
        raise NotDirect


def _all_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value:
        raise NotDirect
    _merge(copy, "allOf", value, schema, out)


def _choose(copy: Copy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if has_siblings(schema, keyword):
        rest = {k: v for k, v in schema.items() if k != keyword}
        if not all(_is_mergeable([rest, copy.resolved(sub)], copy) for sub in value):
            raise NotDirect
        copy.merges *= len(value)
    out["anyOf"] = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    out["anyOf"] += _reordered(copy, value)
    if any(branch is False for branch in out["anyOf"]):
        raise NotDirect


def _reordered(copy: Copy, value: list[Any]) -> list[Any]:
    """Branches whose keys come in another order than all branches together name them, in that order."""
    rank: dict[str, int] = {}
    found: list[Any] = []
    for branch in map(copy.resolved, value):
        keys = branch.get("properties", ()) if isinstance(branch, dict) else ()
        places = [rank.setdefault(key, len(rank)) for key in keys]
        if places != sorted(places):
            found.append(branch)
    if len(found) > _MAX_REORDERED:
        raise NotDirect
    out = []
    for branch in found:
        listed = branch["properties"]
        inorder = {key: listed[key] for key in sorted(listed, key=rank.__getitem__)}
        out.append(copy.schema({**branch, "properties": inorder}))
    return out


def _merge(copy: Copy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Schemas that all hold: left to the engine where their keys do not meet, so that nothing can contradict."""
    beside = has_siblings(schema, keyword)
    if len(value) > 1 or beside:
        rest = [{k: v for k, v in schema.items() if k != keyword}] if beside else []
        if "allOf" in out or not _is_mergeable([*rest, *map(copy.resolved, value)], copy):
            raise NotDirect
        copy.merges *= 2
    copies = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    if any(one is False for one in copies):
        raise NotDirect
    out["allOf"] = [one for one in copies if one is not True]


READERS: dict[str, Reader] = {"anyOf": _any_of, "oneOf": _one_of, "allOf": _all_of}


# -- may the engine intersect them?

_SILENT = {"type", "properties", "required", "allOf", "anyOf", "oneOf", "$ref", "additionalProperties"}


def _is_mergeable(parts: list[Any], copy: Copy, depth: int = 4) -> bool:
    """May the engine intersect these schemas: one type, and listed keys whose values cannot contradict each other?"""
    listed: dict[str, Any] = {}
    types: list[Any] = []
    required: set[str] = set()
    closed: list[set[str]] = []
    speaking = 0
    todo = list(parts)
    while todo:
        copy.compared += 1
        if copy.compared > _MAX_COMPARED:
            raise NotDirect
        part = copy.resolved(todo.pop())
        if not isinstance(part, dict):
            return part is True
        for keyword in ("anyOf", "oneOf"):
            if keyword in part:
                rest = {k: v for k, v in part.items() if k != keyword}
                return depth > 0 and all(
                    _is_mergeable(
                        [*todo, {"properties": listed, "required": sorted(required)}, rest, sub], copy, depth - 1
                    )
                    for sub in part[keyword]
                )
        speaking += any(k in CHECKS and k not in _SILENT for k in part)
        own, extra = part.get("properties", {}), part.get("additionalProperties", True)
        if not isinstance(own, dict) or not isinstance(part.get("required", []), list) or isinstance(extra, dict):
            return False
        for key in own.keys() & listed.keys():
            if not _agree(own[key], listed[key], copy, depth):
                return False
        listed = {**listed, **own}
        required |= set(part.get("required", ()))
        if extra is False:
            closed.append(set(own))
        if "type" in part and part["type"] not in types:
            types.append(part["type"])
        if "allOf" in part:
            todo += part["allOf"]
    if any(not (required | listed.keys()) <= keys for keys in closed):
        return False
    return speaking <= 1 and len(types) <= 1


def _agree(one: Any, two: Any, copy: Copy, depth: int) -> bool:
    if one == two:
        return True
    if depth == 0 or not isinstance(one, dict) or not isinstance(two, dict):
        return one is True or two is True
    return _is_mergeable([one, two], copy, depth - 1)
