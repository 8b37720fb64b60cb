"""Rows of the report stand where the schema has the words that they speak of."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.json_schema import DEFAULT_SPELLING, build
from grammars.json_schema.documents import written_word
from special_tokens.errors import SchemaError

_SEVEN = "http://json-schema.org/draft-07/schema#"
_LOST = {"type": "string", "pattern": "^(a|b)\\1$"}  # a back-reference: relaxed where it stands


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"items": [_LOST]}, "/items/0"),
        ({"items": [True], "additionalItems": _LOST}, "/additionalItems"),
        ({"items": _LOST}, "/items"),
        ({"prefixItems": [True, _LOST], "$schema": ""}, "/prefixItems/1"),
        ({"dependencies": {"a": {"properties": {"b": _LOST}}}}, "/dependencies/a/properties/b"),
        ({"properties": {"a": {"items": [{"items": [_LOST]}]}}}, "/properties/a/items/0/items/0"),
        ({"definitions": {"a": [_LOST]}, "$ref": "#/definitions/a/0"}, "/definitions/a/0"),
        ({"items": [{}, _LOST], "properties": {"a": {"$ref": "#/items/1"}}}, "/items/1"),
        ({"type": "object", "nullable": True, "allOf": [{"properties": {"a": _LOST}}]}, "/allOf/0/properties/a"),
    ],
)
def test_the_pointer_is_into_the_schema_as_it_was_given(schema: dict[str, Any], wanted: str) -> None:
    report = build({"$schema": _SEVEN, **schema}, spelling=DEFAULT_SPELLING, watch=True).report
    assert wanted in {row.pointer for row in report.relaxed if row.keyword == "pattern"}


_DEEP = ("/properties/not/if/items", "not")
_SEVENTHS = {"properties": {"b": {"multipleOf": 7}}}  # not enforced where it is negated


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"not": _SEVENTHS}, ("", "not")),
        ({"dependencies": {"a": {"not": _SEVENTHS}}}, ("/dependencies/a", "not")),
        ({"not": {"$ref": "#/definitions/a"}, "definitions": {"a": _SEVENTHS}}, ("", "not")),
        ({"items": {"if": _SEVENTHS, "then": False}}, ("/items", "if")),
        ({"oneOf": [_SEVENTHS, {"type": "object"}]}, ("", "oneOf")),
        ({"properties": {"not": {"if": {"items": {"not": _SEVENTHS}}, "else": False}}}, _DEEP),
    ],
)  # fmt: skip
def test_what_leans_on_a_relaxed_part_deep_inside_is_relaxed(schema: Any, wanted: tuple[str, str]) -> None:
    report = build({"$schema": _SEVEN, **schema}, spelling=DEFAULT_SPELLING).report
    relaxed = {(row.pointer, row.keyword) for row in report.relaxed}
    assert "multipleOf" in {keyword for _, keyword in relaxed}
    assert wanted in relaxed
    assert ("/properties", "not") not in relaxed


_NONE = {"type": "string", "minLength": 5, "maxLength": 3}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (_NONE, ""),
        ({"type": "object", "properties": {"a": _NONE}, "required": ["a"]}, "/properties/a"),
        ({"type": "object", "properties": {"b": dict(_NONE), "a": _NONE}, "required": ["a"]}, "/properties/a"),
        (
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "type": "object", "$defs": {"n": _NONE}},
            "/$defs/n",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": False}, "required": ["b"]}},
             "required": ["a"]},
            "/properties/a",
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, ""),
        ({"type": "integer", "minimum": 5, "exclusiveMaximum": 5}, ""),
        ({"type": "number", "exclusiveMinimum": 5, "exclusiveMaximum": 5}, ""),
    ],
)  # fmt: skip
def test_what_no_value_satisfies_is_named_where_it_stands(schema: Any, wanted: str) -> None:
    with pytest.raises(SchemaError, match="unsatisfiable") as found:
        build(schema, watch=True)
    assert found.value.pointer == wanted


def test_the_keyword_is_the_one_that_is_written() -> None:
    schema = {"items": [{}], "dependencies": {"a": ["b"]}, "const": 1}
    assert [written_word(schema, word) for word in ("prefixItems", "dependentSchemas", "enum", "anyOf")] == [
        "items",
        "dependencies",
        "const",
        None,
    ]
