"""Decoding loops of others that pass our processors on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, check_all, check_greedy, generate

MODE = ("custom_generate callables", "right", "with our stopping criterion or without it")


def simple_loop(model: Any, input_ids: Any, logits_processor: Any, stopping_criteria: Any, generation_config: Any,
                with_criteria: bool = True, buffered: bool = False, dtype: torch.dtype = torch.float32,
                **model_kwargs: Any) -> torch.Tensor:  # fmt: skip
    """A loop without cache, in the way of a tutorial; ``buffered`` keeps the history in one buffer."""
    mask = model_kwargs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    size = generation_config.max_length
    buffer = torch.zeros((len(input_ids), size), dtype=torch.long)
    buffer[:, : input_ids.shape[1]] = input_ids
    unfinished = torch.ones(len(input_ids), dtype=torch.bool)
    while input_ids.shape[1] < size and bool(unfinished.any()):
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = model(input_ids, attention_mask=mask, position_ids=positions, use_cache=False).logits[:, -1]
        scores = logits_processor(input_ids, logits.to(dtype))
        assert scores.dtype is dtype
        assert bool((scores > float("-inf")).any(-1).all())
        tokens = torch.where(unfinished, scores.argmax(-1), generation_config._pad_token_tensor)
        buffer[:, input_ids.shape[1]] = tokens
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=-1)
        input_ids = buffer[:, : mask.shape[1]] if buffered else torch.cat([input_ids, tokens[:, None]], dim=-1)
        if with_criteria:
            unfinished = unfinished & ~stopping_criteria(input_ids, None)
        else:
            unfinished = unfinished & ~torch.isin(tokens, generation_config._eos_token_tensor)
    return input_ids


@pytest.mark.parametrize("with_criteria", [True, False])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_loop_of_a_tutorial(tiny_guide: Any, with_criteria: bool, buffered: bool) -> None:
    names = ["json", None, "choice", "regex"]
    options = {"custom_generate": simple_loop, "with_criteria": with_criteria, "buffered": buffered}
    check_greedy(tiny_guide, names, generate(tiny_guide, CHATS, names, **options))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_loop_that_keeps_the_models_dtype(tiny_guide: Any, dtype: torch.dtype) -> None:
    """``generate`` gives processors float32; other loops may not."""
    names = ["json", "choice"]
    check_all(tiny_guide, names, generate(tiny_guide, CHATS[:2], names, custom_generate=simple_loop, dtype=dtype))
