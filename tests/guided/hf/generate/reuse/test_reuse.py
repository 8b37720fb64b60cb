"""The same objects again: a second call, and other inputs."""

from __future__ import annotations

from typing import Any

import pytest

from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.state.state import GuidanceState
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, check_answer, greedy, plan_of

MODE = ("a second generate with the same kwargs and inputs", "right", "every call begins anew, whatever came before")
MODES = [("the same kwargs with other inputs", "refused", "PlanError before the first token: kwargs belong to inputs")]

NAMES = ["json", None, "choice"]


def bound(guide: Any) -> tuple[Any, Any, dict[str, Any]]:
    plans = [plan_of(guide, name) if name else None for name in NAMES]
    inputs = checked_inputs(guide.context, CHATS[:3], plans)
    return inputs, plans, generate_kwargs(guide.context, inputs, plans)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"do_sample": True, "top_k": 1},
    {"num_beams": 3},
    {"do_sample": True, "top_k": 1, "num_return_sequences": 2},
]


def test_call_after_call_in_all_modes_with_one_object(tiny_guide: Any) -> None:
    inputs, plans, kwargs = bound(tiny_guide)
    results: dict[str, Any] = {}
    for options in [*OPTIONS, *reversed(OPTIONS)]:
        options = {"do_sample": False, "max_new_tokens": 40} | options
        out = tiny_guide.model.generate(**inputs, **options, **kwargs)
        messages = read_messages(tiny_guide.context, out, inputs, plans)
        expand = len(messages) // len(NAMES)
        for r, message in enumerate(messages):
            name = NAMES[r // expand]
            if name is not None:
                check_answer(tiny_guide, name, out[r, inputs.prompt_len :].tolist(), message)
        found = (out.tolist(), [(m.content, m.guidance) for m in messages])
        assert results.setdefault(str(options), found) == found


@pytest.mark.parametrize("size", [1, 2, 7])
def test_calls_that_end_early_leave_nothing_behind(tiny_guide: Any, size: int) -> None:
    inputs, plans, kwargs = bound(tiny_guide)
    for max_new_tokens in (size, 40, size, 40):
        out = tiny_guide.model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False, **kwargs)
        messages = read_messages(tiny_guide.context, out, inputs, plans)
        for r in (0, 2):
            expected = greedy(tiny_guide, inputs.prompt_ids[r], plans[r], max_new_tokens)
            assert list(messages[r].token_ids) == expected
            assert messages[r].guidance.masks == messages[r].guidance.commits == len(expected)


def test_other_inputs_are_refused_before_the_first_token(tiny_guide: Any) -> None:
    inputs, plans, kwargs = bound(tiny_guide)
    others = checked_inputs(
        tiny_guide.context, ["another chat", "and another", "and a third that is the longest"], plans
    )
    calls: list[int] = []
    hook = tiny_guide.model.register_forward_hook(lambda *_: calls.append(1))
    try:
        with pytest.raises(PlanError, match=r"do not end with the prompts.*a batch for each list"):
            tiny_guide.model.generate(**others, max_new_tokens=5, do_sample=False, **kwargs)
    finally:
        hook.remove()
    assert len(calls) == 1  # the prompt's forward: no token was chosen
    out = tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False, **kwargs)
    check_answer(
        tiny_guide,
        "json",
        out[0, inputs.prompt_len :].tolist(),
        read_messages(tiny_guide.context, out, inputs, plans)[0],
    )
    fewer = {key: value[:2] for key, value in inputs.items()}
    with pytest.raises(PlanError, match="2 rows are generated; expected a multiple of the 3 prompts"):
        tiny_guide.model.generate(**fewer, max_new_tokens=5, do_sample=False, **kwargs)


def test_messages_of_other_inputs_are_refused(tiny_guide: Any) -> None:
    inputs, plans, kwargs = bound(tiny_guide)
    out = tiny_guide.model.generate(**inputs, max_new_tokens=5, do_sample=False, **kwargs)
    others = checked_inputs(
        tiny_guide.context, ["another chat", "and another", "and a third that is the longest"], plans
    )
    with pytest.raises(PlanError, match="row 0 does not begin with the prompt of these inputs"):
        read_messages(tiny_guide.context, out, others, plans)
    with pytest.raises(PlanError, match="dict holds no sequences"):
        read_messages(tiny_guide.context, {"req_0": out}, inputs, plans)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kept", [True, False], ids=["with the criterion", "without the criterion"])
def test_an_output_that_is_the_next_prompt_goes_on(tiny_guide: Any, options: dict[str, Any], kept: bool) -> None:
    """Rows depend on the tokens after their prompt alone, whatever call wrote them."""
    plan = plan_of(tiny_guide, "json")
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], [plan])
    kwargs = generate_kwargs(tiny_guide.context, inputs, [plan])
    if not kept:
        kwargs.pop("stopping_criteria")
    options = {"do_sample": False, "max_new_tokens": 5} | options
    whole = greedy(tiny_guide, inputs.prompt_ids[0], plan)
    for cut in (0, 1, 2):
        out = tiny_guide.model.generate(**inputs, **options, **kwargs)[:1]
        out = tiny_guide.model.generate(out[:, : out.shape[1] - cut], **options, **kwargs)
        for answer in out[:, inputs.prompt_len :].tolist():
            GuidanceState(plan, tiny_guide.engine).commit(answer)  # raises where it is not one legal text
            assert len(answer) == 10 - cut
            assert "num_beams" in options or answer == whole[: 10 - cut]


def test_counters_begin_anew_without_the_criterion(tiny_guide: Any) -> None:
    plan = plan_of(tiny_guide, "json")
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], [plan])
    kwargs = generate_kwargs(tiny_guide.context, inputs, [plan], max_rollbacks=1)
    kwargs.pop("stopping_criteria")
    for _ in range(4):
        out = tiny_guide.model.generate(**inputs, max_new_tokens=6, do_sample=False, **kwargs)
        (message,) = read_messages(tiny_guide.context, out, inputs, [plan])
        assert (message.guidance.masks, message.guidance.commits, message.guidance.rollbacks) == (6, 6, 0)
