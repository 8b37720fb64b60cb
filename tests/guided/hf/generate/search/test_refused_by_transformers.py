"""Modes that transformers itself refuses, guided or not, before the first token; and continuous batching."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import TextStreamer

from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, GuidedCall, check_answer, generate

MODE = ('cache_implementation="paged", continuous batching', "refused", "processors are shown no history of a row")
MODES = [
    ("contrastive search, DoLa, group beams, constrained beams", "refused", "by transformers: moved to the hub"),
    ("drafts in a batch, or with num_return_sequences", "refused", "by transformers: one row"),
    ("drafts over a static cache", "refused", "by transformers before 5.24; since then right"),
    ("a streamer with beams", "refused", "by transformers"),
]

MOVED: list[dict[str, Any]] = [
    {"penalty_alpha": 0.6, "top_k": 4},
    {"dola_layers": "low"},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    {"num_beams": 3, "force_words_ids": [[5]]},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    *[(options, "requires `trust_remote_code=True`") for options in MOVED],
    ({"prompt_lookup_num_tokens": 2, "use_cache": False}, "requires (`use_cache=True`|a cache)"),
    ({"prompt_lookup_num_tokens": 2, "num_return_sequences": 2, "do_sample": True}, "has to be 1"),
    ({"num_beams": 2, "streamer": "text"}, "`streamer` cannot be used with beam search"),
    ({"use_mtp": True}, "Could not find `num_mtp_layers`"),
]


@pytest.mark.parametrize(("options", "match"), REFUSED, ids=[", ".join(options) for options, _ in REFUSED])
def test_it_says_so_and_the_kwargs_serve_again(tiny_guide: Any, options: dict[str, Any], match: str) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    if "streamer" in options:
        options = options | {"streamer": TextStreamer(tiny_guide.tokenizer)}
    for kwargs in ({}, call.kwargs):
        with pytest.raises((ValueError, RuntimeError), match=match):
            tiny_guide.model.generate(**call.inputs, **{"max_new_tokens": 9, "do_sample": False} | options, **kwargs)
    (tokens,), (message,) = call.run()
    check_answer(tiny_guide, "json", tokens, message)


def test_drafts_for_several_rows(tiny_guide: Any) -> None:
    with pytest.raises(ValueError, match="only supported for batch_size = 1"):
        generate(tiny_guide, CHATS[:2], ["json"] * 2, prompt_lookup_num_tokens=2)


def test_drafts_over_a_static_cache_are_refused_or_right(tiny_guide: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    try:
        (tokens,), (message,) = call.run(prompt_lookup_num_tokens=2, cache_implementation="static")
    except ValueError as error:
        assert "not supported with Static cache" in str(error)
        return
    check_answer(tiny_guide, "json", tokens, message)


def test_paged_generate_is_refused_and_the_message_says_why(tiny_guide: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"not supported for continuous batching.*GuidanceCriteria"):
        generate(tiny_guide, CHATS[:1], ["choice"], cache_implementation="paged")


def test_a_processor_that_is_shown_packed_tokens_refuses(tiny_guide: Any) -> None:
    """A caller that gets our processor into continuous batching after all reads why it cannot be."""
    (processor,) = GuidedCall(tiny_guide, CHATS[:1], ["choice"]).kwargs["logits_processor"]
    assert processor.supports_continuous_batching is False
    with pytest.raises(PlanError, match="does not show the history of every row"):
        processor(torch.tensor([5, 6]), torch.zeros(2, tiny_guide.engine.vocab_size))
