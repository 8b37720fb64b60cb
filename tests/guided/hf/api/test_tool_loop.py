"""Calls run, their results go back, and the model answers: by hand-written answers, then by a model."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import pydantic
import pytest

import guided
from grammars.prompt.messages import messages_for
from grammars.tools.results import result_text
from guided.engine.counters import Guidance
from guided.hf.retries import answered
from guided.hf.tool_loop import arun_tools, run_tools
from guided.output.message import Message, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import OutputParser
from special_tokens.errors import ParseError, RequestError, ToolError
from tests.judges.plans import FORMAT, plan_of


class Journey(pydantic.BaseModel):
    day: dt.date
    nights: int


def even(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number


def book(day: dt.date, nights: Annotated[int, pydantic.AfterValidator(even)]) -> Journey:
    """Book it."""
    if day.year < 2000:
        raise LookupError("too early")
    return Journey(day=day, nights=nights)


async def later(day: dt.date) -> str:
    """Later."""
    return f"later than {day:%Y}"


LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}


def call(name: str, arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


@dataclass
class Scripted:
    """A model that gives these answers one after the other, under the plan of what it is asked."""

    engine: Any
    texts: Sequence[str]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, messages: Any, **options: Any) -> Message:
        text = self.texts[len(self.asked)]
        self.asked.append({"messages": list(messages), **options})
        parts = {name: value for name, value in options.items() if name != "temperature"}
        plan = plan_of(self.engine, **parts)
        messages_for(messages, FORMAT)  # what is asked can be shown
        parser, builder = OutputParser(plan, self.engine, entry="after"), MessageBuilder(plan)
        builder.add([*parser.feed(self.engine.tokenize(text)), *parser.finish()])
        return builder.message(ended=not text.endswith("..."), usage=Usage(), guidance=Guidance())

    def run(self, tools: Any, *, max_turns: int = 5, call_tool: Any = None, **options: Any) -> Any:
        return run_tools(self, "Go.", max_turns, call_tool, {"tools": tools, **options})

    def answered(self, retries: int, **options: Any) -> Message:
        return answered(lambda messages: self(messages, **options), [{"role": "user", "content": "Go."}], retries)


def test_results_go_back_until_the_model_answers(engine: Any) -> None:
    day = {"day": "2024-02-03"}
    model = Scripted(engine, [call("book", day | {"nights": 2}) + "\n" + call("later", day), "All is booked."])
    run = model.run([book, later], temperature=0)
    assert run.message.content == "All is booked."
    assert [result.value for result in run.results] == [Journey(day=dt.date(2024, 2, 3), nights=2), "later than 2024"]
    roles = [message["role"] for message in run.messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    first, second = run.turns[0].tool_calls
    assert run.messages[2] == {
        "role": "tool", "tool_call_id": first.id, "name": "book", "content": '{"day":"2024-02-03","nights":2}',
    }  # fmt: skip
    assert (run.messages[3]["tool_call_id"], run.messages[3]["content"]) == (second.id, "later than 2024")
    assert model.asked[1]["messages"] == run.messages[:-1]
    assert all(asked["temperature"] == 0 for asked in model.asked)


def test_a_program_with_an_event_loop_runs_the_same(engine: Any) -> None:
    """Async functions run in its loop, others do not block it."""
    loops: list[Any] = []

    async def here(day: dt.date) -> str:
        """Here."""
        loops.append(asyncio.get_running_loop())
        if day.year < 2000:
            raise LookupError("too early")
        return "here"

    def blocking() -> bool:
        """Block."""
        return threading.current_thread() is threading.main_thread()

    texts = [call("here", {"day": "2024-02-03"}), call("here", {"day": "1999-02-03"}), call("blocking", {}), "Done."]
    model = Scripted(engine, texts)

    async def chat(messages: Any, **options: Any) -> Message:
        return model(messages, **options)

    async def program() -> Any:
        loops.append(asyncio.get_running_loop())
        return await arun_tools(chat, "Go.", 5, None, {"tools": [here, blocking]})

    run = asyncio.run(program())
    contents = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert contents == ["here", "Error: LookupError: too early", "false"]
    assert len(set(loops)) == 1
    assert run.message.content == "Done."


def test_an_async_tool_inside_an_event_loop_is_refused(engine: Any) -> None:
    async def program() -> None:
        Scripted(engine, [call("later", {"day": "2024-02-03"})]).run([later])

    with pytest.raises(ToolError, match=r"tools.later: an async function inside an event loop .await guide.arun"):
        asyncio.run(program())


@pytest.mark.parametrize(("arguments", "text"), [
    ({"day": "1999-02-03", "nights": 2}, "Error: LookupError: too early"),
    ({"day": "2024-02-03", "nights": 3}, "Error: nights: Value error, odd"),
])  # fmt: skip
def test_errors_of_a_tool_are_given_to_the_model(engine: Any, arguments: Any, text: str) -> None:
    model = Scripted(engine, [call("book", arguments), call("book", {"day": "2024-02-03", "nights": 2}), "Done."])
    run = model.run([book])
    assert run.messages[2]["content"] == text
    assert [result.error is None for result in run.results] == [False, True]
    assert isinstance(run.results[0].error, LookupError | ParseError)
    assert run.message.content == "Done."


def test_a_tool_may_exit_and_a_user_may_interrupt(engine: Any) -> None:
    def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Scripted(engine, [call("stop", {})]).run([stop])


def test_the_turns_are_bounded_and_the_last_one_answers(engine: Any) -> None:
    """The first turn follows the tool choice, the others may call or answer, the last one must answer."""
    model = Scripted(engine, [call("book", {"day": "2024-02-03", "nights": 2})] * 3 + ["Enough."])
    run = model.run([book], max_turns=3, tool_choice="required")
    assert [asked["tool_choice"] for asked in model.asked] == ["required", "auto", "auto", "none"]
    assert (run.message.content, len(run.turns), len(run.results)) == ("Enough.", 4, 3)


def test_a_call_that_was_cut_ends_the_run(engine: Any) -> None:
    run = Scripted(engine, ['<tool_call>\n{"name": "book", "arguments": {"day": "20...']).run([book])
    assert (run.message.ok, run.results, [message["role"] for message in run.messages]) == (False, (), ["user"])


def test_a_call_that_landed_is_not_run(engine: Any) -> None:
    """Some of its arguments are the budget's; the call before it is the model's own."""
    texts = [call("book", {"day": "2024-02-03", "nights": nights}) for nights in (2, 4)]
    model = Scripted(engine, ["\n".join(texts), "Done."])

    def chat(messages: Any, **options: Any) -> Message:
        message = model(messages, **options)
        calls = message.tool_calls
        landed = (dataclasses.replace(one, landed=True) for one in calls[1:])
        return dataclasses.replace(message, tool_calls=(*calls[:1], *landed))

    async def achat(messages: Any, **options: Any) -> Message:
        return chat(messages, **options)

    for run in (
        lambda: run_tools(chat, "Go.", 5, None, {"tools": [book]}),
        lambda: asyncio.run(arun_tools(achat, "Go.", 5, None, {"tools": [book]})),
    ):
        model.asked.clear()
        first, second = run().results
        assert first.value == Journey(day=dt.date(2024, 2, 3), nights=2)
        assert isinstance(second.error, ToolError)
        assert second.to_chat()["content"].startswith(
            "Error: not run: the budget of tokens was too small for its argum"
        )


def test_tools_of_others_are_run_by_call_tool(engine: Any) -> None:
    seen: list[Any] = []

    def call_tool(name: str, arguments: Any) -> str:
        seen.append((name, arguments))
        return "found"

    custom = {"type": "custom", "name": "code"}
    texts = [call("look", {"a": 1}), call("code", {"input": "x y"}), "Done."]
    run = Scripted(engine, texts).run([LOOK, custom, book], call_tool=call_tool)
    assert seen == [("look", {"a": 1}), ("code", "x y")]
    assert [result.value for result in run.results] == ["found", "found"]


@pytest.mark.parametrize(("tools", "max_turns", "error", "message"), [
    ([book, LOOK], 3, ToolError, "tools.look: the tool has no Python function .*call_tool"),
    ([book], 0, RequestError, "max_turns: 0 is not a count"),
    ([book], True, RequestError, "max_turns: True is not a count"),
    ("book", 3, ToolError, "tools: str is not a list"),
    (5, 3, ToolError, "tools: int is not a list"),
])  # fmt: skip
def test_what_cannot_be_run_is_refused_before_the_model_is_asked(
    engine: Any, tools: Any, max_turns: Any, error: type[Exception], message: str
) -> None:
    model = Scripted(engine, [])
    with pytest.raises(error, match=f"^{message}"):
        model.run(tools, max_turns=max_turns)
    assert model.asked == []


@dataclasses.dataclass
class Result:
    """In the shape of an MCP client's result."""

    content: list[Any]
    isError: bool = False  # noqa: N815


