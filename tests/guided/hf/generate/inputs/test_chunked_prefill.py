"""Prompts fed to the model in chunks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judges.generation import CHATS, check_greedy, generate

MODE = ("chunked prefill (prefill_chunk_size)", "right", "processors see the prompt once, whatever the chunks")

NAMES = ["json", None, "choice", "regex"]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_chunks_give_the_tokens_of_greedy_search(tiny_guide: Any, size: int) -> None:
    result = _, plans, _, messages = generate(tiny_guide, CHATS, NAMES, prefill_chunk_size=size)
    check_greedy(tiny_guide, NAMES, result)
    for message, plan in zip(messages, plans, strict=True):
        if plan is not None:
            assert message.guidance.masks == message.guidance.commits == len(message.token_ids)
