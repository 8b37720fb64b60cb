"""Tools in every form that callers pass, and the effect of `tool_choice`."""

from __future__ import annotations

import functools
import json
import random
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from grammars.plan.plan import Plan
from grammars.tools.normalise import MAX_TOOLS, normal_tools
from grammars.values.tool import Tool
from guided.engine.engine import Engine
from guided.rows.answer import read_answer
from guided.state.entry import Begin
from special_tokens.errors import GrammarError, ToolError
from tests.cases import costly
from tests.judges.plans import END, FORMAT, accepts, plan_of, write_to_the_end
from tests.made_up.schemas import having

PARAMETERS = having(
    {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}, "days": {"type": "integer", "minimum": 1}},
    optional=["unit", "days"],
)


class Weather(BaseModel):
    """The weather."""

    city: str
    unit: Literal["C", "F"] = "C"
    days: Annotated[int, Field(ge=1)] = 1


def weather(city: str, unit: Literal["C", "F"] = "C", days: Annotated[int, Field(ge=1, description="How many")] = 1):
    """The weather.

    Args:
        city: Where.
        unit: Celsius or
            Fahrenheit.
    """


class Sphinx:
    @staticmethod
    def weather(city: str, unit: Literal["C", "F"] = "C", days: Annotated[int, Field(ge=1)] = 1):
        """The weather.

        :param city: Where.
        """


class Station:
    def weather(self, city: str, unit: Literal["C", "F"] = "C", days: Annotated[int, Field(ge=1)] = 1):
        """The weather."""


@dataclass
class McpTool:
    """In the shape of the MCP client's records."""

    name: str
    description: str | None
    inputSchema: dict[str, Any]  # noqa: N815


FUNCTION = {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}
SOURCES: dict[str, Any] = {
    "OpenAI": {"type": "function", "function": FUNCTION},
    "OpenAI, strict": {"type": "function", "function": FUNCTION | {"strict": True}},
    "OpenAI, Responses": {"type": "function", **FUNCTION},
    "bare": FUNCTION,
    "MCP, as JSON": {"name": "weather", "description": "The weather.", "inputSchema": PARAMETERS},
    "MCP, as a record": McpTool("weather", "The weather.", PARAMETERS),
    "Anthropic": {"name": "weather", "description": "The weather.", "input_schema": PARAMETERS},
    "pydantic": Weather,
    "function": weather,
    "function, Sphinx": Sphinx.weather,
    "method": Station().weather,
    "Tool": Tool("weather", "The weather.", PARAMETERS),
}


def call(name: str, arguments: Any) -> str:
    body = {"name": name, "arguments": arguments}
    return f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>"


def calls_in(plan: Plan, engine: Engine, tokens: list[int]) -> list[tuple[str, Any]]:
    message = read_answer(tokens, plan, engine, begin=Begin("after"))
    return [(found.name, found.parsed) for found in message.tool_calls]


def writes(plan: Plan, engine: Engine, text: str) -> bool:
    return accepts(plan, engine, text + END, "after")


ARGUMENTS: list[Any] = [
    {"city": "Oslo"}, {"city": "東京", "unit": "F"}, {"city": "", "days": 3}, {"city": "a", "unit": "C", "days": 1},
    {}, {"city": 5}, {"city": "a", "unit": "K"}, {"city": "a", "days": 0}, {"city": "a", "days": 1.5}, {"town": "a"},
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_T1_every_source_of_tools_gives_the_same_tool(engine: Engine, source: str):
    (tool,) = normal_tools([SOURCES[source]])
    name = "Weather" if source == "pydantic" else "weather"
    assert (tool.name, tool.description) == (name, "The weather.")
    plan = plan_of(engine, tools=[SOURCES[source]])
    judge = jsonschema.Draft202012Validator({**PARAMETERS, "additionalProperties": False})
    for arguments in ARGUMENTS:
        assert writes(plan, engine, call(name, arguments)) == judge.is_valid(arguments), arguments


def test_a_partial_lacks_what_is_given():
    (tool,) = normal_tools([functools.partial(weather, unit="F")])
    assert tool.name == "weather"
    assert set(tool.parameters["properties"]) == {"city", "days"}


NAMES = ["my-tool", "my_tool", "my.tool", "my tool", "mytool", "天気", "天_気", "weather", "wetter", "naïve", "NAÏVE"]


def test_T5_fifty_tools_are_told_apart(engine: Engine):
    names = NAMES + [f"tool_{i}" for i in range(50 - len(NAMES))]
    arguments = [{"type": "object", "properties": {f"a{i}": {"const": i}}, "required": [f"a{i}"]} for i in range(50)]
    tools = [{"name": name, "parameters": schema} for name, schema in zip(names, arguments, strict=True)]
    plan = plan_of(engine, tools=tools, tool_choice="required")
    for i, name in enumerate(names):
        text = call(name, {f"a{i}": i})
        assert writes(plan, engine, text), name
        assert calls_in(plan, engine, engine.tokenize(text)) == [(name, {f"a{i}": i})]
        other = (i + 1) % len(names)
        assert not writes(plan, engine, call(name, {f"a{other}": other})), "the arguments of another tool"


@costly
@given(st.lists(st.text("aAb-_. é天", min_size=1, max_size=4).filter(str.strip), min_size=2, max_size=4, unique=True))
def test_T5_any_names_are_told_apart(engine: Engine, names: list[str]):
    plan = plan_of(engine, tools=[{"name": name} for name in names[1:]], tool_choice="required")
    assert [writes(plan, engine, call(name, {})) for name in names] == [False] + [True] * (len(names) - 1)


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "<tool_call>", "a<|im_end|>", "</tool_call>", "{}", "a/b"])
def test_a_name_with_quotes_or_a_marker_is_written_or_refused(engine: Engine, name: str):
    """JSON escapes quotes; a marker in a name is spelled as text, never as the token, and read back whole."""
    try:
        plan = plan_of(engine, tools=[{"name": name}], tool_choice="required")
    except ToolError as error:
        assert "tools" in str(error)
        return
    written = write_to_the_end(plan, engine, random.Random(0), entry="after")[:-1]
    assert b"".join(map(engine.token_bytes, written)).decode() == call(name, {})
    markers = [token for token in written if token in engine.tokens.marker_ids]
    assert markers == engine.tokenize("<tool_call></tool_call>")
    assert calls_in(plan, engine, written) == [(name, {})]


