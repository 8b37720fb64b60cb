"""In our own loop: answers of random models are whole within their budgets, and unchanged far from them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import jsonschema
import pytest

import guided
from grammars.plan.plan import RegionName
from guided.inspect.shortest import min_tokens
from guided.rows.sequence import RowSequence
from special_tokens.errors import RequestError
from tests.cases import seeds
from tests.conftest import CHAT_TEMPLATE
from tests.made_up.schemas import closed

CHATS = ["Who is it?", [{"role": "user", "content": "List them."}]]
SCHEMA = closed(
    {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    }
)
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}]
REQUESTS: dict[str, dict[str, Any]] = {
    "json": {"response_format": SCHEMA, "thinking": False},
    "json after reasoning": {"response_format": SCHEMA, "reasoning_effort": "low"},
    "call": {"tools": TOOLS, "tool_choice": "required"},
    "regex": {"response_format": guided.Regex("[A-Z]{3}(-[0-9]{2,9}){1,4}")},
    "lark": {"response_format": guided.Lark('start: "[" start? "]" | "(" start ")"')},
}


def check(message: guided.Message, request: dict[str, Any]) -> None:
    assert message.finish_reason in ("stop", "tool_calls"), message
    assert message.error is None
    if "tools" in request:
        assert message.tool_calls
        for call in message.tool_calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMA)
    elif request["response_format"] is SCHEMA:
        jsonschema.validate(json.loads(message.content or ""), SCHEMA)


@pytest.mark.parametrize("seed", seeds(8, default=2))
def test_rows_of_all_kinds_are_whole_side_by_side(tiny_guide: Any, seed: int) -> None:
    chance = random.Random(seed)
    plans = {name: tiny_guide.plan(**request) for name, request in REQUESTS.items()}
    for name, plan in plans.items():
        least = min_tokens(plan, tiny_guide.engine, entry="fresh")
        most = least + chance.choice([0, 1, 2, 3, 5, 10])
        sampling = guided.Sampling(temperature=chance.choice([0.0, 1.0, 3.0]), seed=seed)
        messages = tiny_guide.generate(CHATS, [plan, None], sampling=sampling, max_tokens=most)
        check(messages[0], REQUESTS[name])
        assert len(messages[0].token_ids) <= most
        assert messages[1].landed is None
        again = tiny_guide.generate(CHATS[:1], [plan], sampling=sampling, max_tokens=most)[0]
        if sampling.temperature:
            assert again.token_ids == messages[0].token_ids


@pytest.mark.parametrize("request_name", [*REQUESTS, "free text", "text after reasoning"])
def test_a_run_that_never_comes_near_its_budget_is_unchanged_to_the_bit(tiny_guide: Any, request_name: str) -> None:
    others: dict[str, Any] = {"text after reasoning": {"thinking": True}}
    plan = tiny_guide.plan(**(REQUESTS | others).get(request_name, {}))
    sampling = guided.Sampling(temperature=1.0, seed=5, logprobs=2)
    most = 40 if request_name == "free text" else 150  # free text may be cut anywhere
    on, off = (
        tiny_guide.generate(CHATS[:1], [plan], sampling=sampling, max_tokens=most, landing=landing, reuse=False)[0]
        for landing in (True, False)
    )
    size = len(on.token_ids) if on.landed is None else on.landed
    assert size > 3
    assert on.token_ids[:size] == off.token_ids[:size]
    assert on.logprobs[:size] == off.logprobs[:size]
    assert on.landed is None or request_name != "free text" or on.landed >= most - 4  # the last character is whole


def test_drafts_land_where_the_loop_without_them_lands(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(**REQUESTS["json"])
    most = tiny_guide.check(plan).min_tokens + 12
    chat = 'Repeat: {"name": "aaaa", "age": 31, "tags": ["x", "y"]}'
    options = {"temperature": 1.0, "seed": 3, "max_tokens": most}
    plain = tiny_guide.chat(chat, plan, **options)
    drafted = tiny_guide.chat(chat, plan, prompt_lookup_num_tokens=6, **options)
    check(plain, REQUESTS["json"])
    assert drafted.token_ids == plain.token_ids
    assert drafted.landed == plain.landed


def test_a_stream_and_a_trace_show_where_landing_began(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(**REQUESTS["json"])
    most = tiny_guide.check(plan).min_tokens + 6
    stream = tiny_guide.stream(CHATS[0], plan, max_tokens=most, temperature=2.0, seed=1, trace=True)
    seen = [stream.landed for _ in stream]
    landed = stream.message.landed
    assert landed is not None
    assert seen[-1] == stream.landed == landed
    assert set(seen) <= {None, landed}
    events = {i: token.events for i, token in enumerate(stream.message.trace.tokens) if token.events}
    assert events[landed] == ("max_tokens is near: from here on only tokens that can still finish in time are allowed",)
    assert "max_tokens is near" in stream.message.trace.to_html()


def test_a_call_after_reasoning_that_the_budget_ended_is_the_models_own(tiny_guide: Any) -> None:
    """The judge notes where tokens were refused."""

    def turn(on: bool) -> bool:
        """Turn it."""
        return on

    def name(text: str) -> str:
        """Name it."""
        return text

    own = landed = 0
    for tool, extra, seed in [(turn, 60, 0), (turn, 60, 1), (turn, 8, 2), (name, 2, 3), (name, 40, 4)]:
        plan = tiny_guide.plan(tools=[tool], tool_choice="required", reasoning_effort="high")
        most = tiny_guide.check(plan).min_tokens + extra
        refused: list[tuple[int, bool]] = []
        with pytest.MonkeyPatch.context() as patch:
            note = RowSequence.note_landing

            def noted(row: RowSequence, token: int, refused: Any = refused, note: Any = note) -> None:
                refused.append((row.num_tokens, row.state.region is RegionName.REASONING))
                note(row, token)

            patch.setattr(RowSequence, "note_landing", noted)
            message = tiny_guide.chat(CHATS[0], plan, max_tokens=most, temperature=1.0, seed=seed)
        (call,) = message.tool_calls
        assert message.landed == (refused[0][0] if refused else None)
        assert call.landed == (not all(is_reasoning for _, is_reasoning in refused))
        own += bool(refused) and not call.landed
        landed += call.landed
    assert own
    assert landed


def test_a_stop_sequence_in_the_shortest_answer_is_said(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(**REQUESTS["json"], stop=", ")
    message = tiny_guide.chat(CHATS[0], plan, max_tokens=200, temperature=2.0, seed=1)
    note = "the answer may be cut: the shortest answer found contains a stop sequence"
    assert message.notes[-1] == note
    assert message.landed is None


def test_without_landing_the_budget_cuts_and_nothing_is_said(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(**REQUESTS["json"])
    message = tiny_guide.chat(CHATS[0], plan, max_tokens=25, landing=False, temperature=2.0, seed=1)
    assert message.finish_reason == "length"
    assert message.landed is None
    assert message.notes == plan.notes


def test_a_short_budget_is_said_in_a_note_or_refused_before_the_first_token(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(**REQUESTS["json"])
    least = tiny_guide.check(plan).min_tokens
    message = tiny_guide.chat(CHATS[0], plan, max_tokens=least - 1, temperature=2.0, seed=1)
    assert message.finish_reason == "length"
    assert message.notes[-1] == (
        f"the answer may be cut: {least - 1} tokens cannot hold the shortest answer found, which has {least}"
    )
    with pytest.raises(RequestError, match=f"has {least}"):
        tiny_guide.chat(CHATS[0], plan, max_tokens=least - 1, short_budget="error")
    check(tiny_guide.chat(CHATS[0], plan, max_tokens=least, short_budget="error"), REQUESTS["json"])


@pytest.mark.parametrize(("name", "value"), [("string_tokens", -1), ("string_tokens", 1.5), ("answer_share", 2)])
def test_options_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        guided.LandingOptions(**{name: value})
    assert caught.value.place == f"landing.{name}"


@pytest.mark.parametrize("opened", ["", "<think>\n", "<think>", "<think>\n\n</think>\n\n"])
@pytest.mark.parametrize("asked", [{}, {"thinking": True}, {"reasoning_effort": "low"}], ids=str)
def test_the_least_holds_where_the_prompt_opens_the_reasoning(
    tiny_guide: Any, opened: str, asked: dict[str, Any]
) -> None:
    """It was counted from the beginning of an answer, where the plan allows none: a row needed two tokens more."""
    tokenizer = copy.deepcopy(tiny_guide.tokenizer)
    tokenizer.chat_template = CHAT_TEMPLATE.replace("assistant\n", f"assistant\n{opened}")
    guide = guided.Guide(tiny_guide.model, tokenizer)
    plan = guide.plan(response_format={"type": "object", "required": ["ok"]}, **asked)
    least = guide.check(plan).min_tokens
    assert guide.chat("Is it?", plan, max_tokens=least, temperature=1.0, seed=1).complete
    with pytest.raises(RequestError, match=f"shortest answer found, which has {least}\\b"):
        guide.chat("Is it?", plan, max_tokens=least - 1, short_budget="error")
