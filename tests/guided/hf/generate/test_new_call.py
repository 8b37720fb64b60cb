"""Beginnings of calls where nothing but histories is shown: kwargs without inputs, the processor alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grammars.values.constraints import Regex
from guided.hf.generate.call import generate_kwargs
from special_tokens.errors import PlanError


@pytest.fixture
def session(tiny_guide: Any) -> Any:
    plan = tiny_guide.plan(response_format=Regex("[a-z]{12}"))
    return generate_kwargs(tiny_guide.context, None, plan)["logits_processor"][0].session


def read(session: Any, ids: list[int], *, is_step: bool = True) -> list[int]:
    """Show one row of ``ids``; return what the row counts as written."""
    assert session.read(torch.tensor([ids]), session.engine.vocab_size if is_step else None)
    return list(session.rows[0].state.tokens)


@pytest.fixture
def letter(tiny_guide: Any) -> int:
    (token,) = tiny_guide.tokenizer("q", add_special_tokens=False)["input_ids"]
    return int(token)


@pytest.mark.parametrize("more", range(3, 8))
def test_a_longer_prompt_is_not_taken_for_the_running_answer(session: Any, letter: int, more: int) -> None:
    """The processor alone shows a prompt and five tokens; then a prompt that begins as the first one did."""
    for size in range(6):
        assert read(session, [5, 6, *[letter] * size]) == [letter] * size
    other = [5, 6, *[7] * more]
    if more > 6:
        assert read(session, other) == []
    else:
        with pytest.raises(PlanError, match="does not go on from the one before it"):
            read(session, other)


def test_a_prompt_of_one_token_begins_a_call_after_an_interrupted_one(session: Any, letter: int) -> None:
    for size in range(3):
        read(session, [5, 6, *[letter] * size])
        read(session, [5, 6, *[letter] * (size + 1)], is_step=False)
    read(session, [5, 6, *[letter] * 3])  # here a later processor raised
    for _ in range(2):
        assert read(session, [1]) == []
    assert read(session, [1, letter], is_step=False) == [letter]
