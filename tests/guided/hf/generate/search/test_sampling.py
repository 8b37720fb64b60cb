"""Sampling with the warpers of ``generate``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, GuidedCall, check_all, check_answer, generate, with_spy

MODE = ("sampling", "right", "temperature, top-k, top-p, min-p and the rest act on the legal tokens")

WARPERS: list[dict[str, Any]] = [
    {"temperature": 0.2, "top_k": 0},
    {"temperature": 3.0, "top_k": 5},
    {"top_p": 0.3},
    {"min_p": 0.2},
    {"typical_p": 0.5},
    {"epsilon_cutoff": 0.02, "eta_cutoff": 0.02},
    {"top_h": 0.4},
    {"top_k": 1, "renormalize_logits": True},
]
NAMES = ["json", "choice", "regex", "json"]


@pytest.mark.parametrize("warpers", WARPERS, ids=str)
def test_every_sampled_row_is_legal(tiny_guide: Any, warpers: dict[str, Any]) -> None:
    call = GuidedCall(tiny_guide, CHATS, NAMES)
    call.kwargs, spy = with_spy(call.kwargs)
    for seed in range(4):
        torch.manual_seed(seed)
        for name, row, message in zip(NAMES, *call.run(do_sample=True, **warpers), strict=True):
            check_answer(tiny_guide, name, row, message)
            guidance = message.guidance
            assert guidance.masks == guidance.commits == len(message.token_ids)
    assert spy.scores


def test_top_k_keeps_legal_tokens(tiny_guide: Any) -> None:
    """The mask comes before the warpers: ``top_k=2`` leaves two legal tokens wherever there are two."""
    options = {"max_new_tokens": 1, "do_sample": True, "top_k": 2}
    call = GuidedCall(tiny_guide, CHATS[:1], ["regex"])
    out = call.generate(**options, output_scores=True, return_dict_in_generate=True)
    kept = torch.nonzero(out.scores[0][0] > float("-inf")).flatten().tolist()
    assert len(kept) == 2
    assert {tiny_guide.engine.token_bytes(i)[:1] for i in kept} <= {b"a", b"b", b"c"}


def test_a_seed_gives_the_same_rows_again(tiny_guide: Any) -> None:
    results = []
    for _ in range(2):
        torch.manual_seed(7)
        results.append(generate(tiny_guide, CHATS, NAMES, do_sample=True, top_k=0))
        check_all(tiny_guide, NAMES, results[-1])
    assert torch.equal(results[0][2], results[1][2])