class Textless:
    def __str__(self) -> str:
        return "odd"


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(("value", "text"), [
    ("as it is", "as it is"), (None, "null"), ({"a": dt.date(2024, 1, 2)}, '{"a":"2024-01-02"}'), (2.5, "2.5"),
    (Journey(day=dt.date(2024, 1, 2), nights=1), '{"day":"2024-01-02","nights":1}'), (Textless(), '"odd"'),
    (Result([type("Part", (), {"text": "a"})(), type("Part", (), {"text": "b"})()]), "a\nb"),
    (Result([type("Part", (), {"text": "no"})()], isError=True), "Error: no"), (endless(), "[[...]]"),
])  # fmt: skip
def test_results_are_text(value: Any, text: str) -> None:
    assert result_text(value) == text


# -- retries


class EvenNumber(pydantic.BaseModel):
    n: Annotated[int, pydantic.AfterValidator(even)]


def test_a_refused_answer_is_asked_for_again(engine: Any) -> None:
    model = Scripted(engine, ['{"n": 3}', '{"n": 5}', '{"n": 4}'])
    message = model.answered(5, response_format=EvenNumber)
    assert message.parsed == EvenNumber(n=4)
    assert [text for text in message.notes if "refused" in text] == [
        "an answer was refused and asked for again: response_format: n: Value error, odd"
    ] * 2
    *_, answer, refusal = model.asked[1]["messages"]
    assert answer == {"role": "assistant", "content": '{"n": 3}'}
    assert refusal["content"].startswith("That answer was refused: response_format: n: Value error, odd.")
    assert len(model.asked[2]["messages"]) == 5


