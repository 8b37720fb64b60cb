"""The requests that vLLM's own structured output answers wrongly (docs/serving.md has the table)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.guided.vllm.live.cases import IF_THEN, LOOK, PERSON, UNIQUE
from tests.guided.vllm.live.conftest import LiveVllm

USER = [{"role": "user", "content": "Ann Miller is 31 and looks at the sea."}]


def schema(value: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": value}}}


def answer(live: LiveVllm, **body: Any) -> dict[str, Any]:
    response = live.post({"messages": USER, "temperature": 0, **body})
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    return {**choice, "guided": response.json().get("guided", {})}


def refusal(live: LiveVllm, **body: Any) -> dict[str, Any]:
    response = live.post({"messages": USER, "temperature": 0, **body})
    assert response.status_code == 400, response.text
    return dict(response.json()["error"])


def test_a_schema_within_a_small_budget(live: LiveVllm) -> None:
    choice = answer(live, max_tokens=12, **schema(PERSON))
    assert choice["finish_reason"] == "stop"
    assert isinstance(choice["landed"], int)
    jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)


def test_guided_json_is_obeyed(live: LiveVllm) -> None:
    jsonschema.validate(json.loads(answer(live, guided_json=PERSON)["message"]["content"]), PERSON)


def test_a_misspelt_key_is_named(live: LiveVllm) -> None:
    error = refusal(live, temprature=0.5)
    assert error["param"] == "temprature"
    assert "temperature" in error["message"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
def test_a_forced_call_that_is_not_strict_is_valid(live: LiveVllm, choice: Any) -> None:
    (call,) = answer(live, tools=[LOOK], tool_choice=choice)["message"]["tool_calls"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), LOOK["function"]["parameters"])


def test_a_call_that_is_cut_is_no_content(live: LiveVllm) -> None:
    strict = {"type": "function", "function": {**LOOK["function"], "strict": True}}
    choice = answer(live, tools=[strict], tool_choice="required", max_tokens=12)
    assert choice["finish_reason"] == "length"
    assert not choice["message"]["content"]
    assert "tool_calls" not in choice["message"]
    assert choice["guided"]["notes"]


def test_beams_are_refused(live: LiveVllm) -> None:
    choice = {"structured_outputs": {"choice": ["yes", "no"]}}
    assert refusal(live, use_beam_search=True, n=2, **choice)["param"] == "use_beam_search"


@pytest.mark.parametrize("kind", ["count", "word"])
def test_if_then_else_is_enforced(live: LiveVllm, kind: str) -> None:
    wanted = {**IF_THEN, "properties": {**IF_THEN["properties"], "kind": {"const": kind}}}
    text = [{"role": "user", "content": f"Write kind {kind} and n = -3."}]
    jsonschema.validate(json.loads(answer(live, messages=text, **schema(wanted))["message"]["content"]), wanted)


def test_unique_items_are_enforced(live: LiveVllm) -> None:
    jsonschema.validate(json.loads(answer(live, **schema(UNIQUE))["message"]["content"]), UNIQUE)


def test_effort_with_a_schema_reasons_first(live: LiveVllm) -> None:
    message = answer(live, reasoning_effort="minimal", max_tokens=200, **schema(PERSON))["message"]
    assert message["reasoning_content"].strip()
    jsonschema.validate(json.loads(message["content"]), PERSON)


def test_a_bad_type_is_named_with_its_place(live: LiveVllm) -> None:
    error = refusal(live, **schema({"type": "object", "properties": {"a": {"type": "strnig"}}}))
    assert error["param"].endswith("/properties/a")
