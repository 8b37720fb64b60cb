"""Several sampled rows for each prompt."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, check_all, generate, plan_of

MODE = ("num_return_sequences", "right", "rows of one prompt are adjacent; their number is taken from the call")


def test_every_row_of_every_prompt_is_right(tiny_guide: Any) -> None:
    names = ["json", None, "choice"]
    torch.manual_seed(0)
    result = generate(tiny_guide, CHATS[:3], names, do_sample=True, top_k=0, num_return_sequences=3)
    check_all(tiny_guide, names, result)
    messages = result[3]
    assert len(messages) == 9
    assert len({m.token_ids for m in messages[:3]}) > 1
    assert [m.guidance.applied for m in messages] == [True] * 3 + [False] * 3 + [True] * 3
    for message in messages[:3] + messages[6:]:
        assert message.guidance.masks == message.guidance.commits == len(message.token_ids)


def test_expand_may_be_said_and_then_holds(tiny_guide: Any) -> None:
    plans = [plan_of(tiny_guide, "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], plans)
    kwargs = generate_kwargs(tiny_guide.context, inputs, plans, expand=2)
    options = {"max_new_tokens": 20, "do_sample": True}
    out = tiny_guide.model.generate(**inputs, **options, num_return_sequences=2, **kwargs)
    assert all(m.error is None for m in read_messages(tiny_guide.context, out, inputs, plans))
    with pytest.raises(PlanError, match="3 rows are generated, 2 were planned"):
        tiny_guide.model.generate(**inputs, **options, num_return_sequences=3, **kwargs)
