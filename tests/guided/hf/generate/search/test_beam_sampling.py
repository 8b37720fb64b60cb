"""Beam search that samples its candidates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.guided.hf.generate.search.test_beams import finished
from tests.judges.generation import CHATS, check_answer, generate, judge_kwargs

MODE = ("beam sampling", "right", "as beam search; candidates are drawn among the legal tokens")


@pytest.mark.parametrize("name", ["json", "regex"])
@pytest.mark.parametrize("seed", range(4))
def test_sampled_beams_are_those_of_a_search_that_forgets_everything(tiny_guide: Any, name: str, seed: int) -> None:
    options = {"num_beams": 3, "do_sample": True, "top_k": 0, "temperature": 1.5, "max_new_tokens": 30}
    torch.manual_seed(seed)
    inputs, plans, out, messages = generate(tiny_guide, CHATS[:2], [name, name], **options)
    torch.manual_seed(seed)
    judge = tiny_guide.model.generate(**inputs, **options, **judge_kwargs(tiny_guide, inputs, plans))
    for r, message in enumerate(messages):
        row, other = out[r, inputs.prompt_len :].tolist(), judge[r, inputs.prompt_len :].tolist()
        assert finished(tiny_guide, plans[r], row) == finished(tiny_guide, plans[r], other)
        check_answer(tiny_guide, name, row, message)


def test_one_legal_token_and_many_beams(tiny_guide: Any) -> None:
    """Fewer candidates with a probability than are drawn: nothing raises, the answer is right."""
    from grammars.values.constraints import Choice

    plan = tiny_guide.plan(response_format=Choice(["only this"]))
    torch.manual_seed(0)
    *_, (message,) = generate(tiny_guide, CHATS[:1], [plan], num_beams=5, do_sample=True, top_p=0.5)
    assert (message.content, message.finish_reason) == ("only this", "stop")
