"""After an exception in ``generate`` the same model, guide, plans, inputs and kwargs work again."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from tests.judges.generation import CHATS, check_answer, plan_of

MODE = ("an interrupted generate, then the same objects", "right", "nothing of the first call is left")


class Interrupted(Exception):
    pass


class Interrupt:
    """A processor that raises at its step number ``at``, counted from the last `again`."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        if self.steps == self.at:
            raise Interrupted
        return scores

    def again(self) -> None:
        self.steps = 0


COUNTED: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "lookup": {"prompt_lookup_num_tokens": 3},
    "sampled": {"do_sample": True, "top_k": 1},
    "rescued": {"suppress_tokens": list(range(296))},
}


@pytest.mark.parametrize(
    "case", list(product([True, False], ["before ours", "after ours"], COUNTED, [1, 2, 3, 4, 7])), ids=str
)
def test_counters_are_those_of_the_last_call(tiny_guide: Any, case: tuple[bool, str, str, int]) -> None:
    """An exception at the first step, or among the first drafts, left its counters set."""
    bound, place, mode, at = case
    options = COUNTED[mode]
    plans = [plan_of(tiny_guide, "json")]
    inputs = checked_inputs(tiny_guide.context, ['{"ok": true, "n": 7} and {"ok": false'], plans)
    options = {"max_new_tokens": 40, "do_sample": False} | options
    expected = tiny_guide.model.generate(**inputs, **options, **generate_kwargs(tiny_guide.context, inputs, plans))
    (judged,) = read_messages(tiny_guide.context, expected, inputs, plans)
    kwargs = (
        generate_kwargs(tiny_guide.context, inputs, plans)
        if bound
        else generate_kwargs(tiny_guide.context, None, plans[0])
    )
    inputs.session = kwargs["logits_processor"][0].session
    interrupt = Interrupt(at)
    kwargs["logits_processor"].insert(0 if place == "before ours" else 1, interrupt)
    for _ in range(2):
        interrupt.again()
        with pytest.raises(Interrupted):
            tiny_guide.model.generate(**inputs, **options, **kwargs)
    out = tiny_guide.model.generate(**inputs, **options, **kwargs)
    assert torch.equal(out, expected)
    (message,) = read_messages(tiny_guide.context, out, inputs, plans)
    assert message == judged


@pytest.mark.parametrize("others", [True, False])
def test_a_failure_at_the_first_step_is_not_kept(tiny_guide: Any, others: bool) -> None:
    """NaN ended the guided row, the plain row made sampling raise; then the same kwargs again."""
    plans = [plan_of(tiny_guide, "json"), None]
    inputs = checked_inputs(tiny_guide.context, CHATS[:2], plans)
    kwargs = generate_kwargs(tiny_guide.context, inputs, plans)
    if others:
        kwargs |= {key: kwargs[key][:] for key in ("logits_processor", "stopping_criteria")}

    def poison(module: Any, args: Any, output: Any) -> Any:
        output.logits[:] = float("nan")
        return output

    hook = tiny_guide.model.register_forward_hook(poison)
    try:
        with pytest.raises(RuntimeError, match="probability tensor"):
            tiny_guide.model.generate(**inputs, max_new_tokens=20, do_sample=True, **kwargs)
    finally:
        hook.remove()
    out = tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False, **kwargs)
    message = read_messages(tiny_guide.context, out, inputs, plans)[0]
    check_answer(tiny_guide, "json", out[0, inputs.prompt_len :].tolist(), message)
    assert message.guidance.masks == message.guidance.commits == len(message.token_ids)


def test_G4_a_plain_call_after_guided_cancelled_and_failed_ones(tiny_guide: Any) -> None:
    """Nothing of us stays in the model: plain output is bit-identical to the first."""
    plans = [plan_of(tiny_guide, "json"), None, plan_of(tiny_guide, "choice")]
    inputs = checked_inputs(tiny_guide.context, CHATS[:3], plans)
    kwargs = generate_kwargs(tiny_guide.context, inputs, plans)
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
