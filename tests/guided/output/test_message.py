"""A caller runs the calls of an answer, unwraps its value, and learns why it has none."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import Annotated, Any

import pydantic
import pytest

from grammars.plan.plan import Plan, Stops
from grammars.prompt.messages import messages_for
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.output.message import Message, ToolCall, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import OutputParser
from guided.rows.answer import read_answer
from special_tokens.errors import AnswerError, GuidedError, MatcherFailed, ParseError, ToolError
from tests.judges.plans import FORMAT, plan_of


class Trip(pydantic.BaseModel):
    """A trip."""

    day: dt.date
    nights: Annotated[int, pydantic.AfterValidator(lambda n: n if n % 2 == 0 else _raise(ValueError("odd")))] = 2


def _raise(error: Exception) -> Any:
    raise error


def book(day: dt.date, trip: Trip | None = None) -> str:
    """Book it."""
    if day.year < 2000:
        raise LookupError("too early")
    return f"{day:%d.%m.%Y}"


async def book_later(day: dt.date) -> int:
    """Book it later."""
    return day.year


NO_FUNCTION = {"name": "look", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CUSTOM = {
    "type": "custom",
    "name": "code",
    "format": {"type": "grammar", "syntax": "regex", "definition": '[a-z (")]+'},
}
TOOLS: list[Any] = [book, book_later, Trip, NO_FUNCTION, CUSTOM]


def message_of(plan: Plan, engine: Engine, text: str, *, ended: bool = True, **more: Any) -> Message:
    parser, builder = OutputParser(plan, engine, entry="after"), MessageBuilder(plan)
    builder.add([*parser.feed(engine.tokenize(text)), *parser.finish()])
    return builder.message(ended=ended, usage=Usage(), guidance=Guidance(), **more)


def called(engine: Engine, name: str, arguments: Any) -> ToolCall:
    message = message_of(plan_of(engine, tools=TOOLS), engine, call(name, arguments))
    return message.tool_calls[0]


def call(name: str, arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def test_a_call_is_read_as_its_function_takes_it_and_runs(engine: Engine) -> None:
    made = called(engine, "book", {"day": "2024-02-03", "trip": {"day": "2024-02-04", "nights": 4}})
    assert made.parsed == {"day": dt.date(2024, 2, 3), "trip": Trip(day=dt.date(2024, 2, 4), nights=4)}
    assert made.run() == "03.02.2024"
    assert asyncio.run(called(engine, "book_later", {"day": "2024-02-03"}).run()) == 2024
    assert called(engine, "Trip", {"day": "2024-02-03"}).run() == Trip(day=dt.date(2024, 2, 3))
    with pytest.raises(LookupError, match="too early"):
        called(engine, "book", {"day": "1999-02-03"}).run()


def test_arguments_that_the_types_refuse_are_a_parse_error(engine: Engine) -> None:
    plan = plan_of(engine, tools=TOOLS)
    text = f"{call('look', {'a': 1})}\n{call('Trip', {'day': '2024-02-03', 'nights': 3})}"
    message = message_of(plan, engine, text)
    good, bad = message.tool_calls
    assert (good.parsed, good.parse_error, bad.parsed) == ({"a": 1}, None, None)
    assert message.parse_error is bad.parse_error is not None
    assert str(bad.parse_error) == "tool_calls[1].Trip: nights: Value error, odd"
    assert isinstance(bad.parse_error.__cause__, pydantic.ValidationError)
    assert (message.violations, message.finish_reason, message.ok) == ((), "tool_calls", False)
    for read in (bad.run, message.unwrap):
        with pytest.raises(ParseError, match="odd"):
            read()


@pytest.mark.parametrize(("text", "hint"), [
    (call("look", {"a": 1}), "tool_calls.look: the tool has no Python function; expected"),
    ('<tool_call>\n{"name": "book", "arguments": {"day": "2024', "tool_calls.book: the call has no valid arguments"),
    (call("code", {"input": "print"}), "tool_calls.code: the tool has no Python function"),
])  # fmt: skip
def test_what_cannot_run_says_why(engine: Engine, text: str, hint: str) -> None:
    (made,) = message_of(plan_of(engine, tools=TOOLS), engine, text, ended=False).tool_calls
    with pytest.raises(ToolError, match=hint):
        made.run()


def test_a_custom_tool_comes_back_as_one(engine: Engine) -> None:
    made = called(engine, "code", {"input": 'print("a")'})
    assert (made.type, made.parsed) == ("custom", 'print("a")')
    body = made.to_openai()
    assert body == {"id": made.id, "type": "custom", "custom": {"name": "code", "input": 'print("a")'}}
    message = message_of(plan_of(engine, tools=TOOLS), engine, call("code", {"input": "a b"}))
    (shown,) = messages_for([message.to_chat()], FORMAT)
    assert shown["content"] == call("code", {"input": "a b"})
    assert called(engine, "look", {"a": 1}).to_openai()["type"] == "function"


class Even(pydantic.BaseModel):
    n: Annotated[int, pydantic.AfterValidator(lambda n: n if n % 2 == 0 else _raise(ValueError("odd")))]
    rest: list[str] = []


@pytest.mark.parametrize(("python_type", "text", "value"), [
    (Even, '{"n": 4}', Even(n=4)), (type(None), "null", None), (int | None, "null", None),
    (["yes", "no"], "yes", "yes"), (None, "Hello.", "Hello."),
])  # fmt: skip
def test_a_usable_answer_is_unwrapped(engine: Engine, python_type: Any, text: str, value: Any) -> None:
    message = message_of(plan_of(engine, response_format=python_type), engine, text)
    assert message.ok
    assert message.unwrap() == value
    assert message.partial == (value if python_type is not None else None)


def test_calls_are_unwrapped_as_what_their_tools_take(engine: Engine) -> None:
    message = message_of(plan_of(engine, tools=TOOLS), engine, call("Trip", {"day": "2024-02-03"}))
    assert message.ok
    assert message.unwrap() == (Trip(day=dt.date(2024, 2, 3)),)


SUM = {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}}


@pytest.mark.parametrize(("response_format", "text", "how", "error", "match"), [
    (Even, '{"n": 3}', {}, ParseError, "response_format: n: Value error, odd"),
    (Even, '{"n": 4, "rest": ["a", "b', {"ended": False}, AnswerError, "the answer was cut .*message.partial"),
    (Even, '{"n": 4, "n": 4}', {}, AnswerError, "written twice"),
    (Even, '{"n": 4', {"error": MatcherFailed("x")}, MatcherFailed, "x"),
    (Even, '{"n": 4', {"whole": False}, AnswerError, "the answer breaks off"),
    (None, '<tool_call>\n{"name": "book", "argum', {"ended": False}, AnswerError, "the answer was cut"),
])  # fmt: skip
def test_an_answer_that_is_not_usable_says_why(
    engine: Engine, response_format: Any, text: str, how: dict[str, Any], error: type[GuidedError], match: str
) -> None:
    tools = None if response_format is not None else TOOLS
    message = message_of(plan_of(engine, response_format=response_format, tools=tools), engine, text, **how)
    assert not message.ok
    assert message.parsed is None
    with pytest.raises(error, match=match):
        message.unwrap()


@pytest.mark.parametrize(("choice", "text", "reason"), [
    ("book", call("book", {"day": "2024-02-03"}), "stop"),
    ({"type": "function", "function": {"name": "book"}}, call("book", {"day": "2024-02-03"}), "stop"),
    ("required", call("book", {"day": "2024-02-03"}), "tool_calls"),
    ("auto", call("book", {"day": "2024-02-03"}), "tool_calls"),
    ("auto", "Hello.", "stop"),
    ("none", "Hello.", "stop"),
])  # fmt: skip
def test_finish_reasons_are_those_of_openai(engine: Engine, choice: Any, text: str, reason: str) -> None:
    plan = plan_of(engine, tools=TOOLS, tool_choice=choice)
    assert message_of(plan, engine, text).finish_reason == reason
    assert message_of(plan, engine, text, ended=False).finish_reason == "length"


def test_schema_and_python_type_refuse_apart(engine: Engine) -> None:
    plan = plan_of(engine, response_format=Even)
    odd, twice = (message_of(plan, engine, text) for text in ('{"n": 3}', '{"n": 3, "n": 3}'))
    assert (odd.violations, odd.parse_error is None) == ((), False)
    assert (bool(twice.violations), twice.parse_error) == (True, None)


def test_a_cut_answer_gives_what_is_final_in_its_type(engine: Engine) -> None:
    message = message_of(plan_of(engine, response_format=Even), engine, '{"n": 4, "rest": ["a", "b', ended=False)
    assert isinstance(message.partial, Even)
    assert (message.partial.n, message.partial.rest, message.parsed) == (4, ["a"], None)
    message = message_of(plan_of(engine, response_format=SUM), engine, "[1, 22, 3", ended=False)
    assert message.partial == [1, 22]


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_cuts_a_format_and_not_a_text(engine: Engine, include: bool) -> None:
    """With the stop left in, a whole value is whole; what is left before it is no value, even where it could be one."""
    stops = Stops(("!",), include=include)
    text = read_answer(engine.tokenize("Hello you! no"), plan_of(engine, stop=stops), engine)
    assert text.ok
    plan = plan_of(engine, stop=stops, response_format=["Hello", "Hello!", "Hello!!"])
    value = read_answer(engine.tokenize("Hello!"), plan, engine)
    assert (value.ok, value.parsed) == ((True, "Hello!") if include else (False, None))
    assert value.violations == ()
    cut = plan_of(engine, stop=stops, response_format=["Hello", "Hello!!"])  # "Hello!" is none of them
    assert read_answer(engine.tokenize("Hello!"), cut, engine).parsed is None


class Gathered(pydantic.BaseModel):
    first: int
    values: set[Any]


def test_a_set_that_cannot_be_built_is_a_parse_error(engine: Engine) -> None:
    plan, text = plan_of(engine, response_format=Gathered), '{"first": 1, "values": [[1], 2]}'
    whole, cut = message_of(plan, engine, text), message_of(plan, engine, text[:-2], ended=False)
    assert "values.0: Set items should be hashable" in str(whole.parse_error)
    assert (whole.parsed, cut.parsed, cut.partial.model_fields_set) == (None, None, {"first"})
