"""OpenAI's ``response_format`` objects, read into the response formats of `grammars.values.constraints`.

Requests, and callers who pass such an object themselves, are read here alike.  A dict without one of OpenAI's types is
a JSON schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from grammars.values.constraints import JsonSchema, StructuralTag
from special_tokens.errors import RequestError, shown

__all__ = ["RESPONSE_FORMAT", "read_response_format"]

#: The place of a response format in a request, unless another one is named.
RESPONSE_FORMAT = "response_format"

_TYPES = "text, structural_tag, json_object or json_schema"
_FORMAT_TYPES = ("text", "structural_tag", "json_object", "json_schema")
_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_SCHEMA_WORDS = frozenset(
    ("$ref", "properties", "anyOf", "oneOf", "allOf", "enum", "const", "items", "required", "$defs")
)
#: Keys of a format that is another value, and that value.
_FORMAT_KEYS = {
    "regex": "guided.Regex(pattern)",
    "choice": "guided.Choice([...]) or a list of texts",
    "grammar": "guided.Lark(text) or guided.Gbnf(text)",
    "lark": "guided.Lark(text)",
    "gbnf": "guided.Gbnf(text)",
    "json": "the schema itself",
    "json_object": '{"type": "json_object"}',
    "structural_tag": "guided.StructuralTag(spec)",
    "structures": "guided.StructuralTag(spec)",
    "tag": "guided.StructuralTag(spec)",
}


def read_response_format(
    body: Mapping[str, Any], place: str = RESPONSE_FORMAT, *, trusted: bool = False
) -> JsonSchema | StructuralTag | None:
    """Return the format that ``body`` asks for; None for plain text.

    ``trusted`` is passed on to structural tags.  Raises `RequestError` naming what in ``place`` is unknown or missing.
    """
    kind = body.get("type")
    if "type" not in body:
        _check_shape(body, place)
    if not isinstance(kind, str) or kind in _JSON_TYPES:
        return JsonSchema(body)
    match kind:
        case "text":
            _check_keys(body, {"type"}, place)
            return None
        case "json_object":
            _check_keys(body, {"type", "schema"}, place)
            return JsonSchema(body.get("schema", {"type": "object"}))
        case "json_schema":
            return _json_schema(body, place)
        case "structural_tag":
            return StructuralTag(body, trusted)
    near = difflib.get_close_matches(kind, _JSON_TYPES, 1)
    if near and not difflib.get_close_matches(kind, _FORMAT_TYPES, 1, 0.8):
        expected = f"one of JSON Schema ({', '.join(_JSON_TYPES)}) or of response formats ({_TYPES})"
        raise RequestError(
            f"unknown type {shown(kind)}", place=f"{place}.type", expected=expected, hint=f"is it {shown(near[0])}?"
        )
    raise RequestError(f"unknown type {shown(kind)}", place=f"{place}.type", expected=_TYPES)


def _check_shape(body: Mapping[str, Any], place: str) -> None:
    """Refuse an object that is not a schema, and so would allow any JSON, but part of a format."""
    if body.keys() & _SCHEMA_WORDS:
        return
    if "json_schema" in body or {"name", "schema"} <= body.keys() or body.keys() == {"schema"}:
        wanted = '{"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}'
        raise RequestError("there is no type, and no keyword of a schema", place=place, expected=wanted)
    for key, wanted in _FORMAT_KEYS.items():
        if key in body:
            raise RequestError(f"{shown(key)} is not a keyword of a schema", place=place, expected=wanted)


def _json_schema(body: Mapping[str, Any], place: str) -> JsonSchema:
    """Chat completions wrap name, schema and strict; the Responses API puts them next to the type."""
    wrapper = body.get("json_schema", body)
    outer, place = place, f"{place}.json_schema" if wrapper is not body or place == RESPONSE_FORMAT else place
    if not isinstance(wrapper, Mapping) or "schema" not in wrapper:
        raise RequestError("there is no schema", place=place, expected='{"name": ..., "schema": {...}}')
    if wrapper is not body:
        _check_keys(body, {"type", "json_schema"}, outer)
    _check_keys(wrapper, {"type", "name", "description", "schema", "strict"}, place)
    strict = wrapper.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise RequestError(f"{shown(strict)} is not true or false", place=f"{place}.strict")
    return JsonSchema(wrapper["schema"], name=str(wrapper.get("name") or ""), strict=strict)


def _check_keys(body: Mapping[str, Any], allowed_keys: set[str], place: str) -> None:
    unknown = sorted(set(body) - allowed_keys)
    if unknown:
        raise RequestError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(allowed_keys)))
