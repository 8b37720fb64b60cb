"""Continuous batching shows processors no history: refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, GuidedCall, generate

MODE = ('cache_implementation="paged", continuous batching', "refused", "processors are shown no history of a row")


def test_paged_generate_is_refused_and_the_message_says_why(tiny_guide: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"not supported for continuous batching.*GuidanceCriteria"):
        generate(tiny_guide, CHATS[:1], ["choice"], cache_implementation="paged")


def test_a_processor_that_is_shown_packed_tokens_refuses(tiny_guide: Any) -> None:
    """A caller that gets our processor into continuous batching after all reads why it cannot be."""
    (processor,) = GuidedCall(tiny_guide, CHATS[:1], ["choice"]).kwargs["logits_processor"]
    assert processor.supports_continuous_batching is False
    with pytest.raises(PlanError, match="does not show the history of every row"):
        processor(torch.tensor([5, 6]), torch.zeros(2, tiny_guide.engine.vocab_size))
