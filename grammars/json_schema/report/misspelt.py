"""Rows for what few schemas mean: keywords that are nearly spelled like those of JSON Schema, and so have no effect,
and required keys that ``properties`` lack.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from grammars.values.json_pointer import pointer_of
from grammars.values.report import Outcome, ReportRow

__all__ = ["OTHERS_OF_PROPERTIES", "misspelt_rows", "unlisted_keys", "unlisted_rows"]

_CHECKS = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
    "minProperties", "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains", "minItems",
    "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "definitions",
)  # fmt: skip
_OTHERS = frozenset((
    *_CHECKS, "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly",
    "nullable", "not", "if", "then", "else", "id", "xml", "externalDocs", "discriminator", "contentEncoding",
    "contentMediaType",
    "contentSchema", "divisibleBy", "disallow", "extends", "enumNames", "name", "options",
))  # fmt: skip
_PLAIN = {word.lower(): word for word in _CHECKS}
_BEGINNINGS = frozenset(word[:3] for word in _PLAIN)
_MAX_WORD_LENGTH = max(map(len, _CHECKS)) + 4
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_VALUES = ("const", "enum", "default", "example", "examples", "required", "type", "discriminator")
_MAX_ROWS = 20
#: The options of llguidance's own compiler of schemas, which compiles none here.
_OPTIONS = "x-guidance"
_ENGINE = "guided.JsonSchema(separators=..., key_order=...) and the policy say how JSON is written"


def misspelt_rows(schema: Any, keys: AbstractSet[str]) -> tuple[ReportRow, ...]:
    """Return a row for each word next to keywords that nearly spells one; ``keys`` are those of all objects in it."""
    meant = {key: word for key in keys if (word := _meant(key)) is not None}
    return tuple(_rows(schema, meant)) if meant else ()


def unlisted_rows(schema: Any) -> tuple[ReportRow, ...]:
    """Return a row for each object whose ``properties`` lack a key that it requires: any value may be written there."""
    out: list[ReportRow] = []
    todo: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    while todo and len(out) < _MAX_ROWS:
        value, path = todo.pop()
        if not isinstance(value, Mapping):
            continue
        lost = unlisted_keys(value) if "additionalProperties" not in value else ()
        if lost and value["properties"]:
            keys = f"{', '.join(map(repr, lost[:3]))}: not among the properties, so any value may be written there"
            reason = f"{keys}; did you mean {' or '.join(map(repr, [*value['properties']][:3]))}?"
            out.append(ReportRow(pointer_of(path), "required", Outcome.EXACT, reason, is_slip=True))
        todo += [(value["items"], (*path, "items"))] if "items" in value else []
        inner = value.get("properties")
        if isinstance(inner, Mapping):
            todo += [(subschema, (*path, "properties", name)) for name, subschema in inner.items()]
    return tuple(out)


def _meant(key: str) -> str | None:
    """The keyword that ``key`` nearly spells; None for keywords and for other words."""
    if key == _OPTIONS:
        return key + "?"
    if key in _OTHERS or not 4 <= len(key) <= _MAX_WORD_LENGTH or key[:3].lower() not in _BEGINNINGS:
        return None
    plain = key.lower().replace("_", "").replace("-", "")
    near = difflib.get_close_matches(plain, _PLAIN, 1, cutoff=0.84)
    return _PLAIN[near[0]] if near else None


def _rows(schema: Any, meant: Mapping[str, str]) -> Iterator[ReportRow]:
    todo: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    count = 0
    while todo and count < _MAX_ROWS:
        value, path = todo.pop()
        if isinstance(value, list):
            todo += [(item, (*path, str(i))) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            continue
        for key, inner in value.items():
            word = meant.get(key)
            if word is not None and word not in value:
                count += 1
                reason = f"no keyword, without effect: {_ENGINE if key == _OPTIONS else f'did you mean {word!r}?'}"
                yield ReportRow(pointer_of(path), key, Outcome.EXACT, reason, is_slip=key != _OPTIONS)
            if key in _MAPS and isinstance(inner, dict):
                todo += [(subschema, (*path, key, name)) for name, subschema in inner.items()]
            elif key not in _VALUES and not key.startswith("x-"):
                todo.append((inner, (*path, key)))


#: Keywords next to ``additionalProperties`` that may allow further properties.
OTHERS_OF_PROPERTIES = (
    "patternProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas",
)  # fmt: skip


def unlisted_keys(schema: Any) -> tuple[str, ...]:
    """The required keys that the ``properties`` of a schema lack, where no other keyword may describe them."""
    listed = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(listed, Mapping) or any(word in schema for word in OTHERS_OF_PROPERTIES):
        return ()
    required = schema.get("required")
    named = required if isinstance(required, list) else ()
    return tuple(key for key in named if isinstance(key, str) and key not in listed)
