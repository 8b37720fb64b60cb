"""Static caches, no cache, and a cache that is handed in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from tests.guided.hf.generate.laws import CHATS, check_all, generate, greedy

MODE = ("static cache", "right", "processors run outside the compiled forward")
MODES = [
    ("use_cache=False", "right", "the history is all that we read"),
    ("past_key_values handed in", "right", "with full ids, or with new ids alone"),
]

NAMES = ["json", None, "choice", "regex"]


@pytest.mark.parametrize(
    "options",
    [
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"cache_implementation": "static", "do_sample": True, "top_k": 1},
    ],
    ids=str,
)
def test_every_cache_gives_the_tokens_of_greedy_search(tiny_guide: Any, options: dict[str, Any]) -> None:
    result = inputs, plans, _, messages = generate(tiny_guide, CHATS, NAMES, **options)
    check_all(tiny_guide, NAMES, result)
    for r, plan in enumerate(plans):
        if plan is not None:
            assert list(messages[r].token_ids) == greedy(tiny_guide, inputs.prompt_ids[r], plan)


@pytest.mark.parametrize("shown", ["full ids", "new ids"])
def test_a_prefix_that_is_cached(tiny_guide: Any, shown: str) -> None:
    inputs = tiny_guide.inputs(CHATS[:1], plans := [tiny_guide.plan(response_format={"type": "boolean"})])
    ids, size = inputs["input_ids"], inputs.prompt_len - 7
    cache = DynamicCache(config=tiny_guide.model.config)
    with torch.no_grad():
        tiny_guide.model(ids[:, :size], past_key_values=cache)
    options = {"input_ids": ids if shown == "full ids" else ids[:, size:], "attention_mask": inputs["attention_mask"]}
    out = tiny_guide.model.generate(
        **options, past_key_values=cache, max_new_tokens=20, do_sample=False,
        **tiny_guide.generate_kwargs(inputs, plans),
    )  # fmt: skip
    expected = greedy(tiny_guide, inputs.prompt_ids[0], plans[0], 20)
    assert out[0, options["input_ids"].shape[1] :].tolist() == expected
    full = torch.cat([ids, out[:, options["input_ids"].shape[1] :]], dim=1)
    (message,) = tiny_guide.messages(full, inputs, plans)
    assert message.parsed in (True, False)
    assert message.guidance.masks == len(expected)
