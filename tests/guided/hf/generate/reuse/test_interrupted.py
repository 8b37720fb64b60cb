"""After an exception in ``generate`` the same model, guide, plans, inputs and kwargs work again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch

from tests.judges.generation import CHATS, GuidedCall, check_answer
from tests.made_up.models import poisoned

MODE = ("an interrupted generate, then the same objects", "right", "nothing of the first call is left")


class Interrupted(Exception):
    pass


def interrupt(at: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A processor that raises at its step number ``at``."""
    steps = count(1)

    def processor(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if next(steps) == at:
            raise Interrupted
        return scores

    return processor


COUNTED: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "lookup": {"prompt_lookup_num_tokens": 3},
    "sampled": {"do_sample": True, "top_k": 1},
    "rescued": {"suppress_tokens": list(range(296))},
}


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("place", [0, 1], ids=["before ours", "after ours"])
@pytest.mark.parametrize("mode", COUNTED)
def test_counters_are_those_of_the_last_call(tiny_guide: Any, mode: str, place: int, bound: bool) -> None:
    """An exception at the first step, or among the first drafts, left its counters set."""
    options, chats = COUNTED[mode], ['{"ok": true, "n": 7} and {"ok": false']
    expected = GuidedCall(tiny_guide, chats, ["json"]).run(**options)
    for at in (1, 3):
        call = GuidedCall(tiny_guide, chats, ["json"], bound=bound)
        call.kwargs["logits_processor"].insert(place, None)
        for _ in range(2):
            call.kwargs["logits_processor"][place] = interrupt(at)
            with pytest.raises(Interrupted):
                call.run(**options)
        assert call.run(**options) == expected


@pytest.mark.parametrize("others", [True, False])
def test_a_failure_at_the_first_step_is_not_kept(tiny_guide: Any, others: bool) -> None:
    """NaN ended the guided row, the plain row made sampling raise; then the same kwargs again."""
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", None])
    if others:
        call.kwargs |= {key: call.kwargs[key][:] for key in ("logits_processor", "stopping_criteria")}

    with poisoned(tiny_guide.model), pytest.raises(RuntimeError, match="probability tensor"):
        call.generate(max_new_tokens=20, do_sample=True)
    (tokens, _), (message, _) = call.run()
    check_answer(tiny_guide, "json", tokens, message)
    assert message.guidance.masks == message.guidance.commits == len(message.token_ids)


def test_G4_a_plain_call_after_guided_cancelled_and_failed_ones(tiny_guide: Any) -> None:
    """Nothing of us stays in the model: plain output is bit-identical to the first."""
    call = GuidedCall(tiny_guide, CHATS[:3], ["json", None, "choice"])
    options = {"max_new_tokens": 20, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    before = tiny_guide.model.generate(**call.inputs, **options)

    call.generate(**options)
    with pytest.raises(Interrupted):
        call.generate(**options, logits_processor=[interrupt(1)])
    after = tiny_guide.model.generate(**call.inputs, **options)
    assert torch.equal(before.sequences, after.sequences)
    assert all(torch.equal(a, b) for a, b in zip(before.logits, after.logits, strict=True))
