"""Static caches, no cache, a cache that is handed in, and prompts fed to the model in chunks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, GuidedCall, check_greedy, generate

MODE = ("static cache", "right", "processors run outside the compiled forward")
MODES = [
    ("use_cache=False", "right", "the history is all that we read"),
    ("past_key_values handed in", "right", "with full ids, or with new ids alone"),
    ("chunked prefill (prefill_chunk_size)", "right", "processors see the prompt once, whatever the chunks"),
]

NAMES = ["json", None, "choice", "regex"]


@pytest.mark.parametrize(
    "options",
    [
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"cache_implementation": "static", "do_sample": True, "top_k": 1},
        {"prefill_chunk_size": 1},
        {"prefill_chunk_size": 5},
        {"prefill_chunk_size": 1000},
    ],
    ids=str,
)
def test_every_cache_gives_the_tokens_of_greedy_search(tiny_guide: Any, options: dict[str, Any]) -> None:
    result = _, plans, _, messages = generate(tiny_guide, CHATS, NAMES, **options)
    check_greedy(tiny_guide, NAMES, result)
    for message, plan in zip(messages, plans, strict=True):
        if plan is not None:
            assert message.guidance.masks == message.guidance.commits == len(message.token_ids)


@pytest.mark.parametrize("size", [1, 6, -1])
@pytest.mark.parametrize("expand", [1, 2])
def test_a_prefix_that_is_cached_and_then_none(tiny_guide: Any, size: int, expand: int) -> None:
    """The messages of what came out as it came out, for all outputs of the same kwargs."""
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", "choice"])
    options = {"do_sample": True, "top_k": 1, "num_return_sequences": expand}
    whole = call.generate(**options)
    expected = [(m.content, m.token_ids, m.guidance.masks) for m in call.read(whole)]
    assert [m.finish_reason for m in call.read(whole)] == ["stop"] * 2 * expand
    ids, mask = call.inputs["input_ids"], call.inputs["attention_mask"]
    for given in (ids, ids[:, size:]):
        cache = DynamicCache(config=tiny_guide.model.config)
        with torch.no_grad():
            tiny_guide.model(
                ids[:, :size].repeat_interleave(expand, 0), attention_mask=mask[:, :size].repeat_interleave(expand, 0),
                position_ids=(mask.cumsum(-1) - 1).clamp(min=0)[:, :size].repeat_interleave(expand, 0),
                past_key_values=cache,
            )  # fmt: skip
        out = call.generate(input_ids=given, past_key_values=cache, **options)
        assert whole.shape[1] - out.shape[1] == ids.shape[1] - given.shape[1]
        for output in (out, whole, out):
            assert [(m.content, m.token_ids, m.guidance.masks) for m in call.read(output)] == expected
    if size > 0:  # the last token of all prompts is the same
        with pytest.raises(PlanError, match="row 0 does not begin with the prompt"):
            call.read(out.flip(0))
