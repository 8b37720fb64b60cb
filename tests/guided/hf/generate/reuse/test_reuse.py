"""The same objects again: a second call, and other inputs."""

from __future__ import annotations

from typing import Any

import pytest

from guided.state.state import GuidanceState
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, GuidedCall, check_all, check_answer, greedy
from tests.made_up.models import forwards_of

MODE = ("a second generate with the same kwargs and inputs", "right", "every call begins anew, whatever came before")
MODES = [("the same kwargs with other inputs", "refused", "PlanError before the first token: kwargs belong to inputs")]

NAMES = ["json", None, "choice"]
OTHERS = ["another chat", "and another", "and a third that is the longest"]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"do_sample": True, "top_k": 1},
    {"num_beams": 3},
    {"do_sample": True, "top_k": 1, "num_return_sequences": 2},
]


def test_call_after_call_in_all_modes_with_one_object(tiny_guide: Any) -> None:
    """Calls that end early among them; each gives what it gave before, and greedy ones what a search alone gives."""
    call = GuidedCall(tiny_guide, CHATS[:3], NAMES)
    results: dict[str, Any] = {}
    calls = [options | {"max_new_tokens": size} for options in OPTIONS for size in (1, 40)]
    for options in [*calls, *reversed(calls)]:
        out = call.generate(**options)
        messages = call.read(out)
        check_all(tiny_guide, NAMES, (call.inputs, call.plans, out, messages))
        found = (out.tolist(), [(m.content, m.guidance) for m in messages])
        assert results.setdefault(str(options), found) == found
        if len(options) == 1:
            for r in (0, 2):
                expected = greedy(tiny_guide, call.inputs.prompt_ids[r], call.plans[r], options["max_new_tokens"])
                assert list(messages[r].token_ids) == expected
                assert messages[r].guidance.masks == messages[r].guidance.commits == len(expected)


def test_other_inputs_are_refused_before_the_first_token(tiny_guide: Any) -> None:
    call, others = GuidedCall(tiny_guide, CHATS[:3], NAMES), GuidedCall(tiny_guide, OTHERS, NAMES).inputs
    refused = pytest.raises(PlanError, match=r"do not end with the prompts.*a batch for each list")
    with forwards_of(tiny_guide.model) as calls, refused:
        call.generate(**others)
    assert len(calls) == 1  # the prompt's forward: no token was chosen
    (tokens, *_), (message, *_) = call.run()
    check_answer(tiny_guide, "json", tokens, message)
    with pytest.raises(PlanError, match="2 rows are generated; expected a multiple of the 3 prompts"):
        call.generate(**{key: value[:2] for key, value in call.inputs.items()})


def test_messages_of_other_inputs_are_refused(tiny_guide: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:3], NAMES)
    out = call.generate(max_new_tokens=5)
    with pytest.raises(PlanError, match="row 0 does not begin with the prompt of these inputs"):
        GuidedCall(tiny_guide, OTHERS, NAMES).read(out)
    with pytest.raises(PlanError, match="dict holds no sequences; expected what model.generate returned"):
        call.read({"req_0": out})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kept", [True, False], ids=["with the criterion", "without the criterion"])
def test_an_output_that_is_the_next_prompt_goes_on(tiny_guide: Any, options: dict[str, Any], kept: bool) -> None:
    """Rows depend on the tokens after their prompt alone, whatever call wrote them."""
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    if not kept:
        call.kwargs.pop("stopping_criteria")
    options = {"do_sample": False, "max_new_tokens": 5} | options
    whole = greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])
    for cut in (0, 1, 2):
        out = call.generate(**options)[:1]
        out = tiny_guide.model.generate(out[:, : out.shape[1] - cut], **options, **call.kwargs)
        for answer in out[:, call.inputs.prompt_len :].tolist():
            GuidanceState(call.plans[0], tiny_guide.engine).commit(answer)  # raises where it is not one legal text
            assert len(answer) == 10 - cut
            assert "num_beams" in options or answer == whole[: 10 - cut]


def test_counters_begin_anew_without_the_criterion(tiny_guide: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], max_rollbacks=1)
    call.kwargs.pop("stopping_criteria")
    for _ in range(4):
        _, (message,) = call.run(max_new_tokens=6)
        assert (message.guidance.masks, message.guidance.commits, message.guidance.rollbacks) == (6, 6, 0)
