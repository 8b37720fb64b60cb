"""Sampling with the warpers of ``generate``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, GuidedCall, check_answer, with_spy

MODE = ("sampling", "right", "temperature, top-k, top-p, min-p and the rest act on the legal tokens")
MODES = [("num_return_sequences", "right", "rows of one prompt are adjacent; their number is taken from the call")]

WARPERS: list[dict[str, Any]] = [
    {"temperature": 0.2, "top_k": 0},
    {"temperature": 3.0, "top_k": 5},
    {"top_p": 0.3},
    {"min_p": 0.2},
    {"typical_p": 0.5},
    {"epsilon_cutoff": 0.02, "eta_cutoff": 0.02},
    {"top_h": 0.4},
    {"top_k": 1, "renormalize_logits": True},
    {"top_k": 0, "num_return_sequences": 3},
]
NAMES = ["json", "choice", "regex", "json"]


@pytest.mark.parametrize("warpers", WARPERS, ids=str)
def test_every_sampled_row_is_legal(tiny_guide: Any, warpers: dict[str, Any]) -> None:
    call = GuidedCall(tiny_guide, CHATS, NAMES)
    call.kwargs, spy = with_spy(call.kwargs)
    for seed in range(4):
        torch.manual_seed(seed)
        rows, messages = call.run(do_sample=True, **warpers)
        per_prompt = warpers.get("num_return_sequences", 1)
        for r, (row, message) in enumerate(zip(rows, messages, strict=True)):
            check_answer(tiny_guide, NAMES[r // per_prompt], row, message)
            guidance = message.guidance
            assert guidance.masks == guidance.commits == len(message.token_ids)
        assert per_prompt == 1 or len({m.token_ids for m in messages[:per_prompt]}) > 1
    assert spy.scores


def test_top_k_keeps_legal_tokens(tiny_guide: Any) -> None:
    """The mask comes before the warpers: ``top_k=2`` leaves two legal tokens wherever there are two."""
    options = {"max_new_tokens": 1, "do_sample": True, "top_k": 2}
    call = GuidedCall(tiny_guide, CHATS[:1], ["regex"])
    out = call.generate(**options, output_scores=True, return_dict_in_generate=True)
    kept = torch.nonzero(out.scores[0][0] > float("-inf")).flatten().tolist()
    assert len(kept) == 2
    assert {tiny_guide.engine.token_bytes(i)[:1] for i in kept} <= {b"a", b"b", b"c"}
