"""Prompts of different lengths in one batch, padded on the left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judges.generation import CHATS, GuidedCall, generate, greedy

MODE = ("left padding", "right", "padding is not part of a row's history; rows are those of unpadded prompts")

NAMES = ["json", "choice", "regex", "json"]


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 1}], ids=["greedy", "sampled"])
def test_left_padding_changes_no_row(tiny_guide: Any, options: dict[str, Any]) -> None:
    inputs, plans, _, messages = generate(tiny_guide, CHATS, NAMES, **options)
    assert len({len(ids) for ids in inputs.prompt_ids}) > 2
    for r, message in enumerate(messages):
        assert list(message.token_ids) == greedy(tiny_guide, inputs.prompt_ids[r], plans[r])
        assert message.usage.prompt_tokens == len(inputs.prompt_ids[r])


def test_a_prompt_padded_further_is_the_same_prompt(tiny_guide: Any) -> None:
    """The kwargs belong to the prompts, not to the width that they were padded to."""
    import torch

    call = GuidedCall(tiny_guide, CHATS[:2], NAMES[:2])
    rows, messages = call.run()
    wider = {
        "input_ids": torch.nn.functional.pad(call.inputs["input_ids"], (3, 0), value=tiny_guide.context.pad_id),
        "attention_mask": torch.nn.functional.pad(call.inputs["attention_mask"], (3, 0)),
    }
    again = call.generate(**wider)[:, call.inputs.prompt_len + 3 :].tolist()
    for row, message in zip(again, messages, strict=True):
        assert tuple(row[: len(message.token_ids)]) == message.token_ids
    assert len(again[0]) == len(rows[0])