def test_a_refused_call_is_asked_for_again(engine: Any) -> None:
    wrong, right = ({"day": "2024-02-03", "nights": nights} for nights in (3, 2))
    model = Scripted(engine, [f"{call('book', wrong)}\n{call('book', right)}", call("book", right)])
    message = model.answered(1, tools=[book])
    assert message.ok
    contents = [message["content"] for message in model.asked[1]["messages"][-2:]]
    assert contents == [
        "Error: nights: Value error, odd. Call again without this mistake.",
        "Not run: another call was refused.",
    ]


@pytest.mark.parametrize(("texts", "retries", "number"), [
    (['{"n": 3}', '{"n": 5}'], 1, 2), (['{"n": 4}'], 3, 1), (['{"n": 3...'], 3, 1), (['{"n": 3}'], 0, 1),
])  # fmt: skip
def test_only_refused_answers_are_asked_for_again(engine: Any, texts: list[str], retries: int, number: int) -> None:
    model = Scripted(engine, texts)
    model.answered(retries, response_format=EvenNumber)
    assert len(model.asked) == number


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_a_wrong_number_of_retries_is_refused(tiny_guide: Any, retries: Any) -> None:
    with pytest.raises(RequestError, match="^retries: .* is not a count"):
        tiny_guide.chat("Go.", retries=retries)


# -- a model


@pytest.mark.parametrize("tools", [None, []])
def test_a_run_without_tools_is_one_answer(tiny_guide: Any, tools: Any) -> None:
    run = tiny_guide.run("Is it so?", tools=tools, response_format=["yes", "no"], temperature=0)
    assert run.message.parsed in ("yes", "no")
    assert [message["role"] for message in run.messages] == ["user", "assistant"]


def test_a_guide_runs_its_tools(tiny_guide: Any) -> None:
    seen: list[Any] = []

    def note(flag: bool, color: dt.date | None = None) -> str:
        """Note it."""
        seen.append(flag)
        return "noted"

    run = tiny_guide.run("Go.", tools=[note], tool_choice="required", max_turns=1, max_tokens=80, temperature=0)
    assert len(seen) == 1
    assert isinstance(run, guided.hf.ToolRun)
    assert run.turns[0].tool_calls[0].parsed["flag"] is seen[0]
    assert (run.message.tool_calls, len(run.turns)) == ((), 2)
    options: dict[str, Any] = {"tools": [note], "tool_choice": "required", "max_tokens": 80, "temperature": 0}
    twin = asyncio.run(tiny_guide.arun("Go.", max_turns=1, **options))
    assert [turn.content for turn in twin.turns] == [turn.content for turn in run.turns]
    assert [result.value for result in twin.results] == ["noted"]


def test_a_guide_asks_again(tiny_guide: Any) -> None:
    asked: list[int] = []

    def counted(value: int) -> int:
        asked.append(value)
        if len(asked) < 3:
            raise ValueError("not yet")
        return value

    kind = Annotated[int, pydantic.Field(ge=0, le=9), pydantic.AfterValidator(counted)]
    options: dict[str, Any] = {"response_format": kind, "retries": 2, "temperature": 0, "max_tokens": 9}
    message = tiny_guide.chat("Go.", **options)
    assert (message.parsed, len(asked)) == (asked[-1], 3)
    asked.clear()
    twin = asyncio.run(tiny_guide.achat("Go.", **options))
    assert (twin.parsed, twin.notes, len(asked)) == (message.parsed, message.notes, 3)
