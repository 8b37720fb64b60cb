"""An answer ends where an end is open, not at the first id that can be an end."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.format import Ends, Format, ToolCallFormat
from guided.engine.engine import Engine
from guided.inspect.format_check import engine_for
from guided.inspect.trace import _regions
from guided.output.answer_end import end_of_answer
from guided.output.message import Message
from guided.rows.answer import read_answer
from guided.rows.sequence import RowSequence
from guided.state.entry import FRESH
from guided.state.state import GuidanceState
from tests.judges.plans import accepts, walk

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
        ("Hello." + CALL + SEP, ("Hello.", ["now"], "tool_calls")),
        ("Hello." + CALL, ("Hello.", ["now"], "length")),
        ("Hello.", ("Hello.", [], "length")),
        ("Hello." + SEP + SEP, ("Hello.", [], "stop")),
        ("Hello." + SEP, ("Hello.", [], "stop")),  # a loop may end the row there
        ("Hello." + SEP + "\n\nfunct", ("Hello.", [], "length")),
        ("Hello.<|end_of_bytes|>", ("Hello.", [], "stop")),
        (CALL + SEP, (None, ["now"], "tool_calls")),
    ],
)
def test_text_and_a_call_after_it_are_written_and_read(
    separated: tuple[Plan, Engine], text: str, expected: tuple[str | None, list[str], str]
) -> None:
    """The token between them ends the text, and the answer unless a call follows."""
    plan, engine = separated
    ids = engine.tokenize(text)
    for size in range(1, len(ids)):  # every beginning is legal and its content is text
        assert walk(plan, engine, ids[:size]).refused_at is None
        assert "Hello.".startswith(read_answer(ids[:size], plan, engine).content or "")
    row = RowSequence(plan, engine)
    row.extend(ids)
    assert row.error is None
    for sequence in (row, None):
        assert said(read_answer(ids, plan, engine, sequence=sequence)) == expected
    assert GuidanceState(plan, engine).validate(ids) == len(ids)


def test_text_is_followed_by_nothing_but_a_call_or_an_end(separated: tuple[Plan, Engine]) -> None:
    plan, engine = separated
    for text in (f"Hello.{SEP}{SEP}", f"Hello.{SEP}<|end_of_bytes|>", "Hello.<|end_of_bytes|>", f"Hello.{CALL}{SEP}"):
        assert accepts(plan, engine, text), text
    for text in (SEP, SEP + SEP, f"Hello.{SEP} and more", f"Hello.{SEP}\n\nuser", f"Hello.{CALL} and more"):
        assert not accepts(plan, engine, text), text


@pytest.mark.parametrize("lead", ["", "Hello."])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_trace_shows_the_call_and_its_end(separated: tuple[Plan, Engine], lead: str, padding: int) -> None:
    plan, engine = separated
    ids = engine.tokenize(lead + CALL + SEP)
    row = RowSequence(plan, engine)
    row.extend(ids)
    message = read_answer([*ids, *[ids[-1]] * padding], plan, engine, sequence=row)
    assert message.token_ids == tuple(ids)
    regions = _regions(message.token_ids, plan, engine, FRESH)
    body = engine.tokenize('{"name": "now", "arguments": {}}')
    assert regions[: len(lead)] == ["content"] * len(lead)
    assert regions[-len(body) - 1 :] == ["tool_calls"] * len(body) + ["end"]
    assert "end" not in regions[:-1]
    over = engine.tokenize(f"Hello.{SEP}{SEP}")
    assert _regions(over, plan, engine, FRESH)[-2:] == ["end", "end"]
