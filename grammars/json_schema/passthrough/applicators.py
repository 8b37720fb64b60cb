"""Applicators: branches to choose from, and schemas that all hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.passthrough.copy import Copy, Reader, has_siblings
from grammars.json_schema.passthrough.exclusive import KINDS, exclusive, kinds_of
from grammars.json_schema.direct.refusal import NotDirect
from grammars.json_schema.passes.kinds import CHECKS

__all__ = ["READERS", "agree"]

_MAX_REORDERED = 8
_MAX_COMPARED = 2_000  # schemas looked at to see whether they contradict each other


def _any_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if len(value) == 1:
        _merge(copy, "anyOf", value, schema, out)
    else:
        _choose(copy, "anyOf", value, schema, out)


def _one_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if "anyOf" in schema:
        raise NotDirect
    if len(value) == 1:
        _merge(copy, "oneOf", value, schema, out)
        return
    if all(map(_speaks_of_objects, value)) and "type" not in schema:
        value = [{"type": "object", **sub} for sub in value]  # any other value satisfies all of them
    beside = {k: v for k, v in schema.items() if k != "oneOf"}
    if not exclusive(value, beside, copy.resolved):
        raise NotDirect
    _choose(copy, "oneOf", value, schema, out)


def _speaks_of_objects(schema: Any) -> bool:
    """Does the schema ask something of objects, and nothing of any other value?"""
    if not isinstance(schema, dict):
        return False
    words = schema.keys() & CHECKS.keys()
    return bool(words) and words <= _OF_OBJECTS


_OF_OBJECTS = {
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
}


def _all_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    _merge(copy, "allOf", value, schema, out)


def _choose(copy: Copy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if has_siblings(schema, keyword):
        rest = {k: v for k, v in schema.items() if k != keyword}
        if not all(_is_mergeable([rest, copy.resolved(sub)], copy) for sub in value):
            raise NotDirect
        copy.has_merges = True
    out["anyOf"] = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    out["anyOf"] += _reordered(copy, value)
    if any(branch is False for branch in out["anyOf"]):
        raise NotDirect


def _reordered(copy: Copy, value: list[Any]) -> list[Any]:
    """Branches whose keys come in another order than all branches together name them, in that order."""
    rank: dict[str, int] = {}
    found: list[tuple[Any, dict[str, Any]]] = []
    for sub in value:
        branch = copy.resolved(sub)
        keys = branch.get("properties", ()) if isinstance(branch, dict) else ()
        places = [rank.setdefault(key, len(rank)) for key in keys]
        if places != sorted(places):
            found.append((sub, branch))
    if len(found) > _MAX_REORDERED:
        raise NotDirect
    out = []
    for sub, branch in found:
        names = sorted(branch["properties"], key=rank.__getitem__)
        if branch is sub:
            out.append(copy.schema(_in_order(branch, names)))
        else:  # by a name of its own, as it may lead back here
            out.append(copy.named((id(branch), *names), _in_order(branch, names), list(copy.path)))
    return out


def _in_order(schema: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {**schema, "properties": {name: schema["properties"][name] for name in names}}


def _merge(copy: Copy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Schemas that all hold: left to the engine where their keys do not meet, so that nothing can contradict."""
    beside = has_siblings(schema, keyword)
    if len(value) > 1 or beside:
        rest = [{k: v for k, v in schema.items() if k != keyword}] if beside else []
        if "allOf" in out or not _is_mergeable([*rest, *map(copy.resolved, value)], copy):
            raise NotDirect
        copy.has_merges = True
    copies = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    if any(one is False for one in copies):
        raise NotDirect
    out["allOf"] = [one for one in copies if one is not True]


READERS: dict[str, Reader] = {"anyOf": _any_of, "oneOf": _one_of, "allOf": _all_of}


# -- may the engine intersect them?

_SILENT = {"type", "properties", "required", "allOf", "anyOf", "oneOf", "$ref", "additionalProperties", "items"}
_DEPTH = 4


def _is_mergeable(parts: list[Any], copy: Copy, depth: int = _DEPTH) -> bool:
    """May the engine intersect these schemas: a common type, and keys and items that cannot contradict each other?"""
    listed: dict[str, Any] = {}
    required: set[str] = set()
    closed: list[set[str]] = []
    absent: set[str] = set()
    items: list[Any] = []
    spoken: list[Any] = []
    kinds = KINDS
    todo = list(parts)
    done: list[Any] = []
    while todo:
        copy.compared += 1
        if copy.compared > _MAX_COMPARED:
            raise NotDirect
        part = copy.resolved(todo.pop())
        if part is True:
            continue
        if not isinstance(part, dict):
            return False
        for keyword in ("anyOf", "oneOf"):
            if keyword in part:
                rest = {k: v for k, v in part.items() if k != keyword}
                return depth > 0 and all(
                    _is_mergeable([*todo, *done, rest, sub], copy, depth - 1) for sub in part[keyword]
                )
        if "allOf" in part:
            todo += part["allOf"]
            part = {k: v for k, v in part.items() if k != "allOf"}
        if part.get("nullable"):
            return False  # adds null to whatever stands beside it
        done.append(part)
        kinds &= kinds_of(part)
        said = {k: v for k, v in part.items() if k in CHECKS and k not in _SILENT}
        if said and said not in spoken:
            spoken.append(said)
        own, extra = part.get("properties", {}), part.get("additionalProperties", True)
        if isinstance(extra, dict):
            return False
        for key in own.keys() & listed.keys():
            if not agree(own[key], listed[key], copy, depth):
                if not _is_hopeless(own[key], listed[key]):
                    return False
                absent.add(key)
        listed = {**listed, **own}
        required |= set(part.get("required", ()))
        if extra is False:
            closed.append(set(own))
        if "items" in part:
            if not all(agree(part["items"], other, copy, depth) for other in items):
                return False
            items.append(part["items"])
    if not absent.isdisjoint(required) or any(not required <= keys for keys in closed):
        return False
    return len(spoken) <= 1 and bool(kinds)


def agree(one: Any, two: Any, copy: Copy, depth: int = _DEPTH) -> bool:
    """Are two schemas of one value the same, or such that the engine may intersect them?"""
    if one == two or _words(one, copy) == _words(two, copy):
        return True
    if depth == 0 or not isinstance(one, dict) or not isinstance(two, dict):
        return one is True or two is True
    return _is_mergeable([one, two], copy, depth - 1)


def _words(schema: Any, copy: Copy) -> Any:
    """The schema without annotations."""
    if not isinstance(schema, dict):
        return schema
    if copy.alone and "$ref" in schema:
        return {"$ref": schema["$ref"]}
    return {k: v for k, v in schema.items() if k in CHECKS}


def _is_hopeless(one: Any, two: Any) -> bool:
    """Have the schemas no kind of value in common, so that the engine drops the key?"""
    return isinstance(one, dict) and isinstance(two, dict) and not kinds_of(one) & kinds_of(two)
