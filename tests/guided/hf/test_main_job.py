"""The main job end to end: request in, typed message out; on the embedded model, and all kinds on a random one."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal, TypedDict

import jsonschema
import pydantic
import pytest

import guided
from grammars.reasoning.levels import NATIVE_BUDGETS
from guided.hf.generate.inputs import checked_inputs
from tests.made_up.schemas import closed


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Flags(TypedDict):
    on: bool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Current weather in a city."""
    return ""


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@pytest.fixture(params=[12, pytest.param(64, marks=pytest.mark.slow)])
def minimal_budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less reasoning than usual in the default run: 64 tokens take minutes where processors are slow."""
    monkeypatch.setitem(NATIVE_BUDGETS, "minimal", request.param)


GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 120}


KINDS: list[tuple[Any, Any]] = [
    (Person, Person),
    (Point, Point),
    (Flags, dict),
    (Colour, Colour),
    (bool, bool),
    (list[Literal["a", "b"]], list),
    (closed({"n": {"type": "integer", "maximum": 9}}), dict),
    ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, 2]}}}, int),
    (guided.Choice(["yes", "no"]), str),
    (guided.Regex("[a-z]{3,9}"), str),
    (guided.Lark('start: "a" | "b" start\n'), str),
]


@pytest.mark.parametrize(("response_format", "kind"), KINDS)
def test_every_kind_of_response_format_gives_its_value(tiny_guide: Any, response_format: Any, kind: type) -> None:
    message = tiny_guide.chat("Alice is 31. Answer.", response_format=response_format, **GREEDY)
    assert message.finish_reason == "stop"
    assert isinstance(message.parsed, kind)
    assert not message.violations
    assert message.guidance.applied


def test_effort_tools_and_format_in_one_request(demo_guide: Any, minimal_budget: None) -> None:
    message = demo_guide.chat(
        "Will I need an umbrella in Rome?",
        response_format=Person,
        tools=[get_weather],
        reasoning_effort="minimal",
        parallel_tool_calls=False,
        **GREEDY,
    )
    assert message.reasoning
    assert message.usage.reasoning_tokens <= 64
    assert bool(message.tool_calls) != bool(message.parsed)
    for call in message.tool_calls:
        jsonschema.validate(call.parsed, {"required": ["city"], "properties": {"city": {"type": "string"}}})
        assert json.loads(call.arguments) == call.parsed


@pytest.mark.parametrize("effort", ["none", "minimal"])
def test_effort_acts_alone(tiny_guide: Any, effort: str) -> None:
    message = tiny_guide.chat("Is 7 prime?", reasoning_effort=effort, temperature=0, max_tokens=90)
    assert bool(message.reasoning) == (effort != "none")
    assert message.usage.reasoning_tokens <= 64


@pytest.mark.parametrize(
    ("tool_choice", "names", "finish"),
    [
        ("required", {"get_weather", "add"}, "tool_calls"),
        ("add", {"add"}, "stop"),
        ("none", set(), "length"),
    ],
)
def test_tool_choice_is_obeyed(tiny_guide: Any, tool_choice: str, names: set[str], finish: str) -> None:
    message = tiny_guide.chat(
        "Add 2 and 3.", tools=[get_weather, add], tool_choice=tool_choice, parallel_tool_calls=False, **GREEDY
    )
    assert {call.name for call in message.tool_calls} <= names
    assert bool(message.tool_calls) == bool(names)
    assert message.finish_reason == finish
    if tool_choice == "none":
        assert "<tool_call>" not in (message.content or "")


@pytest.mark.slow
def test_the_next_turn_takes_the_message(demo_guide: Any) -> None:
    chat: list[dict[str, Any]] = [{"role": "user", "content": "Add 2 and 3."}]
    message = demo_guide.chat(chat, tools=[add], tool_choice="required", parallel_tool_calls=False, **GREEDY)
    chat += [message.to_chat(), {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "5"}]
    answer = demo_guide.chat(chat, temperature=0, max_tokens=12)
    assert answer.content


def test_the_model_is_told_of_tools_and_format_unless_the_caller_says_not_to(demo_guide: Any) -> None:
    plan = demo_guide.plan(response_format=Person, tools=[get_weather], reasoning_effort="low")
    told = demo_guide.tokenizer.decode(checked_inputs(demo_guide.context, ["Hi"], [plan], describe=True).prompt_ids[0])
    for word in ("get_weather", '"maxLength": 20', "<think>"):
        assert word in told
    silent = demo_guide.tokenizer.decode(checked_inputs(demo_guide.context, ["Hi"], [plan]).prompt_ids[0])
    assert "get_weather" not in silent
