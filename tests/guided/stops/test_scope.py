"""Stops of guided rows act on content alone, judged by string search over the pieces that an answer was made of."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, Stops
from guided.engine.engine import Engine
from guided.rows.answer import read_answer
from guided.stops.compiled import CompiledStops
from guided.stops.matcher import StopMatcher
from tests.guided.output.test_parser import FORMAT, canonical
from tests.guided.stops.test_matcher import first_stop

TOOLS: list[dict[str, Any]] = [{"name": "now", "parameters": {"type": "object", "properties": {}}}]
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

WORDS = st.text(alphabet="ab<\nt. né", max_size=10)
STRINGS = st.lists(st.text(alphabet="ab<\nt. né{}:", min_size=1, max_size=4), min_size=1, max_size=4)


def plan_of(engine: Engine, **parts: Any) -> Plan:
    return compose(Parts(**parts), tokens=engine.tokens, format=FORMAT)


@lru_cache
def vocabulary(engine: Engine) -> dict[bytes, int]:
    """Ordinary tokens by their bytes."""
    return {engine.token_bytes(i): i for i in range(engine.vocab_size) if i not in engine.tokens.marker_ids}


def encode(engine: Engine, text: str, draw: Any) -> list[int]:
    """Markers as tokens where they are some, the rest cut anywhere into known tokens."""
    by_bytes = vocabulary(engine)
    out: list[int] = []
    for piece in engine.tokens.pieces(text):
        if isinstance(piece, int):
            out.append(piece)
            continue
        data = piece.encode()
        while data:
            sizes = [n for n in range(1, 8) if data[:n] in by_bytes and n <= len(data)]
            size = draw(st.sampled_from(sizes))
            out.append(by_bytes[data[:size]])
            data = data[size:]
    return out


@given(data=st.data(), reasoning=WORDS, content=WORDS, has_call=st.booleans(), strings=STRINGS)
def test_stops_see_content_and_nothing_else(
    engine: Engine, plain_engine: Engine, data: Any, reasoning: str, content: str, has_call: bool, strings: list[str]
) -> None:
    # The gap before a call is content until the call begins.
    lead = "\n" if has_call else ""
    text = f"<think>\n{reasoning}\n</think>\n\n{content}{lead}{CALL if has_call else ''}"
    expected = first_stop((content + lead).encode(), strings)
    for chosen in (engine, plain_engine):
        plan = plan_of(chosen, tools=TOOLS, reasoning_effort="low", stop=Stops(tuple(strings)))
        tokens = encode(chosen, text, data.draw)
        message = read_answer(tokens, plan, chosen)
        if expected is None:
            assert message.stop_reason is None
            assert len(message.tool_calls) == has_call
            continue
        shown = (content + lead).encode()[: expected[0]].decode()
        marker = next((i for i in range(len(content)) if "<tool_call>".startswith(content[i:])), len(content))
        is_undecided = not has_call and expected[1] > len(content[:marker].encode())
        if message.stop_reason is None and is_undecided:
            continue  # the text ended inside what may still be a marker
        assert (message.content or "") == (shown if shown.strip() else "")  # white space alone is not content
        assert message.stop_reason == (content + lead).encode()[slice(*expected)].decode()
        assert message.reasoning == (reasoning or None)


@given(data=st.data(), content=WORDS, strings=STRINGS)
def test_everywhere_means_the_raw_text(engine: Engine, data: Any, content: str, strings: list[str]) -> None:
    text = f"<think>\n{content}\n</think>\n\n{content}"
    plan = plan_of(engine, reasoning_effort="low", stop=Stops(tuple(strings), everywhere=True))
    matcher = StopMatcher(CompiledStops(plan.stops, engine, plan))
    tokens = encode(engine, text, data.draw)
    hit = matcher.feed(tokens)
    expected = first_stop(text.encode(), strings)
    assert (hit is None) == (expected is None)
    if hit is not None and expected is not None:
        before = b"".join(map(engine.token_bytes, tokens[: hit.before]))
        partial = engine.token_bytes(tokens[hit.before])[: hit.before_bytes] if hit.before_bytes else b""
        assert before + partial == text.encode()[: expected[0]]
        assert sum(len(engine.token_bytes(t)) for t in tokens[: hit.num_tokens]) >= expected[1]
        assert sum(len(engine.token_bytes(t)) for t in tokens[: hit.num_tokens - 1]) < expected[1]


@given(data=st.data(), value=st.text(alphabet='ab"\\{}:, né\n', max_size=10), strings=STRINGS)
def test_the_strings_of_a_json_response_are_left_alone(
    engine: Engine, data: Any, value: str, strings: list[str]
) -> None:
    text = json.dumps({"a": value}, ensure_ascii=False)
    plan = plan_of(engine, response_format=SCHEMA, stop=Stops(tuple(strings)))
    tokens = encode(engine, text, data.draw)
    hit = StopMatcher(CompiledStops(plan.stops, engine, plan)).feed(tokens)
    outside = ["{", ": ", "}"]  # what stands between the strings; a stop lies within one of them
    found = next((s for part in outside if (s := first_stop(part.encode(), strings))), None)
    assert (hit is None) == (found is None)
    if hit is not None:
        assert any(str(hit.reason) in part for part in outside)


def test_the_framing_of_a_marker_is_no_stop(engine: Engine) -> None:
    """``\\n\\n`` is the commonest stop, and follows the end of every reasoning block."""
    plan = plan_of(engine, reasoning_effort="low", stop=Stops(("\n\n",)))
    tokens = canonical(engine, "<think>\nx\n\ny\n</think>\n\none\n\ntwo")
    message = read_answer(tokens, plan, engine)
    assert (message.reasoning, message.content, message.stop_reason) == ("x\n\ny", "one", "\n\n")


@pytest.mark.parametrize("entry", ["inside", "after"])
def test_a_row_that_begins_in_or_after_reasoning(engine: Engine, entry: str) -> None:
    from guided.state.entry import Begin

    plan = plan_of(engine, reasoning_effort="low", stop=Stops(("b",)))
    text = "ab\n</think>\n\nxbz" if entry == "inside" else "xbz"
    tokens = canonical(engine, text)
    message = read_answer(tokens, plan, engine, begin=Begin(entry))
    assert (message.content, message.stop_reason) == ("x", "b")
