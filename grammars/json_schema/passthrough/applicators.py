"""Applicators (``anyOf``, ``oneOf``, ``allOf``) of a schema that is passed through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.passthrough.copy import KeywordReader, SchemaCopy, has_siblings
from grammars.json_schema.passthrough.exclusive import KINDS, are_mutually_exclusive, kinds_of
from grammars.json_schema.passthrough.refusal import NotPassedThrough

__all__ = ["READERS", "can_intersect"]

_MAX_REORDERED = 8
_MAX_COMPARED = 2_000  # schemas looked at to see whether they contradict each other


def _any_of(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if len(value) == 1:
        _merge(copy, "anyOf", value, schema, out)
    else:
        _choose(copy, "anyOf", value, schema, out)


def _one_of(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if "anyOf" in schema:
        raise NotPassedThrough
    if len(value) == 1:
        _merge(copy, "oneOf", value, schema, out)
        return
    if all(map(_constrains_objects_only, value)) and "type" not in schema:
        value = [{"type": "object", **sub} for sub in value]  # any other value satisfies all branches
    siblings = {k: v for k, v in schema.items() if k != "oneOf"}
    if not are_mutually_exclusive(value, siblings, copy.resolved):
        raise NotPassedThrough
    _choose(copy, "oneOf", value, schema, out)


def _constrains_objects_only(schema: Any) -> bool:
    """Whether the schema constrains objects, and no other value."""
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


def _all_of(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    _merge(copy, "allOf", value, schema, out)


def _choose(copy: SchemaCopy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if has_siblings(schema, keyword):
        rest = {k: v for k, v in schema.items() if k != keyword}
        if not all(_is_mergeable([rest, copy.resolved(sub)], copy) for sub in value):
            raise NotPassedThrough
        copy.has_merges = True
    out["anyOf"] = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    out["anyOf"] += _reordered(copy, value)
    if any(branch is False for branch in out["anyOf"]):
        raise NotPassedThrough


def _reordered(copy: SchemaCopy, value: list[Any]) -> list[Any]:
    """Copies, in the common key order of all branches, of the branches that list their keys in another order."""
    rank: dict[str, int] = {}
    found: list[tuple[Any, dict[str, Any]]] = []
    for sub in value:
        branch = copy.resolved(sub)
        keys = branch.get("properties", ()) if isinstance(branch, dict) else ()
        places = [rank.setdefault(key, len(rank)) for key in keys]
        if places != sorted(places):
            found.append((sub, branch))
    if len(found) > _MAX_REORDERED:
        raise NotPassedThrough
    out = []
    for sub, branch in found:
        names = sorted(branch["properties"], key=rank.__getitem__)
        if branch is sub:
            out.append(copy.schema(_in_order(branch, names)))
        else:  # under a name of its own, as it may refer back to this schema
            out.append(copy.named((id(branch), *names), _in_order(branch, names), list(copy.path)))
    return out


def _in_order(schema: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {**schema, "properties": {name: schema["properties"][name] for name in names}}


def _merge(copy: SchemaCopy, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Schemas that all hold: left to the engine if their keys do not overlap, so that nothing can contradict."""
    siblings = has_siblings(schema, keyword)
    if len(value) > 1 or siblings:
        rest = [{k: v for k, v in schema.items() if k != keyword}] if siblings else []
        if "allOf" in out or not _is_mergeable([*rest, *map(copy.resolved, value)], copy):
            raise NotPassedThrough
        copy.has_merges = True
    copies = [copy.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
    if any(one is False for one in copies):
        raise NotPassedThrough
    out["allOf"] = [one for one in copies if one is not True]


READERS: dict[str, KeywordReader] = {"anyOf": _any_of, "oneOf": _one_of, "allOf": _all_of}


# -- schemas that the engine may intersect

_CHECKED_APART = {"type", "properties", "required", "allOf", "anyOf", "oneOf", "$ref", "additionalProperties", "items"}
_DEPTH = 4


def _is_mergeable(parts: list[Any], copy: SchemaCopy, depth: int = _DEPTH) -> bool:
    """Whether the engine may intersect these schemas: a common type, and keys and items that cannot contradict each
    other.
    """
    listed: dict[str, Any] = {}
    required: set[str] = set()
    closed: list[set[str]] = []
    absent: set[str] = set()
    items: list[Any] = []
    constraints: list[Any] = []
    kinds = KINDS
    todo = list(parts)
    done: list[Any] = []
    while todo:
        copy.compared += 1
        if copy.compared > _MAX_COMPARED:
            raise NotPassedThrough
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
            return False  # adds null to whatever its siblings allow
        done.append(part)
        kinds &= kinds_of(part)
        said = {k: v for k, v in part.items() if k in CHECKS and k not in _CHECKED_APART}
        if said and said not in constraints:
            constraints.append(said)
        own, extra = part.get("properties", {}), part.get("additionalProperties", True)
        if isinstance(extra, dict):
            return False
        for key in own.keys() & listed.keys():
            if not can_intersect(own[key], listed[key], copy, depth):
                if not _have_no_common_type(own[key], listed[key]):
                    return False
                absent.add(key)
        listed = {**listed, **own}
        required |= set(part.get("required", ()))
        if extra is False:
            closed.append(set(own))
        if "items" in part:
            if not all(can_intersect(part["items"], other, copy, depth) for other in items):
                return False
            items.append(part["items"])
    if not absent.isdisjoint(required) or any(not required <= keys for keys in closed):
        return False
    return len(constraints) <= 1 and bool(kinds)


def can_intersect(one: Any, two: Any, copy: SchemaCopy, depth: int = _DEPTH) -> bool:
    """Whether two schemas of one value are equal, or the engine may intersect them."""
    if one == two or _without_annotations(one, copy) == _without_annotations(two, copy):
        return True
    if depth == 0 or not isinstance(one, dict) or not isinstance(two, dict):
        return one is True or two is True
    return _is_mergeable([one, two], copy, depth - 1)


def _without_annotations(schema: Any, copy: SchemaCopy) -> Any:
    """The schema without annotations."""
    if not isinstance(schema, dict):
        return schema
    if copy.ref_ignores_siblings and "$ref" in schema:
        return {"$ref": schema["$ref"]}
    return {k: v for k, v in schema.items() if k in CHECKS}


def _have_no_common_type(one: Any, two: Any) -> bool:
    """Whether the schemas have no type in common, so that the engine drops the key."""
    return isinstance(one, dict) and isinstance(two, dict) and not kinds_of(one) & kinds_of(two)
