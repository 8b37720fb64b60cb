"""Reasoning leaves room: the answer comes whatever the effort and the limit are, and a note says what was cut short."""

from __future__ import annotations

from typing import Any

import pytest

import guided

FORMAT = guided.Choice(["yes", "no"])


@pytest.mark.parametrize("effort", ["minimal", "low", "max"])
@pytest.mark.parametrize("max_tokens", [40, 120])
def test_F5_the_answer_comes_within_the_limit(tiny_guide: Any, effort: str, max_tokens: int) -> None:
    """It was empty: 117 of 120 tokens were reasoning."""
    message = tiny_guide.chat(
        "hi", response_format=FORMAT, reasoning_effort=effort, max_tokens=max_tokens, temperature=1.0, seed=1
    )
    assert message.parsed in ("yes", "no")
    assert message.usage.completion_tokens <= max_tokens
    assert message.usage.reasoning_tokens > 5
    budget = {"minimal": 64, "low": 256, "max": None}[effort]
    short = budget is not None and budget >= max_tokens
    text = f"reasoning_effort='{effort}' may take {budget} tokens, max_tokens is {max_tokens}"
    notes = [note for note in message.notes if "left no room" not in note]
    assert [note.startswith(text) for note in notes] == [True] * short


def test_max_is_what_is_left(tiny_guide: Any) -> None:
    """No budget of its own: with twice the limit it may be twice as long."""
    assert tiny_guide.plan(response_format=FORMAT, reasoning_effort="max").budgets == ()
    sizes = [
        tiny_guide.chat(
            "hi", response_format=FORMAT, reasoning_effort="max", max_tokens=most, temperature=1.0, seed=1
        ).usage.reasoning_tokens
        for most in (50, 100, 200)
    ]
    assert [size > 0.7 * most for size, most in zip(sizes, (50, 100, 200), strict=True)] == [True] * 3


def test_the_note_comes_with_a_finished_plan_and_a_body_as_well(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=FORMAT, reasoning_effort="low")
    assert plan.notes == ()
    note, *_ = tiny_guide.chat("hi", plan, max_tokens=40, temperature=0).notes
    assert "may take 256 tokens, max_tokens is 40" in note
    assert tiny_guide.plan(reasoning_effort="low", max_tokens=300).notes == ()
    body = {"messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "low", "max_completion_tokens": 40}
    answer = tiny_guide.complete(body)
    assert answer["guided"]["notes"][:1] == [note]
