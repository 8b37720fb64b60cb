"""Prompt lookup: drafts are taken from the prompt."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, check_all, check_greedy, generate, judge_kwargs
from tests.made_up.models import forwards_of

MODE = ("prompt lookup", "right", "drafts are tested by the mask and taken back; the tokens are those of greedy search")

PROMPTS = [*CHATS[:2], '{"ok": true, "n": 7} and {"ok": false, "n": 12}', "yesterday yes no abcabcx"]


@pytest.mark.parametrize("name", ["json", "choice", "regex"])
@pytest.mark.parametrize("num_drafts", [1, 3, 10])
def test_the_tokens_are_those_of_greedy_search(tiny_guide: Any, name: str, num_drafts: int) -> None:
    for chat in PROMPTS:
        check_greedy(tiny_guide, [name], generate(tiny_guide, [chat], [name], prompt_lookup_num_tokens=num_drafts))


def test_drafts_save_forwards_and_rollbacks_are_counted(tiny_guide: Any) -> None:
    """A drafts' test that lost its place would refuse all drafts: as many forwards as tokens."""
    with forwards_of(tiny_guide.model) as forwards:
        *_, messages = generate(tiny_guide, PROMPTS[2:3], ["json"], prompt_lookup_num_tokens=6)
    assert len(forwards) < len(messages[0].token_ids)
    assert messages[0].guidance.rollbacks > 0


@pytest.mark.parametrize("seed", range(3))
def test_sampling_with_drafts_is_that_of_the_judge(tiny_guide: Any, seed: int) -> None:
    options = {"do_sample": True, "top_k": 0, "prompt_lookup_num_tokens": 4}
    torch.manual_seed(seed)
    result = inputs, plans, out, _ = generate(tiny_guide, PROMPTS[2:3], ["json"], **options)
    check_all(tiny_guide, ["json"], result)
    torch.manual_seed(seed)
    judge = tiny_guide.model.generate(**inputs, **options, max_new_tokens=40, **judge_kwargs(tiny_guide, inputs, plans))
    assert torch.equal(out, judge)
