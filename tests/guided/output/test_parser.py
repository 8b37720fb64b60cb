"""The parser returns what the grammar allowed, however the tokens are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.format import Ends, Format, ReasoningFormat, ToolCallFormat
from guided.bitmask import allocate_bitmask, is_allowed
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.output.message import Message, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import ContentDelta, Event, OutputParser
from guided.rows.answer import read_answer
from guided.state.state import GuidanceState
from tests.cases import costly

TAGS = ToolCallFormat(
    "json_in_tags",
    call_start="<tool_call>\n",
    call_end="\n</tool_call>",
    between="\n",
    gap="\n",
    options=(("args_key", "arguments"), ("name_key", "name")),
)
FORMAT = Format(
    "tags", ReasoningFormat("<think>\n", "\n</think>\n\n", default_on=True), tool_calls=TAGS, ends=Ends(("<|im_end|>",))
)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "get_weather", "parameters": CITY},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]


def plan_of(engine: Engine, **parts: Any) -> Plan:
    return compose(Parts(**parts), tokens=engine.tokens, format=FORMAT)


def tokens_of(engine: Engine, text: str) -> list[int]:
    """``text`` with its markers as tokens and everything else as single bytes."""
    by_byte = {engine.token_bytes(i): i for i in range(256)}
    out: list[int] = []
    for piece in engine.tokens.pieces(text):
        out += [piece] if isinstance(piece, int) else [by_byte[bytes([b])] for b in piece.encode()]
    return out


def canonical(engine: Engine, text: str) -> list[int]:
    return [
        i
        for piece in engine.tokens.pieces(text)
        for i in ([piece] if isinstance(piece, int) else engine.tokenize(piece))
    ]


def message_of(events: list[Event], plan: Plan) -> Message:
    builder = MessageBuilder(plan)
    builder.add(events)
    return without_ids(builder.message(ended=True, usage=Usage(), guidance=Guidance()))


def without_ids(message: Message) -> Message:
    """The message without the ids of its calls, which are made anew by each reader."""
    return replace(message, tool_calls=tuple(replace(call, id="") for call in message.tool_calls))


def parse(engine: Engine, plan: Plan, ids: list[int], entry: str = "fresh") -> Message:
    parser = OutputParser(plan, engine, entry=entry)
    return message_of([*parser.feed(ids), *parser.finish()], plan)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=14).filter(
    lambda t: "<tool_call>" not in t and "</think>" not in t
)


# JSON allows a raw DEL in strings; the engine's grammar wants it escaped (llguidance 1.9.1).
CITY_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=6)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An answer as the format writes it, and what it says."""
    said: dict[str, Any] = {"reasoning": None, "content": None, "calls": []}
    text = ""
    if draw(st.booleans()):
        said["reasoning"] = draw(TEXT)
        text += f"<think>\n{said['reasoning']}\n</think>\n\n"
    content = draw(TEXT)
    for n in range(draw(st.integers(0, 2))):
        arguments = {"city": draw(CITY_NAMES)} if draw(st.booleans()) else {}
        name = "get_weather" if arguments else "now"
        said["calls"].append((name, arguments))
        body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        lead = "" if n == 0 else "\n"
        if n == 0 and content:
            lead = "\n"
        content_part = content if n == 0 else ""
        text += f"{content_part}{lead}<tool_call>\n{body}\n</tool_call>"
    if not said["calls"]:
        text += content
    said["content"] = content
    return text, said


