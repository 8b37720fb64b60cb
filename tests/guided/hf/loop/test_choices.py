"""Probabilities of choices: each option as the whole answer, judged by forwards of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import guided
from guided.hf.cache.self_test import Abilities
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import GuidanceError, RequestError
from tests.made_up.models import forwards_of, poisoned


@pytest.mark.parametrize("abilities", [Abilities(), None], ids=["one by one", "all at once"])
def test_choice_probabilities_are_those_of_each_option_alone(
    tiny_guide: Any, abilities: Abilities | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if abilities is not None:
        monkeypatch.setattr("guided.hf.loop.choices.abilities_of", lambda model: abilities)
    choices: Sequence[str] = ["true", "tru", "a thing", "\N{GRINNING FACE}", *[f"option {i}" for i in range(40)]]
    found = tiny_guide.choice_probabilities("which?", choices, describe=False)
    plan = tiny_guide.plan(response_format={"enum": ["x"]})
    prompt = checked_inputs(tiny_guide.context, ["which?"], [plan]).prompt_ids[0]
    ends = sorted(tiny_guide.tokens.end_ids)
    judged = []
    for choice in choices:
        option = tiny_guide.engine.tokenize(choice)
        with torch.no_grad():
            logprobs = tiny_guide.model(torch.tensor([[*prompt, *option]])).logits[0].float().log_softmax(-1)
        written = sum(float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(option))
        judged.append(written + math.log(sum(math.exp(float(logprobs[-1, end])) for end in ends)))
    total = sum(math.exp(p) for p in judged)
    assert [c.text for c in found] == list(choices)
    for option, logprob in zip(found, judged, strict=True):
        assert option.logprob == pytest.approx(logprob, abs=1e-3)
        assert option.probability == pytest.approx(math.exp(logprob) / total, rel=1e-2)
    assert sum(c.probability for c in found) == pytest.approx(1.0)


def test_choice_probabilities_take_one_pass_over_the_options(tiny_guide: Any) -> None:
    with forwards_of(tiny_guide.model) as fed:
        tiny_guide.choice_probabilities("which?", ["true", "false", "null"], describe=False)
    assert [len(ids) for ids in fed][-2:] == [1, 3]
    with pytest.raises(RequestError):
        tiny_guide.choice_probabilities("which?", [])


def test_options_that_spell_markers_are_scored_as_the_text_that_guidance_writes(tiny_guide: Any) -> None:
    """The special token's probability was taken for that of its name."""
    choices = ["<|im_end|>", "no", "a <think>b</think>\N{GRINNING FACE}", "<think><think>"]
    plan = tiny_guide.plan(response_format=guided.Choice(choices))
    with forwards_of(tiny_guide.model) as read:
        found = tiny_guide.choice_probabilities("which?", choices, describe=False)
    for option, fed in zip(found, read[-1].tolist(), strict=True):
        ids = fed[len(fed) - option.num_tokens :]
        state = guided.GuidanceState(plan, tiny_guide.engine)
        for token in ids[: option.num_tokens]:
            assert state.allows(token)
            state.commit([token])
        assert state.is_accepting
        assert b"".join(map(tiny_guide.engine.token_bytes, ids[: option.num_tokens])).decode() == option.text
        assert not tiny_guide.tokens.marker_ids & set(ids[: option.num_tokens])


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("forward", [0, 1], ids=["prompt", "options"])
def test_choice_probabilities_of_logits_that_are_no_numbers_are_an_error(
    tiny_guide: Any, value: float, forward: int
) -> None:
    refused = pytest.raises(GuidanceError, match="choice 'true': the model's logits are not numbers")
    with poisoned(tiny_guide.model, since=forward, until=forward + 1, value=value), refused:
        tiny_guide.choice_probabilities("which?", ["true", "false"], describe=False)
