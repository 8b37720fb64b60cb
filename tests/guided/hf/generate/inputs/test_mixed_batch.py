"""A batch of different plans, unguided rows and prompts of different lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grammars.plan.plan import Stops
from tests.judges.generation import CHATS, GuidedCall, with_spy

MODE = ("batch of plans and plain rows", "right", "plain rows are bit-identical to a batch without guidance")
MODES = [("left padding", "right", "padding is not part of a row's history; rows are those of unpadded prompts")]

MIXES: list[list[Any]] = [
    ["json", None, "choice", None],
    [None, "regex", None, "json"],
    [None, None, None, "choice"],
    [Stops(("never written",)), None, Stops(("never written",)), None],
]
SAMPLE = {"do_sample": True, "top_k": 0, "temperature": 1.3}


def run(guide: Any, names: list[Any], **options: Any) -> tuple[torch.Tensor, list[torch.Tensor], Any]:
    call = GuidedCall(guide, CHATS, names)
    call.kwargs, spy = with_spy(call.kwargs)
    torch.manual_seed(3)
    out = call.generate(max_new_tokens=24, **options)
    return out[:, call.inputs.prompt_len :], spy.scores, call.read(out)


@pytest.mark.parametrize("names", MIXES, ids=str)
@pytest.mark.parametrize("options", [{"do_sample": False}, SAMPLE], ids=["greedy", "sampled"])
def test_G2_plain_rows_are_bit_identical(tiny_guide: Any, names: list[Any], options: dict[str, Any]) -> None:
    """The law `free`: logits and ids of a plain row are those of a call that knows nothing of us."""
    judge, seen_judge, _ = run(tiny_guide, [None] * 4, **options)
    ours, seen, _ = run(tiny_guide, names, **options)
    steps = min(len(seen), len(seen_judge))
    for r, name in enumerate(names):
        if name is None or isinstance(name, Stops):
            assert torch.equal(ours[r, :steps], judge[r, :steps])
            assert all(torch.equal(a[r], b[r]) for a, b in zip(seen, seen_judge, strict=False))


@pytest.mark.parametrize("options", [{"do_sample": False}, SAMPLE], ids=["greedy", "sampled"])
def test_a_row_does_not_depend_on_its_neighbours(tiny_guide: Any, options: dict[str, Any]) -> None:
    """The law `rows`: the same row in the same place, whatever guides the others."""
    rows = {}
    for names in (["json", "choice", None, None], ["json", None, "regex", "choice"], ["json", "json", "json", "json"]):
        out, scores, messages = run(tiny_guide, names, **options)
        size = len(messages[0].token_ids)
        rows[str(names)] = (out[0, :size].tolist(), [step[0] for step in scores[:size]])
    first, *others = rows.values()
    for tokens, scores in others:
        assert tokens == first[0]
        assert all(torch.equal(a, b) for a, b in zip(scores, first[1], strict=True))


def test_G5_a_batch_without_any_plan_gets_nothing(tiny_guide: Any) -> None:
    """No plan, no processor, no matcher."""
    before = tiny_guide.stats().grammars
    assert GuidedCall(tiny_guide, CHATS, [None] * 4).kwargs == {}
    assert tiny_guide.stats().grammars == before


def test_a_prompt_padded_further_is_the_same_prompt(tiny_guide: Any) -> None:
    """The kwargs belong to the prompts, not to the width that they were padded to."""
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", "choice"])
    rows, messages = call.run()
    wider = {
        "input_ids": torch.nn.functional.pad(call.inputs["input_ids"], (3, 0), value=tiny_guide.context.pad_id),
        "attention_mask": torch.nn.functional.pad(call.inputs["attention_mask"], (3, 0)),
    }
    again = call.generate(**wider)[:, call.inputs.prompt_len + 3 :].tolist()
    for row, message in zip(again, messages, strict=True):
        assert tuple(row[: len(message.token_ids)]) == message.token_ids
    assert len(again[0]) == len(rows[0])
