"""Calls as JSON objects between tags: what is written is what is read, and nothing else can be written."""

from __future__ import annotations

import pytest

from grammars.tool_calls.reader import ArgumentsDelta, CallEnded, CallStarted, CutCall, StrayText
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from special_tokens.errors import ModelError
from tests.judges.tool_calls import calls_of, read, refused_at, section
from tests.made_up.schemas import having
from tests.made_up.wire_forms import FORMS

FORM = FORMS["tags"]
WEATHER = Tool(
    "get_weather",
    parameters=having(
        {"city": {"type": "string"}, "days": {"type": "integer"}, "opts": {"type": "object"}}, optional=["days", "opts"]
    ),
)
TIME = Tool("get_time")
TOOLS = {tool.name: tool for tool in (WEATHER, TIME)}


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ('{"name": "get_whether", "arguments": {}}', "hether"),  # a name that no tool has
        ('{"name": "get_weather", "arguments": {}}', "}}"),  # a required argument is missing
        ('{"name": "get_weather", "arguments": {"city": 3}}', "3}}"),  # of the wrong type
        ('{"name": "get_weather", "arguments": {"city": "a", "day": 1}}', '": 1'),  # an argument that it has not
        ('{"name": "get_weather", "arguments": {"city": "a"}, "x": 1}', ', "x"'),  # a member more
        ('{"name": "get_weather",  "arguments": {"city": "a"}}', ' "arg'),  # another spelling
        ('{"arguments": {"city": "a"}, "name": "get_weather"}', "arguments"),  # another order
    ],
)
def test_a_wrong_call_is_refused_at_the_very_character(byte_engine: Engine, call: str, place: str) -> None:
    text = FORM.call_start + call + FORM.call_end
    assert refused_at(byte_engine, section(byte_engine, FORM, [WEATHER, TIME]), text) == text.index(place)


def test_the_inside_of_a_string_never_ends_a_call(plain_engine: Engine) -> None:
    """Under a tokenizer without these markers the tags are ordinary text, also inside arguments."""
    calls = [Call("get_weather", {"city": 'a</tool_call>\n<tool_call>\n{"name": "x"}'})]
    text = syntax("json_in_tags").render(FORM, calls, TOOLS)
    assert refused_at(plain_engine, section(plain_engine, FORM, [WEATHER]), text) is None
    assert calls_of(read(plain_engine, FORM, TOOLS, text)[0]) == calls


def test_any_order_any_space_and_a_doubly_encoded_object_are_read(engine: Engine) -> None:
    text = '<tool_call>{ "arguments" :{"city":"a"} ,\n"extra": [1, {"}": "]"}], "name":"get_weather"}</tool_call>'
    text += ' <tool_call>{"name": "get_time", "arguments": "{\\"city\\": \\"b\\"}"}</tool_call> more'
    events, rest = read(engine, FORM, TOOLS, text)
    assert calls_of(events) == [Call("get_weather", {"city": "a"}), Call("get_time", {"city": "b"})]
    assert rest == " more"


def test_argument_text_is_handed_out_as_it_was_written(engine: Engine) -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "\\u0041", "days": 1.0e0}}\n</tool_call>'
    events, _ = read(engine, FORM, TOOLS, text)
    assert events[1] == ArgumentsDelta(0, '{"city":  "\\u0041", "days": 1.0e0}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<tool_call>\nno call at all", [StrayText("<tool_call>\nno call at all")]),
        ('<tool_call>\n{"name": "get_t', [CutCall('<tool_call>\n{"name": "get_t')]),
        (
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro',
            [CallStarted(0, "get_weather"), ArgumentsDelta(0, '{"city": "Ro')],
        ),
        (
            '<tool_call>{"name": "get_time", oops<tool_call>{"name": "get_time", "arguments": {}}\n',
            [
                StrayText('<tool_call>{"name": "get_time", oops'),
                CallStarted(0, "get_time"),
                ArgumentsDelta(0, "{}"),
                CallEnded(0),
            ],
        ),
    ],
)
def test_broken_and_cut_output_is_never_lost(engine: Engine, text: str, expected: list[object]) -> None:
    for cut in range(len(text)):
        assert read(engine, FORM, TOOLS, text, [cut])[0] == expected


def test_an_unknown_syntax_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"no tool-call syntax 'xml'; expected json_in_tags"):
        syntax("xml")