def custom(format: Any) -> dict[str, Any]:
    return {"type": "custom", "name": "c", "format": format}


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([custom({"type": "grammar", "syntax": "xml"})], "format.syntax: unknown syntax 'xml'; expected lark or regex"),
        ([custom(5)], "format: cannot read 5; expected a text or a grammar format"),
        ([custom({"type": "grammar", "syntax": "lark", "definition": "start: <[5]>"})], "column 8: .* writes a token"),
        ([custom({"type": "grammar", "syntax": "regex", "definition": "a("})], "column 2: a group does not end"),
        ([{"type": "function", "function": 5}], "5 is not a function; expected an object"),
        ([{"name": "a", "strict": "yes"}], "strict: 'yes' is not true or false"),
        ([{"name": "a", "parameters": {"type": "array"}}], "parameters.type: the arguments are 'array'; expected obj"),
        ([{"name": "a", "parameters": {"type": 5}}], "parameters.type: the arguments are 5; expected object"),
        ([{"name": "a", "parameters": {"type": None}}], "parameters.type: the arguments are None; expected object"),
        ([{"name": "a", "parameters": {"type": "objects"}}], "parameters.type: the arguments are 'objects'"),
        ([{"name": "a", "parameters": {"properties": 5}}], "parameters.properties: properties are not an object"),
        ([{"name": "a", "parameters": {"properties": []}}], "parameters.properties: properties are not an object"),
        ([{"name": "a", "parameters": {"properties": {"b": 5}}}], "parameters.properties.b: 5 is not a schema"),
        ([{"name": "a", "parameters": {"required": "b"}}], "parameters.required: 'b' is not a list of names"),
        ([{"name": "a", "paramters": {}}], "unknown key 'paramters' .is it 'parameters'"),
        ([{"type": "function", "function": {"name": "a", "parameter": {}}}], "function: unknown key 'parameter'"),
        ([{"name": "a", "input_shema": {}}], "unknown key 'input_shema' .is it 'input_schema'"),
        ([{"name": f"t{i}"} for i in range(MAX_TOOLS + 1)], "1001 tools are too many; expected at most 1000"),
        ([5], r"tools\[0\]: cannot read a tool from int"),
        (["get_weather"], r"tools\[0\]: cannot read a tool from str"),
        ("get_weather", "tools: str is not a list of tools"),
        ([{"description": "no name"}], r"tools\[0\]\.name: .*no name"),
        ([{"name": "a"}, {"name": "a"}], r"tools\[1\]\.name: two tools are called 'a'"),
        ([{"name": "a\nb"}], "tools.*control character"),
        ([{"name": "a", "parameters": 3}], r"tools\[0\]\.parameters: .*not a JSON schema"),
        ([{"type": "retrieval"}], "unknown type 'retrieval'"),
        ([lambda x: x], "the function has no name"),
        ([dict], "tools.dict: the function's parameters are unknown"),
    ],
)  # fmt: skip
def test_what_is_no_tool_is_named(engine: Engine, tools: Any, message: str):
    with pytest.raises((ToolError, GrammarError), match=rf"^(tools.*)?{message}"):
        plan_of(engine, tools=tools)


def test_T1_a_function_that_cannot_be_called_by_name_is_refused():
    class Shop:
        def order(self, what: str): ...

    def spread(*cities: str): ...

    def train(text: str, cls: str): ...

    def odd(thing: object()): ...  # type: ignore[valid-type]

    with pytest.raises(ToolError, match=r"tools.spread: \*cities cannot be passed by name"):
        normal_tools([spread])
    with pytest.raises(ToolError, match="tools.order: a method without its object .pass the method of an object"):
        normal_tools([Shop.order])
    assert "cls" in normal_tools([train])[0].parameters["properties"]
    with pytest.raises(ToolError, match="tools.odd: no JSON schema for the arguments"):
        normal_tools([odd])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("wether", "tool_choice: there is no tool 'wether'; expected none, auto, required or one of: weather"),
        ("any", "tool_choice: there is no tool 'any'; expected none, auto, required or one of: weather"),
        ({"type": "function", "function": {"name": "x"}}, "there is no tool 'x'"),
        ({"type": "function"}, "tool_choice: cannot read"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "some", "tools": ["weather"]}}, "unknown mode 'some'"),
        ({"type": "allowed_tools", "allowed_tools": {"tools": []}}, "the list of allowed tools is missing or empty"),
        (5, "tool_choice: cannot read 5"),
    ],
)
def test_a_choice_of_no_tool_is_named(engine: Engine, choice: Any, message: str):
    with pytest.raises(ToolError, match=message):
        plan_of(engine, FORMAT, tools=[FUNCTION], tool_choice=choice)
