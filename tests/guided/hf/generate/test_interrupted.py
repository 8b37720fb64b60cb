"""An exception in the middle of ``generate``, and then the same model, guide, plans, inputs and kwargs again."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.guided.hf.generate.laws import CHATS, check_answer, plan_of

MODE = ("an interrupted generate, then the same objects", "right", "nothing of the first call is left")


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_an_exception_in_mid_run_and_then_again(tiny_guide: Any, at: int, options: dict[str, Any]) -> None:
    plans = [plan_of(tiny_guide, "json")]
    inputs = tiny_guide.inputs(CHATS[:1], plans)
    kwargs = tiny_guide.generate_kwargs(inputs, plans)
    options = {"max_new_tokens": 40, "do_sample": False} | options
    expected = tiny_guide.model.generate(**inputs, **options, **tiny_guide.generate_kwargs(inputs, plans))
    kwargs = tiny_guide.generate_kwargs(inputs, plans)
    calls = 0

    def interrupt(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Interrupted
        return scores

    kwargs["logits_processor"].append(interrupt)
    with pytest.raises(Interrupted):
        tiny_guide.model.generate(**inputs, **options, **kwargs)
    out = tiny_guide.model.generate(**inputs, **options, **kwargs)
    assert torch.equal(out, expected)
    (message,) = tiny_guide.messages(out, inputs, plans)
    check_answer(tiny_guide, "json", out[0, inputs.prompt_len :].tolist(), message)


def test_g4_a_plain_call_after_guided_cancelled_and_failed_ones(tiny_guide: Any) -> None:
    """Nothing of us stays in the model: plain output is bit-identical to the first."""
    plans = [plan_of(tiny_guide, "json"), None, plan_of(tiny_guide, "choice")]
    inputs = tiny_guide.inputs(CHATS[:3], plans)
    kwargs = tiny_guide.generate_kwargs(inputs, plans)
    options = {"max_new_tokens": 20, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    before = tiny_guide.model.generate(**inputs, **options)

    def interrupt(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        raise Interrupted

    tiny_guide.model.generate(**inputs, **options, **kwargs)
    with pytest.raises(Interrupted):
        tiny_guide.model.generate(**inputs, **options, **kwargs | {"logits_processor": [interrupt]})
    after = tiny_guide.model.generate(**inputs, **options)
    assert torch.equal(before.sequences, after.sequences)
    assert all(torch.equal(a, b) for a, b in zip(before.logits, after.logits, strict=True))
