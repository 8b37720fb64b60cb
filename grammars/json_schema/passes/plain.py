"""Passes that leave fewer keywords for the same meaning."""

from __future__ import annotations

from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.equality_keys import EqualityKeys
from grammars.limits.schema_limits import DEFAULT_LIMITS
from grammars.values.report import ReportRow
from special_tokens.errors import SchemaError

__all__ = ["constants", "drop_no_ops", "whole_numbers"]

_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
)


def whole_numbers(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Convert counts such as 2.0 to 2."""
    floats = [k for k in _COUNTS if isinstance(schema.get(k), float)]
    return {**schema, **{k: int(schema[k]) for k in floats}} if floats else schema


def constants(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """``const`` becomes an ``enum`` of one value (or filters the ``enum`` next to it)."""
    longest = max((len(v) for v in (schema.get("const"), *schema.get("enum", ())) if isinstance(v, str)), default=0)
    if longest > DEFAULT_LIMITS.literal:
        raise SchemaError(
            f"a constant of {longest} characters, the limit 'literal' is {DEFAULT_LIMITS.literal}",
            pointer=place.pointer,
            keyword="const" if "const" in schema else "enum",
            hint="use a shorter constant",
        )
    if "const" not in schema:
        return schema
    out = {k: v for k, v in schema.items() if k not in ("const", "enum")}
    keys = EqualityKeys()
    is_listed = "enum" not in schema or keys(schema["const"]) in map(keys, schema["enum"])
    out["enum"] = [schema["const"]] if is_listed else []
    return out


def drop_no_ops(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Drop keywords that have no effect where they are."""
    gone = {k for k, v in schema.items() if (k in _IDLE and _IDLE[k] == v and type(_IDLE[k]) is type(v))}
    if "contains" not in schema:
        gone |= {"minContains", "maxContains"} & schema.keys()
    if "if" not in schema:
        gone |= {"then", "else"} & schema.keys()
    return {k: v for k, v in schema.items() if k not in gone} if gone else schema


_IDLE: dict[str, Any] = {
    "uniqueItems": False,
    "not": False,
    "dependencies": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "propertyNames": True,
    "patternProperties": {},
    "required": [],
}
