"""Any value anywhere in a request body is planned or refused with a typed error.

Real clients' bodies and one of each of our own forms, with each of their values and each of their keys replaced in turn
by a value of every kind.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.compose.compose import Parts
from guided.engine.engine import Engine
from guided.inspect.check import check_request
from special_tokens.errors import GuidedError, RequestError
from tests.grammars.requests.test_client_bodies import BODIES
from tests.grammars.requests.test_read import DEEP
from tests.judges.plans import FORMAT

#: One of every kind of JSON, and what JSON writes but few programs expect.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 5, -1, 10**400, 10**6_000, 1.5, 1e308, float("nan"), float("inf"), "", "a", "object",
    "\ud800", "x" * 300, [], [[]], [None], ["x"], [5], {}, {"a": 1}, {"type": 5}, {"type": ["x"]}, {"": {}}, [{}], DEEP,
)  # fmt: skip

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OWN: dict[str, Any] = {
    "formats": {"response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "medium"}},
    "choice": {"structured_outputs": {"choice": ["a", "b"], "backend": "auto", "disable_fallback": True}},
    "regex": {"guided_regex": "a{2}"},
    "grammar": {"grammar": {"type": "lark", "value": 'start: "a"'}},
    "llguidance": {"grammar": {"grammars": [{"name": "n", "lark_grammar": 'start: "a"'}, {"json_schema": SCHEMA}]}},
    "legacy": {"constraint": "a+", "constraint_type": "regex"},
    "triggers": {"structural_tag": {
        "structures": [{"begin": "<a>", "schema": SCHEMA, "end": "</a>"}], "triggers": ["<a"]}},
    "tag": {"structural_tag": {"tag": "a", "schema": SCHEMA, "end_tag": "</a>"}},
    "tree": {"structural_tag": {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "triggered_tags", "triggers": ["<a"], "at_least_one": True, "stop_after_first": False,
         "excludes": ["b"],
         "tags": [{"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "a"}, "end": ["</a>"]}]},
        {"type": "or", "elements": [
            {"type": "repeat", "min": 1, "max": 2, "content": {"type": "const_string", "value": "x"}},
            {"type": "grammar", "grammar": 'root ::= "a"'}]},
        {"type": "tags_with_separator", "separator": ",", "at_least_one": False, "tags": [
            {"begin": "<b>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</b>"}]},
        {"type": "dispatch", "loop": False, "rules": [
            ["<c>", {"type": "any_text", "max_chars": 5, "excludes": ["z"]}]]},
    ]}}},
    "tools": {
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}},
            {"type": "function", "name": "g", "parameters": {"type": ["object", "null"], "properties": {"b": True}}},
            {"name": "m", "inputSchema": SCHEMA},
            {"type": "custom", "custom": {"name": "c", "format": {
                "type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}}},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}},
        "parallel_tool_calls": False,
    },
    "functions": {"functions": [{"name": "f", "parameters": SCHEMA}], "function_call": {"name": "f"}},
    "reasoning": {
        "reasoning_effort": "low", "reasoning": {"effort": "low", "summary": "auto"}, "reasoning_preset": "structured",
        "thinking": {"type": "enabled", "budget_tokens": None}, "chat_template_kwargs": {"enable_thinking": True},
    },
    "numbers": {
        "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.5, "repetition_penalty": 1.5, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "seed": 5, "n": 2, "logprobs": True, "top_logprobs": 2, "logit_bias": {"5": 1.5},
        "max_tokens": 5, "max_completion_tokens": 5, "stop": ["a"], "stop_token_ids": [5], "min_tokens": 0,
        "include_stop_str_in_output": True, "schema_policy": "strict", "user": "u", "length_penalty": 1.0,
        "extra_body": {"guided_choice": ["a"], "bad_words": []},
    },
}  # fmt: skip
CASES = {**{f"{e['client'].split()[0]} {i}": e["body"] for i, e in enumerate(BODIES)}, **OWN}


def changed(value: Any, replacements: Iterator[Any], number: int) -> Iterator[Any]:
    """The value with one place in it replaced, each place by the next ``number`` of the shared replacements."""
    yield from islice(replacements, number)
    if isinstance(value, dict):
        for key in value:
            for inner in changed(value[key], replacements, number):
                yield {**value, key: inner}
            yield {k: v for k, v in value.items() if k != key}
            yield {(f"{key}x" if k == key else k): v for k, v in value.items()}
    elif isinstance(value, list):
        for i, item in enumerate(value):
            for inner in changed(item, replacements, number):
                yield [*value[:i], inner, *value[i + 1 :]]


def asked(body: Any, engine: Engine) -> None:
    """The body is planned or refused by one of our errors, with something to say."""
    try:
        check_request(body, tokens=engine.tokens, format=FORMAT)
    except GuidedError as error:
        assert str(error)


@pytest.mark.parametrize("number", [1, pytest.param(len(VALUES), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_any_kind_of_value_at_any_place_is_planned_or_refused(engine: Engine, name: str, number: int):
    body = {key: value for key, value in CASES[name].items() if key != "messages"}
    replacements = cycle(VALUES)
    for key in body:
        for value in changed(body[key], replacements, number):
            asked({**body, key: value}, engine)


@given(st.data())
def test_two_changes_at_once_are_planned_or_refused(engine: Engine, data: st.DataObject):
    body = copy.deepcopy(data.draw(st.sampled_from(list(CASES.values()))))
    for _ in range(2):
        holder, keys = body, list(body)
        while keys:
            key = data.draw(st.sampled_from(keys))
            inner = holder[key]
            keys = [*inner] if isinstance(inner, dict) else [*range(len(inner))] if isinstance(inner, list) else []
            if not keys or inner is DEEP or data.draw(st.integers(0, 3)) == 0:  # which all tests share
                value = data.draw(st.sampled_from(VALUES))
                holder[key] = value if value is DEEP else copy.deepcopy(value)
                break
            holder = inner
    asked(body, engine)


def test_the_same_effort_by_two_names_is_no_conflict(engine: Engine):
    body = {"reasoning_effort": "Medium", "reasoning": {"effort": "normal"}}
    assert check_request(body, tokens=engine.tokens, format=FORMAT).plan.reasoning.effort == "medium"


@pytest.mark.parametrize("stop", [["x"], "x", None, 5])
def test_stops_of_parts_are_a_value_of_their_own(stop: Any):
    with pytest.raises(RequestError, match="stop: .* is not possible; expected guided.Stops"):
        Parts(stop=stop)


def test_keys_that_clients_send_next_to_a_tool_are_taken(engine: Engine):
    tool = {"name": "f", "parameters": SCHEMA, "cache_control": {"type": "ephemeral"}, "returns": {"type": "string"}}
    mcp = {"name": "m", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "annotations": {}, "_meta": {}, "x-own": 1}
    plan = check_request({"tools": [tool, mcp]}, tokens=engine.tokens, format=FORMAT).plan
    assert [tool.parameters for tool in plan.tools] == [SCHEMA, SCHEMA]
