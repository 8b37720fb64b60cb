"""Greedy search."""

from __future__ import annotations

from typing import Any

import pytest

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from tests.judges.generation import CHATS, FORMATS, check_greedy, generate, plan_of
from tests.made_up.models import forwards_of

MODE = ("greedy", "right", "the tokens of a search by whole forwards and a fresh state per token")


@pytest.mark.parametrize("name", FORMATS)
def test_greedy_equals_the_search_without_cache_or_memory(tiny_guide: Any, name: str) -> None:
    for chat in CHATS:
        check_greedy(tiny_guide, [name], generate(tiny_guide, [chat], [name]))


@pytest.mark.parametrize("name", FORMATS)
def test_once_one_mask_one_sample_one_commit_per_token(tiny_guide: Any, name: str) -> None:
    with forwards_of(tiny_guide.model) as samples:
        *_, messages = generate(tiny_guide, CHATS[:1], [name])
    guidance, size = messages[0].guidance, len(messages[0].token_ids)
    assert (guidance.masks, len(samples), guidance.commits) == (size, size, size)
    assert (guidance.rollbacks, guidance.rescued) == (0, 0)


def test_overridden_and_forced_steps_are_counted(tiny_guide: Any) -> None:
    inputs, _, out, messages = generate(
        tiny_guide, CHATS[:1], ["choice"], output_logits=True, output_scores=True, return_dict_in_generate=True
    )
    tokens = out.sequences[0, inputs.prompt_len :].tolist()
    best = [int(step[0].argmax()) for step in out.logits]
    guidance = messages[0].guidance
    assert guidance.overridden == sum(a != b for a, b in zip(best, tokens, strict=True)) > 0
    legal = [int((step[0] > float("-inf")).sum()) for step in out.scores]
    assert guidance.forced == legal.count(1)


def test_a_plan_from_another_guide_is_refused_before_the_first_token(tiny_guide: Any, plain_engine: Any) -> None:
    from grammars.compose.compose import Parts, compose
    from special_tokens.errors import PlanError

    foreign = compose(Parts(), tokens=plain_engine.tokens, format=tiny_guide.format)
    inputs = checked_inputs(tiny_guide.context, CHATS[:1])
    with pytest.raises(PlanError, match="belongs to vocabulary"):
        generate_kwargs(tiny_guide.context, inputs, [foreign])
    assert plan_of(tiny_guide, "choice").fingerprint == tiny_guide.tokens.fingerprint
