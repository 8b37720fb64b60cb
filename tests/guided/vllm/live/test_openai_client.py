"""OpenAI's client, unmodified, meets the same Chat Completions as at `guided serve`: the same tests."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the package openai, whose client is the judge")

from tests.guided.serve.test_openai_client import (
    USER,
    client,
    test_a_custom_tool,
    test_a_stream_of_a_parsed_answer,
    test_logprobs_n_and_usage,
    test_parse,
    test_reasoning_is_apart,
    test_streamed_tools_name_a_call_once,
    test_tools_and_the_next_turn,
)
from tests.guided.vllm.live.conftest import MODEL

__all__ = [
    "client",
    "test_a_custom_tool",
    "test_a_stream_of_a_parsed_answer",
    "test_logprobs_n_and_usage",
    "test_parse",
    "test_reasoning_is_apart",
    "test_streamed_tools_name_a_call_once",
    "test_tools_and_the_next_turn",
]


def test_a_stream_of_reasoning(client: Any) -> None:
    asked = {"reasoning_effort": "minimal", "response_format": {"type": "json_object"}, "max_tokens": 200}
    chunks = list(client.chat.completions.create(model=MODEL, messages=USER, stream=True, temperature=0, **asked))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    kinds = ["reasoning" if getattr(delta, "reasoning_content", None) else "content" for delta in deltas if
             getattr(delta, "reasoning_content", None) or delta.content]  # fmt: skip
    assert kinds == sorted(kinds, reverse=True)  # all of the reasoning is before the answer
    assert set(kinds) == {"reasoning", "content"}


def test_a_stop(client: Any) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=USER, temperature=0, max_tokens=40, stop=["e"])
    (choice,) = whole.choices
    assert choice.finish_reason == "stop"
    assert "e" not in choice.message.content
    assert choice.stop_reason == "e"


def test_several_greedy_answers_are_one(client: Any) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=USER, temperature=0, max_tokens=6, n=3)
    assert len({choice.message.content for choice in whole.choices}) == 1
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
