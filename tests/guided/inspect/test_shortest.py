"""The shortest output found is legal, ends, is valid, and bounds max_tokens."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from grammars.limits.deadline import time_limits, use_time_limits
from grammars.plan.wire import decode_plan, encode_plan
from grammars.values.constraints import JsonSchema, Lark, Regex
from guided.engine.engine import Engine
from guided.inspect.check import check_format
from guided.inspect.shortest import min_tokens, shortest, shortest_output
from guided.landing.options import budgeting
from guided.landing.row_landing import row_landing
from guided.state.entry import FRESH, Begin
from guided.validation.validate import judge
from special_tokens.errors import LimitExceeded, PlanError, RequestError
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


def test_arguments_that_must_not_repeat_do_not(engine: Engine) -> None:
    tags = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "string"}}
    parameters = {"type": "object", "properties": {"tags": tags}, "required": ["tags"]}
    tools = [{"type": "function", "function": {"name": "tag", "parameters": parameters}}]
    plan = plan_of(engine, tools=tools, tool_choice="required", thinking=False)
    tokens = shortest_output(plan, engine, entry="after")
    written = b"".join(engine.token_bytes(i) for i in tokens).decode()
    assert len(set(json.loads(written[written.index("[") : written.index("]") + 1]))) == 2
    assert walk(plan, engine, tokens, entry="after").is_whole
    with pytest.raises(RequestError, match="max_tokens: 1 tokens cannot hold"):
        row_landing(plan, engine, Begin("after"), 1, budgeting(True, "error"))


def test_reasoning_is_left_at_once(engine: Engine) -> None:
    plan = plan_of(engine, response_format=JsonSchema({"type": "integer"}), reasoning_effort="low")
    assert min_tokens(plan, engine) <= 12


def test_a_budget_that_cannot_hold_the_answer_is_an_error_that_says_so(engine: Engine) -> None:
    schema = {"type": "array", "minItems": 10, "items": {"type": "string", "minLength": 4}}
    plan = plan_of(engine, response_format=JsonSchema(schema))
    needed = min_tokens(plan, engine, entry="after")
    assert row_landing(plan, engine, Begin("after"), needed, budgeting(True, "error")).control is not None
    with pytest.raises(RequestError, match=f"tokens cannot hold.*{needed}"):
        row_landing(plan, engine, Begin("after"), needed - 1, budgeting(True, "error"))


def test_items_that_must_be_contained_and_differ_fit_their_budget(engine: Engine) -> None:
    schema = {"items": {"type": "string"}, "contains": {"enum": ["x", "y"]}, "minContains": 2, "uniqueItems": True}
    plan = plan_of(engine, response_format=JsonSchema({"type": "array", **schema}))
    tokens = engine.tokenize('["x", "y"]' + END)
    assert walk(plan, engine, tokens, entry="after").is_whole
    row_landing(plan, engine, Begin("after"), len(tokens), budgeting(True, "error"))  # raises nothing


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


def test_masks_of_another_vocabulary_are_an_error(tiny_guide: Any, plain_engine: Engine) -> None:
    with pytest.raises(PlanError, match="belongs to vocabulary"):
        shortest(tiny_guide.plan(response_format=UNKNOWN[-1]), plain_engine)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a|b)\\1$"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(x)\\1$"}}, "required": ["a"]},
        {"type": "array", "items": {"type": "array", "minItems": 1}, "uniqueItems": True, "minItems": 3},
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


#: Its shortest answer takes a search in several ways.
INTRICATE = closed(
    {
        "kind": {
            "type": "array",
            "minItems": 2,
            "items": {**PAIR, "minItems": 3, "items": {"minLength": 9, "type": "string"}},
        },
        "names": {"type": "array", "items": {"type": "string", "pattern": "^[a-f]{3}(-[0-9]{12})?$"}, "minItems": 3},
    }
)


def test_a_busy_machine_finds_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches were cut by time: a row had no end that fits into the number that was said before."""
    plan = plan_of(engine, response_format=JsonSchema(INTRICATE), thinking=False)
    found, clock = shortest_output(plan, engine), time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: 4 * clock())
    assert shortest_output(plan, engine) == found
    assert row_landing(plan, engine, FRESH, len(found)).control is not None


def test_where_no_end_without_repeats_is_found_none_is_said(engine: Engine) -> None:
    schema = {"type": "array", "items": {"enum": list(range(120))}, "uniqueItems": True, "minItems": 100}
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    with pytest.raises(LimitExceeded, match="no end without repeats"):
        min_tokens(plan, engine)
    assert (
        row_landing(plan, engine, FRESH, 1, budgeting(True, "error")).control is None
    )  # a request that may be possible is not refused


def test_a_search_ends_after_so_many_places(engine: Engine) -> None:
    inner = {"type": "array", "items": {"type": "number", "multipleOf": 11, "minimum": 100}}
    contained = {"type": "array", "contains": {"type": "number", "multipleOf": 3}}
    schema = {"type": "array", "items": inner, "contains": contained}
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    with pytest.raises(LimitExceeded, match="no end was found within"):
        min_tokens(plan, engine)
    assert row_landing(plan, engine, FRESH, 5, budgeting(True, "error")).control is None


def test_what_a_check_prints_is_valid(engine: Engine) -> None:
    both = {"oneOf": [{"type": "integer", "multipleOf": step} for step in (3, 5)]}
    for schema in (both, {"type": "array", "items": both, "minItems": 1}):
        text = check_format(JsonSchema(schema), engine).shortest
        assert text is None or all(verdict.is_valid for verdict in judge(schema, json.loads(text)))
    assert check_format(JsonSchema({"type": "integer"}), engine).shortest in [*"0123456789"]


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
