"""The JSON types and the strings that a parameter's schema allows, for syntaxes that write raw text.

Raw text has no quotes that distinguish ``12`` from ``"12"``: the schema alone decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grammars.regular.syntax.ecma import InvalidPattern, NotRegular, language
from grammars.regular.terms import ALL, ANY, Regular, alt, inter, rep, words
from grammars.values.json_pointer import MISSING, value_at

__all__ = ["ALL_TYPES", "is_whole", "part", "resolve", "strings", "type_of", "types"]

ALL_TYPES = frozenset({"string", "number", "boolean", "null", "object", "array"})
_DEPTH = 12  # references and subschemas nested deeper count as unrestricted

#: Keywords that hold definitions.
_DEFINITIONS = ("$defs", "definitions")


def type_of(value: Any) -> str:
    """The JSON type of a Python value; ``number`` for integers."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case Mapping():
            return "object"
    return "array"


def part(root: Mapping[str, Any], schema: Any) -> Any:
    """Turn a subschema of ``root`` into a schema of its own, with the definitions of ``root`` if it has references."""
    if not isinstance(schema, Mapping) or '"$ref"' not in json.dumps(schema, default=str):
        return schema
    return {**{key: root[key] for key in _DEFINITIONS if key in root}, **schema}


def resolve(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow a local ``$ref``, adding its sibling keywords; return any other schema unchanged."""
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping) or not str(schema.get("$ref", "")).startswith("#"):
            return schema
        target = value_at(root, str(schema["$ref"])[1:])
        if target is MISSING:
            return {key: value for key, value in schema.items() if key != "$ref"}
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **siblings} if isinstance(target, Mapping) else target
    return True


def types(schema: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """The JSON types that an instance may have, or a superset of them."""
    schema = resolve(schema, root)
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return ALL_TYPES
    allowed = ALL_TYPES
    if "type" in schema:
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        allowed &= {"number" if name == "integer" else name for name in named}
        if schema.get("nullable") is True:
            allowed |= {"null"}
    if "enum" in schema:
        allowed &= {type_of(value) for value in schema["enum"]}
    if "const" in schema:
        allowed &= {type_of(schema["const"])}
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            allowed &= frozenset().union(*(types(option, root, depth + 1) for option in schema[key]))
    for inner in schema.get("allOf", ()):
        allowed &= types(inner, root, depth + 1)
    return allowed


def is_whole(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether all numbers that the schema allows are integers; False if that is not evident."""
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return False
    named = schema.get("type", "number")
    if "number" not in (named if isinstance(named, list) else [named]):
        return True
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if listed is not None:
        return all(isinstance(value, int) for value in listed if type_of(value) == "number")
    if any(is_whole(inner, root, depth + 1) for inner in schema.get("allOf", ())):
        return True
    unions = (schema[key] for key in ("anyOf", "oneOf") if schema.get(key))
    return any(all(is_whole(option, root, depth + 1) for option in options) for options in unions)


def strings(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Regular:
    """The language of the strings that the schema allows; `ALL` if nothing restricts them.

    Constraints that are not regular (a back-reference, ``format``) are ignored, so the language may be larger; the
    parsed arguments are validated later.
    """
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return ALL
    if "string" not in types(schema, root):
        return words(())
    allowed = ALL
    if "const" in schema:
        allowed = inter(allowed, words([schema["const"]]))
    if "enum" in schema:
        allowed = inter(allowed, words([value for value in schema["enum"] if isinstance(value, str)]))
    if "minLength" in schema or "maxLength" in schema:
        allowed = inter(allowed, rep(ANY, int(schema.get("minLength", 0)), _whole(schema.get("maxLength"))))
    if isinstance(schema.get("pattern"), str):
        allowed = inter(allowed, _pattern(schema["pattern"]))
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            options = [option for option in schema[key] if "string" in types(option, root)]
            allowed = inter(allowed, alt(*(strings(option, root, depth + 1) for option in options)))
    for inner in schema.get("allOf", ()):
        allowed = inter(allowed, strings(inner, root, depth + 1))
    return allowed


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _pattern(pattern: str) -> Regular:
    try:
        return language(pattern)
    except (InvalidPattern, NotRegular):
        return ALL
