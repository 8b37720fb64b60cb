"""The fast path writes what our own grammars write, and what a validator accepts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import llguidance
import pytest

from grammars.json_schema.build import build
from grammars.json_schema.passthrough.build import _READERS, pass_through
from grammars.json_schema.passthrough.copy import ENGINE_KEYWORDS, SchemaCopy
from grammars.tree.render import render
from grammars.values.spelling import DEFAULT_SPELLING
from guided.engine.engine import compile_grammar
from special_tokens.errors import GrammarError, SchemaError

BYTES = llguidance.LLTokenizer("byte")
DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def nested(depth: int, schema: Any) -> Any:
    """Arrays of arrays, ``schema`` for what is in the innermost."""
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


#: A schema that takes the fast path, and values in the order of its keys.
TAKEN: dict[str, tuple[Any, list[Any]]] = {
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
                {"type": "object", "properties": {"type": {"enum": ["A"]}}, "required": ["type"]},
                {"type": "object", "properties": {"type": {"enum": ["D"]}}, "required": ["type"]},
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
    "nullable": (
        {"type": "object", "properties": {"a": {"type": "string", "nullable": True, "enum": ["x"]}}},
        [{"a": "x"}, {"a": None}, {"a": "y"}, {}],
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
    "keys in two orders, each leading back": (
        {
            "definitions": {
                "one": {
                    "type": "object",
                    "properties": {"a": {"enum": [1]}, "b": {"$ref": "#/definitions/any"}},
                    "required": ["a"],
                },
                "two": {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/definitions/any"}, "a": {"enum": [2]}},
                    "required": ["a"],
                },
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
    "an id that is no identifier in its draft": (
        {
            "$schema": DRAFT7,
            "definitions": {"a": {"type": "integer"}},
            "type": "object",
            "properties": {"x": {"id": "http://example.com/x", "allOf": [{"$ref": "#/definitions/a"}]}},
        },
        [{}, {"x": 1}, {"x": "1"}],
    ),
}

#: What the engine's own compiler would not take at its word.
LEFT: dict[str, Any] = {
    "branches that overlap": {"oneOf": [NAMED, {"type": "object", "required": ["age"]}]},
    "an enum that null joins": {"oneOf": [{"type": "string", "nullable": True}, {"type": "null"}]},
    "1 and 1.0": {"oneOf": [{"enum": [1]}, {"enum": [1.0]}]},
    "a bound whose beginnings are refused": {"type": "number", "maximum": 99.99},
    "integers beyond 64 bits": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
    "one below the largest integer": {"type": "integer", "exclusiveMaximum": 2**63 - 1},
    "a constant that misses a key": {"enum": [{"a": 1}], "required": ["b"]},
    "a merge that leads back to itself": {"properties": {"a": {"type": "null"}}, "allOf": [{"$ref": "#"}]},
    "types that exclude each other": {"type": "object", "allOf": [{"enum": ["a"]}]},
    "a required key that nothing satisfies": {**NAMED, "allOf": [{"properties": {"name": {"type": "null"}}}]},
    "two keys out of a finite pattern": {
        "type": "object",
        "minProperties": 2,
        "patternProperties": {"^[ab]$": {}},
        "additionalProperties": False,
    },
    "keys that readings of a pattern differ on": {
        "type": "object",
        "patternProperties": {"^.*$": {"type": "string"}},
        "additionalProperties": {"type": "string"},
    },
    "a pattern for no key but listed ones": {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
        "patternProperties": {"^(a|b)$": {"type": "null"}},
        "additionalProperties": False,
    },
    "more optional keys than the engine's row has items for": {"properties": {f"k{i}": {} for i in range(451)}},
    "a nullable part of what all must satisfy": {"allOf": [{"type": "array", "nullable": True}, {"type": "boolean"}]},
    "draft 4 knows no const": {"$schema": DRAFT4, "const": 1},
    "a format of the wrong kind": {"type": "string", "pattern": "^a", "format": ["uri"]},
}


def accepts(grammar: str, text: str) -> bool:
    matcher = compile_grammar(BYTES, grammar).deep_copy()
    for byte in text.encode():
        mask = matcher.compute_bitmask()
        assert not matcher.is_error(), matcher.get_error()
        if not (mask[byte >> 3] >> (byte & 7)) & 1:
            return False
        assert matcher.consume_token(byte)
    return bool(matcher.is_accepting())


def validator(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_is_written_as_our_own_grammars_write_it(name: str) -> None:
    schema, values = TAKEN[name]
    assert pass_through(schema, DEFAULT_SPELLING) is not None
    fast, slow = (build(schema, watch=watch) for watch in (True, False))
    assert not fast.report.relaxed
    texts = [render(built.node).engine_text() for built in (fast, slow)]
    judge = validator(schema)
    for value in values:
        is_valid = judge.is_valid(value) or (name == "nullable" and value == {"a": None})
        written = json.dumps(value, ensure_ascii=False)
        assert [accepts(text, written) for text in texts] == [is_valid, is_valid], written


#: For each word that the engine is given: a schema, a text that it takes and one that it refuses for that word.
WORDS: dict[str, tuple[Any, str, str]] = {
    "type": ({"type": "integer"}, "1", '"a"'),
    "enum": ({"enum": ["a"]}, '"a"', '"b"'),
    "allOf": ({"type": "string", "allOf": [{"maxLength": 1}]}, '"a"', '"ab"'),
    "anyOf": ({"anyOf": [{"type": "null"}, {"enum": ["a"]}]}, '"a"', "1"),
    "minimum": ({"type": "integer", "minimum": 3}, "3", "2"),
    "maximum": ({"type": "integer", "maximum": 3}, "3", "4"),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 3}, "4", "3"),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 3}, "2", "3"),
    "multipleOf": ({"type": "integer", "multipleOf": 7}, "14", "15"),
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


def test_every_word_that_the_engine_is_given_is_tried() -> None:
    assert set(WORDS) == ENGINE_KEYWORDS


@pytest.mark.parametrize("word", WORDS)
def test_the_engine_keeps_to_a_word(word: str) -> None:
    schema, taken, refused = WORDS[word]
    found = pass_through(schema, DEFAULT_SPELLING)
    assert found is not None
    assert word in found.node.schema
    text = render(found.node).engine_text()
    assert accepts(text, taken)
    assert not accepts(text, refused)


def test_a_word_that_the_engine_does_not_know_is_never_given_to_it() -> None:
    def misspelt(copy: SchemaCopy, value: Any, schema: Any, out: dict[str, Any]) -> None:
        out["minimums"] = value

    copy = SchemaCopy({"type": "object", "properties": {"a": {"minimum": 1}}}, {**_READERS, "minimum": misspelt})
    with pytest.raises(GrammarError, match="'minimums'"):
        copy.result(DEFAULT_SPELLING)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_in_doubt_is_left_to_our_own_compiler(name: str) -> None:
    assert pass_through(LEFT[name], DEFAULT_SPELLING) is None


@pytest.mark.parametrize("listed", [{}, {"properties": {"a": True}}])
def test_a_required_key_that_a_pattern_forbids_is_an_error_of_the_schema(listed: Any) -> None:
    inner = {"type": "object", "required": ["a"], "patternProperties": {"^a": False}, **listed}
    assert pass_through(inner, DEFAULT_SPELLING) is None
    with pytest.raises(SchemaError, match="unsatisfiable schema"):
        build({"type": "array", "items": inner, "minItems": 1}, watch=True)


@pytest.mark.parametrize("wrong", [True, None, 1, [1], [["x"]]])
def test_required_of_the_wrong_kind_next_to_patterns_is_said_where_it_is_read(wrong: Any) -> None:
    with pytest.raises(SchemaError, match="required"):
        build({"type": "object", "patternProperties": {"^a": False}, "required": wrong}, watch=True)


def test_keys_that_readers_differ_on_satisfy_the_pattern_next_to_free_ones() -> None:
    """Our own grammars leave them out; where others may hold anything the engine takes them for keys of the pattern."""
    schema = {"type": "object", "patternProperties": {"^a(\\..*)?$": {"type": "integer"}}}
    assert pass_through(schema, DEFAULT_SPELLING) is not None
    text = render(build(schema, watch=True).node).engine_text()
    for value, expected in (({"a.\r": 1}, True), ({"a.\r": "x"}, False), ({"a.x": "x"}, False), ({"b\r": "x"}, True)):
        assert accepts(text, json.dumps(value, ensure_ascii=False)) is expected, value
    for others in ({"type": "null"}, {}, False):  # {} is no schema that is known to hold anything
        closed = {**schema, "additionalProperties": others}
        assert (pass_through(closed, DEFAULT_SPELLING) is None) is (others is not False)
    for pattern in ("^\\w+(?!a)$", "(?i)^i$"):  # there is more to be said of these
        assert pass_through({"type": "object", "patternProperties": {pattern: {}}}, DEFAULT_SPELLING) is None
