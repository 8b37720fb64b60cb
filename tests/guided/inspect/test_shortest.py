"""The shortest output found is legal, ends, is valid, and bounds max_tokens."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from grammars.limits.deadline import time_limits, use_time_limits
from grammars.plan.wire import decode_plan, encode_plan
from grammars.values.constraints import JsonSchema, Lark, Regex
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens, shortest, shortest_output
from guided.landing.options import budgeting
from guided.landing.row_landing import row_landing
from guided.state.entry import FRESH
from guided.validation.validate import judge
from special_tokens.errors import LimitExceeded
from tests.judges.plans import END, plan_of, walk
from tests.made_up.schemas import closed

TREE = {
    "$ref": "#/$defs/n",
    "$defs": {"n": closed({"l": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}})},
}

#: A schema and the shortest JSON texts that satisfy it.
SHORTEST: list[tuple[Any, str]] = [
    ({"type": "integer"}, "0"),
    ({"type": "string"}, '""'),
    ({"type": "array"}, "[]"),
    ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, "[0, 0]"),
    ({"type": "array", "minItems": 2, "items": {"type": "integer"}, "uniqueItems": True}, "[0, 1]"),
    ({"type": "string", "minLength": 3}, '"   "'),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, '{"a": ""}'),
    ({"type": "array", "contains": {"type": "string"}, "uniqueItems": True, "minContains": 3}, '["", "a", "b"]'),
    (TREE, '{"l": null}'),
    ({"anyOf": [{"type": "object"}, {"type": "integer", "minimum": 7}]}, "7"),
    ({"type": "integer", "enum": [1, 20], "exclusiveMinimum": 5}, "20"),
    ({"anyOf": [{"type": "number", "enum": [1.5]}, {"type": "string", "minLength": 10}]}, "1.5"),
    ({"type": "string", "pattern": "^[0-9]{3}-x+$"}, '"000-x"'),
    ({"type": "object", "required": ["b", "a"], "properties": {"a": {"enum": ["xx", "y"]}}}, '{"a": "y", "b": 0}'),
    ({"type": "number", "minimum": 12}, "12"),
    ({"type": "string", "format": "date"}, '"1000-01-01"'),
    ({"not": {"type": ["string", "null", "number", "boolean"]}}, "[]"),
    ({"type": "object", "minProperties": 2}, '{"": 0, "a": 0}'),
    ({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}, '{"": 1, "a": 2}'),
    ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "string"}}, '["", "a", "b"]'),
    ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "integer"}}, "[2, 0, 1]"),
    ({"type": "array", "minItems": 4, "items": {"type": "string"}}, '["", "", "", ""]'),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
      "patternProperties": {"^a": {"type": "string", "minLength": 5}}}, '{"a": "     "}'),
    # what the engine compiles as it is
    ({"allOf": [{"properties": {"b": {}}, "required": ["b"]}, {"required": ["a"]}]}, '{"b": 0, "a": 0}'),
    ({"const": {"k": "v", "l": [1, 2]}}, '{"k": "v", "l": [1, 2]}'),
    ({"enum": [[False], {"k": None}]}, "[false]"),
    ({"anyOf": [{"type": "integer"}, {"minimum": 2}]}, "0"),
    ({"type": "object", "properties": {"a": {"enum": [[1, {"b": 2}]]}}, "required": ["a"]}, '{"a": [1, {"b": 2}]}'),
]  # fmt: skip


#: Formats that tell no shortest text when they are read.
UNKNOWN: list[Any] = [
    JsonSchema({"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "integer"}}),
    JsonSchema({"type": "array", "uniqueItems": True, "minItems": 2, "items": {"enum": ["a", "b", "c"]}}),
    JsonSchema({"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}),
    Lark('start: "[" /[a-z]{2,}/ ("," NUMBER)? "]"\nNUMBER: /[0-9]+/'),
]


@pytest.mark.parametrize("response_format", UNKNOWN)
@pytest.mark.parametrize("effort", [None, "low"])
def test_a_guide_finds_in_the_masks_what_the_format_does_not_show(
    tiny_guide: Any, response_format: Any, effort: str | None
) -> None:
    """For a copy and in another process as well."""
    engine = tiny_guide.engine
    plan = tiny_guide.plan(response_format=response_format, reasoning_effort=effort, stop=["a", "1"])
    found = min_tokens(plan, engine)
    text = tiny_guide.check(plan).shortest
    assert text
    for each in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan), decode_plan(encode_plan(plan))):
        assert each == plan
        assert tiny_guide.check(each).shortest
        assert min_tokens(each, engine) <= found
    alone = tiny_guide.plan(response_format=response_format)
    assert walk(alone, engine, text + END, entry="after").is_whole
    if isinstance(response_format, JsonSchema):
        assert all(verdict.is_valid for verdict in judge(response_format.schema, json.loads(text)))


#: A number that two schemas take is taken by neither.
BOTH = {"oneOf": [{"type": "integer", "multipleOf": step} for step in (3, 5)]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a|b)\\1$"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(x)\\1$"}}, "required": ["a"]},
        {"type": "array", "items": {"type": "array", "minItems": 1}, "uniqueItems": True, "minItems": 3},
        BOTH,
        {"type": "array", "items": BOTH, "minItems": 1},
    ],
)
def test_what_is_held_is_valid_or_nothing(tiny_guide: Any, schema: Any) -> None:
    """Masks take more than the schema where a row says so."""
    plan = tiny_guide.plan(response_format=JsonSchema(schema))
    assert plan.schema_report.relaxed
    held = tiny_guide.check(plan).shortest
    assert held is None or all(verdict.is_valid for verdict in judge(schema, json.loads(held)))
    assert tiny_guide.check(plan).min_tokens > 0


def test_a_search_of_many_members_takes_little_more_for_each(engine: Engine) -> None:
    """Thousands of required keys: what the watchers remember must not make each token dearer than the one before."""
    calls = []
    for size in (10, 60, 120, 240):  # the first one makes the tables of the vocabulary
        schema = {"type": "object", "required": [f"k{i}" for i in range(size)]}
        plan = plan_of(engine, response_format=JsonSchema(schema))
        seen: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, arg, seen=seen: seen.update((event,)))
        try:
            with use_time_limits(replace(time_limits(), landing_cpu_s=60.0)):  # counting calls takes long
                tokens = shortest_output(plan, engine, entry="after")
        finally:
            sys.setprofile(None)
        calls.append(seen["call"] + seen["c_call"])
        assert len(json.loads(b"".join(map(engine.token_bytes, tokens[:-1])))) == size
    assert calls[3] - calls[2] < 2.5 * (calls[2] - calls[1])  # twice; four times where each token asks all before


#: An array or object in which all differ, several times: each begins with the first again.
PAIR = {"type": "array", "minItems": 2, "uniqueItems": True}
TWO_OF_THREE = {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^[ab]$|^ccccc$"}}
THREE = {**PAIR, "minItems": 3, "items": {"type": "string", "pattern": "^[ab]$|^ccccc$"}}

#: Schemas, and the most tokens of their shortest answers.
DIFFERENT: list[tuple[Any, int]] = [
    ({"type": "array", "minItems": 3, "items": {**PAIR, "items": {"type": "integer"}}}, 25),
    ({"type": "array", "minItems": 3, "items": TWO_OF_THREE}, 40),
    ({"type": "array", "minItems": 30, "items": THREE}, 451),
    ({"type": "object", "additionalProperties": {"type": "string", "pattern": "a"}, "minProperties": 2}, 9),
    ({"type": "array", "items": {"type": "string", "pattern": "foo$"}, "minItems": 2, "uniqueItems": True}, 13),
    (
        {
            "type": "object",
            "properties": {"a": {"const": "x"}},
            "additionalProperties": {"type": "string", "pattern": "a|b$"},
            "minProperties": 2,
        },
        9,
    ),
    ({"type": "array", "items": {"enum": list(range(120))}, "uniqueItems": True, "minItems": 20}, 89),
    ({"type": "array", "items": {"enum": [True, 1, "a", None]}, "uniqueItems": True, "minItems": 4}, 13),
    ({"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "minProperties": 2}, 12),
    ({"type": "array", "items": {"type": "object", "minProperties": 2}, "uniqueItems": True, "minItems": 2}, 27),
    (closed({"a": {"type": "string", "minLength": 100},
             "b": {"type": "array", "minItems": 50, "items": {"type": "integer"}}}), 300),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "most"), [*SHORTEST, *DIFFERENT])
def test_nothing_shorter_is_found_than_there_is(engine: Engine, schema: Any, most: int | str) -> None:
    plan = plan_of(engine, response_format=JsonSchema(schema))
    tokens = shortest_output(plan, engine, entry="after")
    assert walk(plan, engine, tokens, entry="after").is_whole
    written = b"".join(engine.token_bytes(i) for i in tokens if i != engine.tokens.id_of(END)).decode()
    assert all(verdict.is_valid for verdict in judge(schema, json.loads(written))), written
    size = len(engine.tokenize(most)) + 1 if isinstance(most, str) else most
    assert min_tokens(plan, engine, entry="after") == len(tokens) <= size
    assert shortest(plan, engine) == written


#: Schemas of whose answers no search finds one, and what is said.
UNFOUND = [
    ({"type": "array", "items": {"enum": list(range(120))}, "uniqueItems": True, "minItems": 100},
     "no end without repeats"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "number", "multipleOf": 11, "minimum": 100}},
      "contains": {"type": "array", "contains": {"type": "number", "multipleOf": 3}}}, "no end was found within"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "why"), UNFOUND)
def test_where_no_end_is_found_it_is_said_and_no_request_refused(engine: Engine, schema: Any, why: str) -> None:
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    with pytest.raises(LimitExceeded, match=why):
        min_tokens(plan, engine)
    assert row_landing(plan, engine, FRESH, 1, budgeting(True, "error")).control is None


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        (r"^(?=.*[A-Z])(?=.*[0-9]).{8,}$", 8),
        (r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$", 8),
        (r"(?=.*a)\w{3}", 3),
    ],
)
def test_the_text_of_a_regex_with_look_ahead_is_known(engine: Engine, pattern: str, size: int) -> None:
    plan = plan_of(engine, response_format=Regex(pattern), thinking=False)
    text = shortest(plan, engine)
    assert re.fullmatch(pattern, text)
    assert len(text) == size
    assert min_tokens(plan, engine) <= size + 6
