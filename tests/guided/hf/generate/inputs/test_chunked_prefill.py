"""Prompts fed to the model in chunks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judges.generation import CHATS, check_all, generate, greedy

MODE = ("chunked prefill (prefill_chunk_size)", "right", "processors see the prompt once, whatever the chunks")

NAMES = ["json", None, "choice", "regex"]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_chunks_give_the_tokens_of_greedy_search(tiny_guide: Any, size: int) -> None:
    result = inputs, plans, _, messages = generate(tiny_guide, CHATS, NAMES, prefill_chunk_size=size)
    check_all(tiny_guide, NAMES, result)
    for r, plan in enumerate(plans):
        if plan is not None:
            assert list(messages[r].token_ids) == greedy(tiny_guide, inputs.prompt_ids[r], plan)
            guidance = messages[r].guidance
            assert guidance.masks == guidance.commits == len(messages[r].token_ids)
