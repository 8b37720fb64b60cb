"""Reasoning before free text: it is closed in time, and leaves room for the answer."""

from __future__ import annotations

import random
from typing import Any

import pytest

import guided
from grammars.plan.plan import RegionName
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.rows.answer import read_answer
from tests.cases import seeds, slow_where
from tests.guided.landing.test_control import BUDGETS, row_of, written
from tests.judges.plans import plan_of

_ZIP = {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["zip"]}
_TOOL = {"type": "function", "function": {"name": "find", "parameters": _ZIP}}
REQUESTS: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": True},
    "low effort": {"reasoning_effort": "low"},
    "low effort, a number": {"reasoning_effort": "low", "response_format": {"type": "integer"}},
    "thinking, a tool may be called": {"thinking": True, "tools": [_TOOL]},
    "structured effort of several parts": {"reasoning_effort": "high", "reasoning_preset": "structured"},
    "chain of thought, of more parts": {"reasoning_effort": "chain_of_thought"},
    "structured effort, a tool may be called": {"reasoning_effort": "low", "reasoning_preset": "structured",
                                                "tools": [_TOOL]},
}  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS)
def test_reasoning_before_text_has_a_small_least(engine: Engine, demo_guide: Any, request_: str) -> None:
    """No end was found in seconds: nothing but the region shows that reasoning ends where its markers are text.

    Of a chain of thought one was found whose question went on to its last character, 130 tokens.
    """
    most = 85 if "more parts" in request_ else 70 if "parts" in request_ else 12
    assert demo_guide.check(demo_guide.plan(**REQUESTS[request_])).min_tokens <= most
    assert min_tokens(plan_of(engine, **REQUESTS[request_]), engine) <= (160 if "parts" in request_ else 30)


@pytest.mark.parametrize("seed", seeds(30, default=1))
@pytest.mark.parametrize("request_", REQUESTS)
def test_reasoning_ends_within_any_budget(demo_guide: Any, request_: str, seed: int) -> None:
    engine, plan = demo_guide.engine, demo_guide.plan(**REQUESTS[request_])
    chance, least = random.Random(f"{request_} {seed}"), demo_guide.check(plan).min_tokens
    extra = chance.choice(BUDGETS)
    row = row_of(plan, engine, least + extra)
    tokens = written(row, chance, least + extra)
    answer = read_answer(tokens, plan, engine)
    assert answer.content or answer.tool_calls, (extra, b"".join(map(engine.token_bytes, tokens)))
    assert row.state.region is not RegionName.REASONING


@pytest.mark.parametrize("most", slow_where(lambda most: most > 20, (20, 40)))
def test_reasoning_leaves_room_for_the_text_after_it(demo_guide: Any, most: int) -> None:
    plan, sizes = demo_guide.plan(thinking=True), []
    for string_tokens in (0, 8):
        landing = guided.LandingOptions(string_tokens=string_tokens)
        message = demo_guide.chat("Who are you?", plan, max_tokens=most, temperature=0, landing=landing)
        assert not message.reasoning.endswith(">")  # the way's own first byte was written there
        sizes.append(len(demo_guide.engine.tokenize(message.content)))
    assert 0 < sizes[0] < 4 < sizes[1] <= 9
