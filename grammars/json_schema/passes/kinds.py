"""Refuse keywords whose value has the wrong type, with the place and the expected type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.values.report import ReportRow
from special_tokens.errors import SchemaError, shown

__all__ = ["CHECKS", "TYPES", "check_kinds", "is_schema"]

_SCHEMA_KINDS = {dict, bool}
_TEXT_KINDS = {str}

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def is_schema(value: Any) -> bool:
    """Whether ``value`` is a schema: an object or a boolean."""
    return isinstance(value, dict | bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


def _map_schemas(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    subs = value.values()
    return _SCHEMA_KINDS.issuperset(map(type, subs)) or all(map(is_schema, subs))  # the first test is quick


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and (_TEXT_KINDS.issuperset(map(type, value)) or all(map(_is_text, value)))


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and v in TYPES for v in value)


def _are_dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(is_schema(v) or _are_names(v) or _is_text(v) for v in value.values())


_Check = tuple[Callable[[Any], bool], str]
_NUMBER: _Check = (_is_number, "a number")
_COUNT: _Check = (_is_count, "a whole number that is not negative")
_SCHEMA: _Check = (is_schema, "a schema: an object, true or false")
_SCHEMAS: _Check = (_are_schemas, "a list of schemas that is not empty")
_SCHEMA_MAP: _Check = (_map_schemas, "an object of schemas")

CHECKS: Mapping[str, _Check] = {
    "type": (_is_type, f"one or several of {', '.join(TYPES)}"),
    "const": (lambda v: True, "any value"),
    "enum": (lambda v: isinstance(v, list), "a list"),
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": (lambda v: _is_number(v) or _is_flag(v), "a number"),
    "exclusiveMaximum": (lambda v: _is_number(v) or _is_flag(v), "a number"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "pattern": (_is_text, "a string"),
    "format": (_is_text, "a string"),
    "uniqueItems": (_is_flag, "true or false"),
    "items": (lambda v: is_schema(v) or (isinstance(v, list) and all(map(is_schema, v))), "a schema or a list of them"),
    "additionalItems": _SCHEMA,
    "prefixItems": _SCHEMAS,
    "contains": _SCHEMA,
    "unevaluatedItems": _SCHEMA,
    "properties": _SCHEMA_MAP,
    "patternProperties": _SCHEMA_MAP,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "required": (_are_names, "a list of strings"),
    "dependencies": (_are_dependencies, "an object of schemas or lists of strings"),
    "dependentRequired": (lambda v: isinstance(v, dict) and all(map(_are_names, v.values())), "an object of lists"),
    "dependentSchemas": _SCHEMA_MAP,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "$ref": (_is_text, "a URI reference"),
    "$dynamicRef": (_is_text, "a URI reference"),
    "$recursiveRef": (_is_text, "a URI reference"),
    "nullable": (_is_flag, "true or false"),
}


def check_kinds(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Return the schema unchanged; raises `SchemaError` at the first keyword whose value has the wrong type."""
    for keyword, value in schema.items():
        check = CHECKS.get(keyword)
        if check is not None and not check[0](value):
            raise SchemaError(
                f"{keyword!r} is {shown(value)}",
                pointer=place.pointer,
                keyword=keyword,
                expected=check[1],
            )
    return schema