@given(answer=answers(), data=st.data())
def test_any_split_of_an_answer_gives_what_it_says(
    engine: Engine, plain_engine: Engine, answer: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    text, said = answer
    for chosen in (engine, plain_engine):  # markers as tokens, and the same markers as text
        plan = plan_of(chosen, tools=TOOLS)
        ids = data.draw(st.sampled_from([tokens_of(chosen, text), canonical(chosen, text)]))
        whole = parse(chosen, plan, ids)
        assert (whole.reasoning or "") == (said["reasoning"] or "")
        assert [(call.name, call.parsed) for call in whole.tool_calls] == said["calls"]
        is_framing = said["content"].isspace() and (said["calls"] or said["reasoning"] is not None)
        assert (whole.content or "") == ("" if is_framing else said["content"])
        parser = OutputParser(plan, chosen)
        events: list[Event] = []
        rest = ids
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            events += parser.feed(rest[:size])
            rest = rest[size:]
        events += parser.finish()
        assert message_of(events, plan) == whole


@costly
@given(answer=answers())
def test_the_grammar_lets_through_what_the_parser_reads(engine: Engine, answer: tuple[str, dict[str, Any]]) -> None:
    text, said = answer
    if said["reasoning"] is not None and not said["calls"] and not said["content"].strip():
        return  # R14: content is required after reasoning
    state = GuidanceState(plan_of(engine, tools=TOOLS), engine)
    words = allocate_bitmask(1, engine.vocab_size)
    for token in canonical(engine, text):
        state.fill_bitmask(words)
        assert is_allowed(words[0], token), (text, engine.token_bytes(token))
        state.commit([token])
    assert state.is_accepting


def test_deltas_are_not_held_back_longer_than_needed(engine: Engine) -> None:
    parser = OutputParser(plan_of(engine), engine)
    assert parser.feed(tokens_of(engine, "Hello")) == [ContentDelta(c) for c in "Hello"]
    euro = tokens_of(engine, "€")
    assert parser.feed(euro[:2]) == []  # two of three bytes are no character yet
    assert parser.feed(euro[2:]) == [ContentDelta("€")]


def test_a_possible_marker_is_held_back_and_released(plain_engine: Engine) -> None:
    parser = OutputParser(plan_of(plain_engine, tools=TOOLS), plain_engine)
    out = "".join(e.text for e in parser.feed(tokens_of(plain_engine, "a <tool")) if isinstance(e, ContentDelta))
    assert out == "a "
    out = "".join(e.text for e in parser.feed(tokens_of(plain_engine, "s>")) if isinstance(e, ContentDelta))
    assert out == "<tools>"


def test_a_prompt_that_opened_the_block_starts_inside_it(engine: Engine) -> None:
    plan = plan_of(engine)
    message = parse(engine, plan, tokens_of(engine, "hm\n</think>\n\nyes"), entry="inside")
    assert (message.reasoning, message.content) == ("hm", "yes")
    parser = OutputParser(plan, engine, entry="inside", ends_at_marker=True)
    events = [*parser.feed(tokens_of(engine, "\nhm\n</think>\n\nyes")), *parser.finish()]
    assert message_of(events, plan).reasoning == "hm"
    assert parse(engine, plan, tokens_of(engine, "yes"), entry="after").content == "yes"


def test_only_the_format_s_own_newlines_are_dropped(engine: Engine) -> None:
    message = parse(engine, plan_of(engine), tokens_of(engine, "<think>\n\n a \n\n</think>\n\n\n b "))
    assert message.reasoning == "\n a \n"
    assert message.content == "\n b "


def test_reasoning_tokens_are_counted_strictly_between_the_markers(engine: Engine, plain_engine: Engine) -> None:
    for chosen in (engine, plain_engine):
        parser = OutputParser(plan_of(chosen), chosen)
        parser.feed(tokens_of(chosen, "<think>abc</think>xyz"))
        assert parser.reasoning_tokens == 3


def test_an_unguided_answer_is_read_by_the_same_parser(engine: Engine) -> None:
    plan = plan_of(engine, tools=TOOLS)
    ids = [*tokens_of(engine, "No tool needed."), engine.tokens.end_ids[0], engine.tokens.end_ids[0]]
    message = read_answer(ids, plan, engine, prompt_tokens=5)
    assert message.content == "No tool needed."
    assert message.finish_reason == "stop"
    assert message.usage == Usage(5, len(ids) - 1, 0)


def test_a_row_without_a_plan_is_plain_text(engine: Engine) -> None:
    ids = canonical(engine, "<think>a</think>b")
    message = read_answer(ids, None, engine)
    assert message.content == "<think>a</think>b"  # not flagged special: decoding keeps these markers
    assert message.finish_reason == "length"
    assert not message.guidance.applied
