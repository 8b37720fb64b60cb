"""Classifier-free guidance: the scores of two prompts are mixed before our mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.inputs import checked_inputs
from tests.judges.generation import CHATS, check_all, generate, judge_kwargs

MODE = ("classifier-free guidance (guidance_scale)", "right", "the mask applies to the mixed scores")


@pytest.mark.parametrize("scale", [0.5, 1.7, 4.0])
@pytest.mark.parametrize("name", ["json", "regex"])
def test_the_mixture_is_masked(tiny_guide: Any, name: str, scale: float) -> None:
    negative = checked_inputs(tiny_guide.context, ["do not say a thing"])["input_ids"]
    options = {"guidance_scale": scale, "negative_prompt_ids": negative}
    result = inputs, plans, out, _ = generate(tiny_guide, CHATS[:1], [name], **options)
    check_all(tiny_guide, [name], result)
    judge = tiny_guide.model.generate(
        **inputs, max_new_tokens=40, do_sample=False, **options, **judge_kwargs(tiny_guide, inputs, plans)
    )
    assert torch.equal(out, judge)
