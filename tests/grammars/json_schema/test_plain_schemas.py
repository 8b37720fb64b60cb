"""Plain schemas are written as a validator reads them: keywords next to each other, branches, references, constants."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from grammars.json_schema.build import build
from grammars.tree.render import render
from special_tokens.errors import SchemaError
from tests.judges.byte_masks import accepts
from tests.made_up.schemas import having

DRAFT7 = "http://json-schema.org/draft-07/schema#"
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def nested(depth: int, schema: Any) -> Any:
    """Arrays of arrays, ``schema`` for what is in the innermost."""
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


#: A schema, and values in the order of its keys.
CASES: dict[str, tuple[Any, list[Any]]] = {
    "branches told apart by a key of the parent's type": (
        {
            "type": "object",
            "oneOf": [
                {"properties": {"kind": {"enum": ["a"]}, "x": {"type": "integer"}}, "required": ["kind"]},
                {"properties": {"kind": {"enum": ["b"]}, "y": {"type": "integer"}}, "required": ["kind"]},
            ],
        },
        [{"kind": "a"}, {"kind": "a", "x": 1}, {"kind": "a", "x": "1"}, {"kind": "b", "y": 1}, {"kind": "c"}, {}, 1],
    ),
    "branches of objects alone, which any other value satisfies twice": (
        {
            "oneOf": [
                {"properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},
                {"properties": {"b": {"type": "null"}}, "required": ["b"], "additionalProperties": False},
            ]
        },
        [{"a": None}, {"b": None}, {"a": None, "b": None}, {}, 1, None, "a", []],
    ),
    "a list or one constant": (
        {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"enum": [False]}]},
        [[], ["a"], [1], False, True, None],
    ),
    "branches of branches": (
        {
            "oneOf": [
                {"oneOf": [{"enum": ["A", "B"]}, {"enum": ["C"]}]},
                having({"type": {"enum": ["A"]}}),
                having({"type": {"enum": ["D"]}}),
            ]
        },
        ["A", "C", "D", {"type": "A"}, {"type": "D"}, {"type": "C"}, {}],
    ),
    "a length next to digits and any text after them": (
        {"type": "string", "pattern": "^(\\d+\\.\\d+\\.\\d+.*)$", "maxLength": 8},
        ["1.2.3", "1.2", "1.2.3-rc1", "1.2.3-rc", "1.20.300", "1.20.3000", "1.2.", "12.3.é", "12.3.4é"],
    ),
    "keys of any text next to others": (
        {"type": "object", "patternProperties": {"^.+$": {"type": "integer"}}},
        [{}, {"a": 1}, {"a": "x"}, {"": "x"}, {"a": 1, "": None}, {"\r": "x"}, {"é b": 2}, {"a": 1, "b": []}],
    ),
    "numbers of ranges that do not meet": (
        {"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 7}]},
        [0, 3, 4, 6, 7, 100],
    ),
    "constants that are objects and lists": (
        {"enum": [{"a": 1, "b": [1, 2, {"c": None}]}, [1, 2], 2.0]},
        [{"a": 1, "b": [1, 2, {"c": None}]}, [1, 2], [2, 1], {"a": 1}, 2, 1],
    ),
    "a key that a pattern takes too": (
        {
            "type": "object",
            "properties": {"key": {"type": "string"}},
            "patternProperties": {".*": {"type": "string"}},
        },
        [{}, {"key": "a"}, {"key": 1}, {"key": "a", "x": "b"}, {"x": 1}],
    ),
    "a required key that only a pattern takes": (
        {
            "type": "object",
            "required": ["kb"],
            "patternProperties": {"^k": {"type": "integer"}},
            "additionalProperties": False,
        },
        [{"kb": 1}, {}, {"kb": "1"}, {"kb": 1, "kc": 2}, {"kb": 1, "x": 2}],
    ),
    "patterns that differ in their first character": (
        {"patternProperties": {"^/": {"type": "string"}, "^[^/]": {"type": "integer"}}, "type": "object"},
        [{}, {"/a": "x"}, {"/a": 1}, {"a": 1}, {"a": "x"}],
    ),
    "at least one key out of a pattern": (
        {
            "type": "object",
            "minProperties": 1,
            "patternProperties": {"^[a-z]+$": {}},
            "additionalProperties": False,
        },
        [{}, {"a": 1}, {"a": 1, "b": 2}, {"A": 1}],
    ),
    "bounds without a type": (
        {"anyOf": [{"type": "number"}, {"type": "object", "properties": {"a": {"type": "number"}}}], "minimum": 0},
        [0, 1, -1, 0.5, {"a": -1}, {}, "x"],
    ),
    "recursion next to merges": (
        {
            "$schema": DRAFT7,
            "definitions": {
                "base": NAMED,
                "node": {
                    "allOf": [
                        {"$ref": "#/definitions/base"},
                        {"properties": {"next": {"$ref": "#/definitions/node"}}},
                    ]
                },
            },
            "$ref": "#/definitions/node",
        },
        [{"name": "a"}, {"name": "a", "next": {"name": "b"}}, {"name": "a", "next": {}}, {}],
    ),
    "references that lead in a circle next to other keywords": (
        {
            "type": "object",
            "anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}],
            "$defs": {
                "a": {"type": "object", "anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]},
                "b": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
                "c": {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]},
            },
        },
        [{"y": "a"}, {"x": {"y": "a"}}, {"x": {"x": {}}}, {"x": 1}, {"y": 1}, {}],
    ),
    "references to true and false": (
        having({"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/f"}}, optional=["b"])
        | {"$defs": {"t": True, "f": False}, "not": {"required": ["c"]}},
        [{"a": 1}, {"a": 1, "b": 1}, {}, {"a": 1, "c": 2}],
    ),
    "keys in two orders, each leading back": (
        {
            "definitions": {
                "one": having({"a": {"enum": [1]}, "b": {"$ref": "#/definitions/any"}}, optional=["b"]),
                "two": having({"b": {"$ref": "#/definitions/any"}, "a": {"enum": [2]}}, optional=["b"]),
                "any": {"oneOf": [{"$ref": "#/definitions/one"}, {"$ref": "#/definitions/two"}]},
            },
            "$ref": "#/definitions/any",
        },
        [{"a": 1}, {"a": 2}, {"a": 1, "b": {"a": 2}}, {"a": 2, "b": {"a": 1}}, {"a": 1, "b": {}}],
    ),
    "items of two lists that both hold": (
        {
            "type": "object",
            "properties": {"list": {"type": "array", "items": NAMED}},
            "allOf": [{"properties": {"list": {"items": {"properties": {"age": {"type": "integer"}}}}}}],
        },
        [{"list": []}, {"list": [{"name": "a"}]}, {"list": [{"name": "a", "age": 1}]}, {"list": [{}]}, {"list": 1}],
    ),
    "an optional key that nothing satisfies": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "allOf": [{"properties": {"a": {"type": "null"}}}],
        },
        [{}, {"b": 1}, {"a": "x"}, {"a": None}],
    ),
    "a length that the format keeps by itself": (
        {"type": "string", "format": "uuid", "minLength": 1, "maxLength": 36},
        ["123e4567-e89b-12d3-a456-426614174000", "123e4567", ""],
    ),
    "forty arrays in each other": (
        nested(40, {"const": 1}),
        [[], json.loads("[" * 40 + "1" + "]" * 40), json.loads("[" * 40 + "2" + "]" * 40), 1],
    ),
    "the largest integer of 64 bits, rounded": (
        {"type": "integer", "minimum": 0, "maximum": 9223372036854776000},
        [0, 9223372036854775807, -1, 9223372036854776001],
    ),
    "an id that is not an identifier in its draft": (
        {
            "$schema": DRAFT7,
            "definitions": {"a": {"type": "integer"}},
            "type": "object",
            "properties": {"x": {"id": "http://example.com/x", "allOf": [{"$ref": "#/definitions/a"}]}},
        },
        [{}, {"x": 1}, {"x": "1"}],
    ),
}


def validator(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_what_a_validator_accepts(name: str, watch: bool) -> None:
    schema, values = CASES[name]
    built = build(schema, watch=watch)
    assert not built.report.relaxed
    text, judge = render(built.node).engine_text(), validator(schema)
    for value in values:
        is_valid = judge.is_valid(value)
        written = json.dumps(value, ensure_ascii=False)
        assert accepts(text, written) == is_valid, written


#: For each keyword: a schema, a text that it takes and one that it refuses for that keyword.
WORDS: dict[str, tuple[Any, str, str]] = {
    "type": ({"type": "integer"}, "1", '"a"'),
    "enum": ({"enum": ["a"]}, '"a"', '"b"'),
    "allOf": ({"type": "string", "allOf": [{"maxLength": 1}]}, '"a"', '"ab"'),
    "anyOf": ({"anyOf": [{"type": "null"}, {"enum": ["a"]}]}, '"a"', "1"),
    "minimum": ({"type": "integer", "minimum": 3}, "3", "2"),
    "maximum": ({"type": "integer", "maximum": 3}, "3", "4"),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 3}, "4", "3"),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 3}, "2", "3"),
    "multipleOf": ({"type": "integer", "multipleOf": 5}, "15", "14"),
    "minLength": ({"type": "string", "minLength": 2}, '"ab"', '"a"'),
    "maxLength": ({"type": "string", "maxLength": 1}, '"a"', '"ab"'),
    "pattern": ({"type": "string", "pattern": "^a"}, '"ab"', '"b"'),
    "properties": ({"type": "object", "properties": {"a": {"type": "null"}}}, '{"a": null}', '{"a": 1}'),
    "required": ({"type": "object", "required": ["a"]}, '{"a": 1}', "{}"),
    "additionalProperties": ({"type": "object", "additionalProperties": {"type": "null"}}, '{"a": null}', '{"a": 1}'),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False},
        '{"a": null}',
        '{"a": 1}',
    ),
    "minProperties": ({"type": "object", "minProperties": 1}, '{"a": 1}', "{}"),
    "maxProperties": ({"type": "object", "maxProperties": 1}, '{"a": 1}', '{"a": 1, "b": 1}'),
    "items": ({"type": "array", "items": {"type": "null"}}, "[null]", "[1]"),
    "minItems": ({"type": "array", "minItems": 1}, "[1]", "[]"),
    "maxItems": ({"type": "array", "maxItems": 1}, "[1]", "[1, 2]"),
}


@pytest.mark.parametrize("word", WORDS)
def test_the_masks_keep_to_a_keyword(word: str) -> None:
    schema, taken, refused = WORDS[word]
    text = render(build(schema, watch=True).node).engine_text()
    assert accepts(text, taken)
    assert not accepts(text, refused)


@pytest.mark.parametrize("listed", [{}, {"properties": {"a": True}}])
def test_a_required_key_that_a_pattern_forbids_is_an_error_of_the_schema(listed: Any) -> None:
    inner = {"type": "object", "required": ["a"], "patternProperties": {"^a": False}, **listed}
    with pytest.raises(SchemaError, match="no value satisfies it"):
        build({"type": "array", "items": inner, "minItems": 1}, watch=True)
