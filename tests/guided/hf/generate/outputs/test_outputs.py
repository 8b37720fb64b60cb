"""The other outputs of ``generate``: scores, logits, hidden states, output objects."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, allowed_after, check_all, generate

MODE = ("output_scores, output_logits, return_dict_in_generate", "right", "logits stay raw, scores are masked")

WANTED = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True, "output_hidden_states": True}


def test_logits_are_raw_and_scores_are_masked(tiny_guide: Any) -> None:
    names = ["json", None]
    result = inputs, plans, out, _ = generate(tiny_guide, CHATS[:2], names, **WANTED)
    check_all(tiny_guide, names, result)
    tokens = out.sequences[0, inputs.prompt_len :].tolist()
    for step, (logits, scores) in enumerate(zip(out.logits, out.scores, strict=True)):
        assert bool(logits.isfinite().all()), "an in-place mask would show here"
        assert torch.equal(logits[1], scores[1])
        if step and tokens[step - 1] in plans[0].end_ids():
            break
        allowed = allowed_after(tiny_guide, plans[0], tokens[:step])
        assert torch.nonzero(scores[0] > float("-inf")).flatten().tolist() == allowed
        assert torch.equal(scores[0, allowed], logits[0, allowed])


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_transition_scores_can_be_computed(tiny_guide: Any, options: dict[str, Any]) -> None:
    result = inputs, _, out, _ = generate(tiny_guide, CHATS[:1], ["json"], **WANTED, **options)
    check_all(tiny_guide, ["json"], result)
    beams = getattr(out, "beam_indices", None)
    scores = tiny_guide.model.compute_transition_scores(
        out.sequences, out.scores, beam_indices=beams, normalize_logits=beams is None
    )
    assert bool((scores[0, : out.sequences.shape[1] - inputs.prompt_len] > -1e9).all())
