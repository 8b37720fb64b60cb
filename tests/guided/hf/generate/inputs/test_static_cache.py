"""Static caches, no cache, and a cache that is handed in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, check_all, generate, greedy, plan_of

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
    inputs = checked_inputs(
        tiny_guide.context, CHATS[:1], plans := [tiny_guide.plan(response_format={"type": "boolean"})]
    )
    ids, size = inputs["input_ids"], inputs.prompt_len - 7
    cache = DynamicCache(config=tiny_guide.model.config)
    with torch.no_grad():
        tiny_guide.model(ids[:, :size], past_key_values=cache)
    options = {"input_ids": ids if shown == "full ids" else ids[:, size:], "attention_mask": inputs["attention_mask"]}
    out = tiny_guide.model.generate(
        **options, past_key_values=cache, max_new_tokens=20, do_sample=False,
        **generate_kwargs(tiny_guide.context, inputs, plans),
    )  # fmt: skip
    expected = greedy(tiny_guide, inputs.prompt_ids[0], plans[0], 20)
    assert out[0, options["input_ids"].shape[1] :].tolist() == expected
    (message,) = read_messages(tiny_guide.context, out, inputs, plans)
    assert message.parsed in (True, False)
    assert message.token_ids == tuple(expected)
    assert message.guidance.masks == len(expected)


@pytest.mark.parametrize("size", [1, 6, -1])
@pytest.mark.parametrize("expand", [1, 2])
def test_new_ids_alone_in_a_batch_and_then_all_ids(tiny_guide: Any, size: int, expand: int) -> None:
    """The messages of what came out as it came out, for all outputs of the same kwargs."""
    plans = [plan_of(tiny_guide, name) for name in ("json", "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:2], plans)
    kwargs = generate_kwargs(tiny_guide.context, inputs, plans)
    options = {"max_new_tokens": 40, "do_sample": True, "top_k": 1, "num_return_sequences": expand}
    whole = tiny_guide.model.generate(**inputs, **options, **kwargs)
    expected = [(m.content, m.token_ids) for m in read_messages(tiny_guide.context, whole, inputs, plans)]
    assert [m.finish_reason for m in read_messages(tiny_guide.context, whole, inputs, plans)] == ["stop"] * 2 * expand
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    for _ in range(2):
        cache = DynamicCache(config=tiny_guide.model.config)
        with torch.no_grad():
            tiny_guide.model(
                ids[:, :size].repeat_interleave(expand, 0), attention_mask=mask[:, :size].repeat_interleave(expand, 0),
                position_ids=(mask.cumsum(-1) - 1).clamp(min=0)[:, :size].repeat_interleave(expand, 0),
                past_key_values=cache,
            )  # fmt: skip
        out = tiny_guide.model.generate(
            input_ids=ids[:, size:], attention_mask=mask, past_key_values=cache, **options, **kwargs
        )
        assert out.shape[1] < whole.shape[1]
        for output in (out, whole, out):
            messages = read_messages(tiny_guide.context, output, inputs, plans)
            assert [(m.content, m.token_ids) for m in messages] == expected
    if size > 0:  # the last token of all prompts is the same
        with pytest.raises(PlanError, match="row 0 does not begin with the prompt"):
            read_messages(tiny_guide.context, out.flip(0), inputs, plans)
