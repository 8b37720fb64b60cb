"""An answer ends where an end is open, not at the first id that can be an end."""

from __future__ import annotations

from types import SimpleNamespace as Value
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.format import Ends, Format, ToolCallFormat
from guided.engine.engine import Engine
from guided.hf.loop.decode import Step
from guided.hf.loop.stream import Stream
from guided.inspect.format_check import engine_for
from guided.output.answer_end import end_of_answer
from guided.output.message import Message
from guided.rows.sequence import RowSequence, read_answer
from guided.state.entry import FRESH

#: The frame of GigaChat 3: the token that ends a turn opens a call as well.
SEP = "<|message_sep|>"
FORMAT = Format(
    "separated",
    tool_calls=ToolCallFormat("json_in_tags", call_start=f"{SEP}\n\nfunction call<|role_sep|>\n", max_calls=1),
    ends=Ends((SEP,)),
)
CALL = f'{SEP}\n\nfunction call<|role_sep|>\n{{"name": "now", "arguments": {{}}}}'
TOOLS: list[dict[str, Any]] = [{"name": "now", "parameters": {"type": "object", "properties": {}}}]


@pytest.fixture(scope="module")
def separated() -> tuple[Plan, Engine]:
    engine = engine_for(FORMAT)
    return compose(Parts(tools=TOOLS), tokens=engine.tokens, format=FORMAT), engine


def said(message: Message) -> tuple[str | None, list[str], str]:
    return message.content, [call.name for call in message.tool_calls if call.parsed == {}], message.finish_reason


@pytest.mark.parametrize("padding", ["", SEP, SEP + SEP])
def test_a_call_whose_frame_begins_with_an_end_is_read_whole(separated: tuple[Plan, Engine], padding: str) -> None:
    plan, engine = separated
    ids = engine.tokenize(CALL + SEP + padding)
    row = RowSequence(plan, engine)
    row.extend(ids)
    assert row.error is None
    assert row.is_done
    for sequence in (None, row):
        message = read_answer(ids, plan, engine, sequence=sequence)
        assert said(message) == (None, ["now"], "tool_calls")
        assert message.usage.completion_tokens == len(engine.tokenize(CALL + SEP))
    assert end_of_answer(ids, plan, engine) == len(engine.tokenize(CALL))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello." + SEP, ("Hello.", [], "stop")),
        ("Hello." + SEP + SEP, ("Hello.", [], "stop")),
        ("Hello.", ("Hello.", [], "length")),
        ("Hello." + CALL, ("Hello.", ["now"], "length")),
        ("Hello." + CALL + SEP, ("Hello.", ["now"], "tool_calls")),
    ],
)
def test_an_answer_without_its_row_ends_where_no_call_follows(
    separated: tuple[Plan, Engine], text: str, expected: tuple[str | None, list[str], str]
) -> None:
    plan, engine = separated
    assert said(read_answer(engine.tokenize(text), plan, engine)) == expected


def test_the_row_knows_where_it_ended(separated: tuple[Plan, Engine]) -> None:
    plan, engine = separated
    ids = engine.tokenize("Hello." + CALL)
    row = RowSequence(plan, engine)
    row.extend(ids)  # the row ended at the first separator: the rest was written by others
    assert said(read_answer(ids, plan, engine, sequence=row)) == ("Hello.", [], "stop")


class _Scripted:
    """A generation of one row whose tokens are known, as far as `Stream` asks."""

    def __init__(self, plan: Plan, engine: Engine, ids: list[int]) -> None:
        self.plans, self.context, self.call_ids, self._ids = (plan,), Value(engine=engine), [None], ids
        self.inputs = Value(begins=[FRESH], session=None)

    def steps(self) -> Any:
        for token in self._ids:
            yield Step([token], [True])

    def messages(self) -> list[Message]:
        return [read_answer(self._ids, self.plans[0], self.context.engine)]


def test_a_stream_shows_the_call_and_never_the_end(separated: tuple[Plan, Engine]) -> None:
    plan, engine = separated
    for text in (CALL + SEP, "Hello." + SEP, CALL):
        generation: Any = _Scripted(plan, engine, engine.tokenize(text))
        events = list(Stream(generation))
        names = [event.name for event in events if type(event).__name__ == "ToolCallStart"]
        content = "".join(event.text for event in events if type(event).__name__ == "ContentDelta")
        assert (names, content) == ((["now"], "") if CALL in text else ([], "Hello."))
