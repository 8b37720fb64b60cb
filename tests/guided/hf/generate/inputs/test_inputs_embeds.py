"""Prompts as embeddings: ``generate`` shows processors no prompt at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judges.generation import CHATS, GuidedCall, check_answer, greedy

MODE = ("inputs_embeds", "right", "with or without input_ids next to them; begins are bound by guide.batch")


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}], ids=str)
def test_embeddings_give_what_ids_give(tiny_guide: Any, with_ids: bool, options: dict[str, Any], bound: bool) -> None:
    """Embeddings, then ids, then embeddings again, with the same kwargs; an earlier output can still be read."""
    names = ["json", "choice"] if bound else ["json"]
    call = GuidedCall(tiny_guide, CHATS[: len(names)], names, bound=bound)
    inputs = call.inputs
    embeds = tiny_guide.model.get_input_embeddings()(inputs["input_ids"])
    shown = {"inputs_embeds": embeds, "attention_mask": inputs["attention_mask"]}
    if with_ids:
        shown["input_ids"] = inputs["input_ids"]
    options = {"do_sample": False, "max_new_tokens": 40} | options
    whole = call.generate(**options)
    for given in (shown, dict(inputs), shown):
        out = tiny_guide.model.generate(**given, **options, **call.kwargs)
        messages = call.read(out)
        skip = inputs.prompt_len if "input_ids" in given else 0
        for r, message in enumerate(messages):
            check_answer(tiny_guide, names[r * len(names) // len(messages)], out[r, skip:].tolist(), message)
        if len(options) == 2:
            for found in (messages, call.read(whole)):
                greedy_ids = [greedy(tiny_guide, *row) for row in zip(inputs.prompt_ids, call.plans, strict=True)]
                assert [list(message.token_ids) for message in found] == greedy_ids
