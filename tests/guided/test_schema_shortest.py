"""The shortest output found: it is legal, ends, is valid, and is what max_tokens is held against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.constraints import JsonSchema
from guided.compile import Engine
from guided.shortest import check_max_tokens, min_tokens, shortest_output
from guided.validate import judge
from special_tokens.errors import RequestError
from tests.plan_laws import END, plan_of, walk

TREE = {
    "$ref": "#/$defs/n",
    "$defs": {
        "n": {
            "type": "object",
            "properties": {"l": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
            "required": ["l"],
            "additionalProperties": False,
        }
    },
}

#: A schema and the shortest JSON texts that satisfy it.
SHORTEST: list[tuple[Any, str]] = [
    ({"type": "integer"}, "0"),
    ({"type": "string"}, '""'),
    ({"type": "object"}, "{}"),
    ({"type": "array"}, "[]"),
    ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, "[0, 0]"),
    ({"type": "array", "minItems": 2, "items": {"type": "integer"}, "uniqueItems": True}, "[0, 1]"),
    ({"type": "string", "minLength": 3}, '"   "'),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, '{"a": ""}'),
    (TREE, '{"l": null}'),
    ({"anyOf": [{"type": "object"}, {"type": "integer", "minimum": 7}]}, "7"),
]


@pytest.mark.parametrize(("schema", "text"), SHORTEST)
def test_nothing_shorter_is_found_than_there_is(engine: Engine, schema: Any, text: str) -> None:
    plan = plan_of(engine, response_format=JsonSchema(schema))
    tokens = shortest_output(plan, engine, entry="after")
    assert walk(plan, engine, tokens, entry="after").is_whole
    written = b"".join(engine.token_bytes(i) for i in tokens if i != engine.tokens.id_of(END)).decode()
    assert all(verdict.is_valid for verdict in judge(schema, json.loads(written))), written
    assert min_tokens(plan, engine, entry="after") == len(tokens) <= len(engine.tokenize(text)) + 1


def test_reasoning_is_left_at_once(engine: Engine) -> None:
    plan = plan_of(engine, response_format=JsonSchema({"type": "integer"}), reasoning_effort="low")
    assert min_tokens(plan, engine) <= 12


def test_a_budget_that_cannot_hold_the_answer_is_an_error_that_says_so(engine: Engine) -> None:
    schema = {"type": "array", "minItems": 10, "items": {"type": "string", "minLength": 4}}
    plan = plan_of(engine, response_format=JsonSchema(schema))
    needed = min_tokens(plan, engine, entry="after")
    check_max_tokens(plan, engine, needed, entry="after")
    with pytest.raises(RequestError, match=f"max_tokens too small.*{needed}"):
        check_max_tokens(plan, engine, needed - 1, entry="after")
