"""Prompts as embeddings: ``generate`` shows processors no prompt at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, GuidedCall, check_answer, greedy

MODE = ("inputs_embeds", "right", "with or without input_ids next to them; begins are bound by guide.batch")


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}], ids=str)
def test_embeddings_give_what_ids_give(tiny_guide: Any, with_ids: bool, options: dict[str, Any]) -> None:
    names = ["json", "choice"]
    call = GuidedCall(tiny_guide, CHATS[:2], names)
    inputs = call.inputs
    embeds = tiny_guide.model.get_input_embeddings()(inputs["input_ids"])
    shown: dict[str, torch.Tensor] = {"inputs_embeds": embeds, "attention_mask": inputs["attention_mask"]}
    if with_ids:
        shown["input_ids"] = inputs["input_ids"]
    options = {"do_sample": False} | options
    for _ in range(2):  # the same objects again
        out = tiny_guide.model.generate(**shown, max_new_tokens=40, **options, **call.kwargs)
        messages = call.read(out)
        skip = inputs.prompt_len if with_ids else 0
        for r, message in enumerate(messages):
            name = names[r // (len(messages) // 2)]
            check_answer(tiny_guide, name, out[r, skip:].tolist(), message)
            if options == {"do_sample": False}:
                assert list(message.token_ids) == greedy(tiny_guide, inputs.prompt_ids[r], call.plans[r])


@pytest.mark.parametrize("bound", [True, False])
def test_embeddings_and_then_ids_with_the_same_kwargs(tiny_guide: Any, bound: bool) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], bound=bound)
    expected = greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])
    embeds = tiny_guide.model.get_input_embeddings()(call.inputs["input_ids"])
    whole = call.generate()
    for shown in ({"inputs_embeds": embeds}, dict(call.inputs), {"inputs_embeds": embeds}):
        out = tiny_guide.model.generate(**shown, max_new_tokens=40, do_sample=False, **call.kwargs)
        for output in (out, whole):  # an earlier output can still be read
            (message,) = call.read(output)
            assert list(message.token_ids) == expected
