"""Continuous batching shows processors no history: refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, plan_of

MODE = ('cache_implementation="paged", continuous batching', "refused", "processors are shown no history of a row")


def test_paged_generate_is_refused_and_the_message_says_why(tiny_guide: Any) -> None:
    plans = [plan_of(tiny_guide, "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], plans)
    kwargs = generate_kwargs(tiny_guide.context, inputs, plans)
    with pytest.raises(NotImplementedError, match=r"not supported for continuous batching.*GuidanceCriteria"):
        tiny_guide.model.generate(**inputs, max_new_tokens=5, cache_implementation="paged", **kwargs)


def test_a_processor_that_is_shown_packed_tokens_refuses(tiny_guide: Any) -> None:
    """A caller that gets our processor into continuous batching after all reads why it cannot be."""
    plans = [plan_of(tiny_guide, "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], plans)
    processor = generate_kwargs(tiny_guide.context, inputs, plans)["logits_processor"][0]
    assert processor.supports_continuous_batching is False
    with pytest.raises(PlanError, match="does not show the history of every row"):
        processor(torch.tensor([5, 6]), torch.zeros(2, tiny_guide.engine.vocab_size))


def test_messages_of_a_batch_result_are_refused(tiny_guide: Any) -> None:
    plans = [plan_of(tiny_guide, "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], plans)
    generate_kwargs(tiny_guide.context, inputs, plans)
    with pytest.raises(PlanError, match="what model.generate returned"):
        read_messages(tiny_guide.context, {"req_0": object()}, inputs, plans)
