"""The parts of a type (pydantic's core schema of it) that Python cannot hash, and so put into no set."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["PERHAPS", "unhashable_part"]

PERHAPS = "any"  #: some values can be hashed, others not
_NEVER = {"list", "set", "dict", "typed-dict", "deque", "ordered-dict", "counter"}
_PARTS = ("schema", "lax_schema", "json_schema", "items_schema", "choices", "fields", "arguments_schema", "steps")


def unhashable_part(schema: Any, definitions: Mapping[str, Any], seen: tuple[str, ...] = ()) -> str:
    """Return the name of the part of ``schema`` whose values cannot be hashed, `PERHAPS`, or "" where all can be."""
    kind = str(schema.get("type"))
    if kind == "definition-ref":
        ref = schema["schema_ref"]
        return "" if ref in seen else unhashable_part(definitions[ref], definitions, (*seen, ref))
    made_by = schema.get("function") if kind == "call" else schema.get("cls")  # "call": NamedTuples before 2.14
    if kind in _NEVER or (made_by is not None and made_by.__hash__ is None):
        return made_by.__name__ if made_by else kind
    if kind == "any" or (kind == "json" and "schema" not in schema):
        return PERHAPS
    if kind in ("frozenset", "generator") or _is_made_by_a_caller(schema, kind, made_by):
        return ""
    parts = [part for key in _PARTS if key in schema for part in _listed(schema[key])]
    messages = {unhashable_part(part, definitions, seen): None for part in parts if isinstance(part, Mapping)}
    if kind == "dataclass" and not all(_is_hashed(field) for field in dataclasses.fields(made_by)):
        return PERHAPS if any(messages) else ""
    return next((name for name in messages if name not in ("", PERHAPS)), PERHAPS if PERHAPS in messages else "")


def _listed(part: Any) -> list[Any]:
    is_schema = isinstance(part, Mapping) and isinstance(part.get("type"), str)  # a field may be called type
    values = [part] if is_schema else part.values() if isinstance(part, Mapping) else part
    return [value[0] if isinstance(value, tuple) else value for value in values]  # a choice may have a label


def _is_hashed(field: Any) -> bool:
    return bool(field.compare if field.hash is None else field.hash)


def _is_made_by_a_caller(schema: Any, kind: str, made_by: Any) -> bool:
    """Whether a function of the caller's gives the value or its hash, so that the fields do not decide."""
    if kind in ("function-after", "function-wrap"):
        function = schema["function"]["function"]
        module = str(getattr(getattr(function, "func", function), "__module__", ""))
        return not module.startswith("pydantic") and not {"cls", "schema_ref"} & schema["schema"].keys()
    made = made_by.__hash__ if kind in ("model", "dataclass", "call", "named-tuple") else tuple.__hash__
    code = getattr(made, "__code__", None)
    return made is not tuple.__hash__ and not (
        code and ("pydantic" in made.__module__ or code.co_filename == "<string>")
    )
