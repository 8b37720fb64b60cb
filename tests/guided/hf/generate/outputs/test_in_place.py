"""Masks written into the scores that ``generate`` hands over: on request only, and with the same outcome."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from guided.sampling import Sampling
from tests.judges.generation import CHATS, GuidedCall, check_all, plan_of

MODE = ("in_place=True", "right", "the same tokens and scores to the bit; output_logits of guided rows are masked")

NAMES = ["json", None, "choice", None]
OPTIONS: list[dict[str, Any]] = [
    {"do_sample": False},
    {"do_sample": True, "top_k": 0, "temperature": 1.3},
    {"do_sample": True, "top_p": 0.9, "num_return_sequences": 2},
    {"do_sample": False, "num_beams": 3},
    {"do_sample": True, "num_beams": 3, "num_return_sequences": 2},
    {"do_sample": False, "guidance_scale": 1.4},
    {"do_sample": False, "repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "min_new_tokens": 12},
    {"do_sample": False, "prompt_lookup_num_tokens": 3},
]


def run(guide: Any, names: list[str | None], in_place: bool, **options: Any) -> tuple[Any, ...]:
    call = GuidedCall(guide, CHATS[: len(names)], names, in_place=in_place)
    torch.manual_seed(5)
    wanted = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    out = call.generate(max_new_tokens=24, **wanted, **options)
    return call.inputs, call.plans, out, call.read(out)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_scores_and_counters_are_those_of_the_copying_form(tiny_guide: Any, options: dict[str, Any]) -> None:
    names = ["json"] if "prompt_lookup_num_tokens" in options else NAMES
    judge, found = (run(tiny_guide, names, in_place, **options) for in_place in (False, True))
    assert torch.equal(found[2].sequences, judge[2].sequences)
    assert len(found[2].scores) == len(judge[2].scores)
    for ours, theirs in zip(found[2].scores, judge[2].scores, strict=True):
        assert torch.equal(ours, theirs)
    assert [m.guidance for m in found[3]] == [m.guidance for m in judge[3]]
    if "min_new_tokens" not in options:
        check_all(tiny_guide, names, found)


def test_logits_of_plain_rows_stay_and_those_of_guided_rows_are_masked(tiny_guide: Any) -> None:
    _, _, judge, _ = run(tiny_guide, NAMES, False)
    _, _, out, _ = run(tiny_guide, NAMES, True)
    for logits, scores, raw in zip(out.logits, out.scores, judge.logits, strict=True):
        for r, name in enumerate(NAMES):
            assert torch.equal(logits[r], raw[r] if name is None else scores[r])
    assert not bool(out.logits[0][0].isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_other_scores_are_never_written_to_by_default(tiny_guide: Any, dtype: torch.dtype) -> None:
    """Only contiguous float32 scores without gradient are written to, and only on request."""
    plans = [plan_of(tiny_guide, "json")] * 2
    inputs = checked_inputs(tiny_guide.context, CHATS[:2], plans)
    size = tiny_guide.engine.vocab_size
    one = torch.randn(1, size, generator=torch.Generator().manual_seed(0))
    given = {"own": one.repeat(2, 1).to(dtype), "shared": one.to(dtype).expand(2, size)}
    (judge,) = generate_kwargs(tiny_guide.context, inputs, plans)["logits_processor"]
    expected = judge(inputs["input_ids"], given["own"])
    for name, scores in given.items():
        before = scores.clone()
        (processor,) = generate_kwargs(tiny_guide.context, inputs, plans, in_place=True)["logits_processor"]
        found = processor(inputs["input_ids"], scores)
        assert torch.equal(found, expected)
        written = name == "own" and dtype is torch.float32
        assert (found is scores) == written
        assert torch.equal(scores, expected if written else before)


@pytest.mark.parametrize("wanted", [{}, {"logprobs": 2}], ids=["alone", "with logprobs"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "top_p": 0.9}, {"frequency_penalty": 0.5}], ids=str)
def test_our_own_loop_writes_what_it_wrote(
    tiny_guide: Any, sampling: dict[str, Any], wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's logits are its own copy; the tokens are those of a session that copies once more."""
    from guided.hf.masks.cpu import HostLink

    real = HostLink.apply
    seen: list[bool] = []

    def copying(link: HostLink, scores: Any, masks: Any, *, in_place: bool = False) -> Any:
        seen.append(in_place)
        return real(link, scores, masks)

    plans = [plan_of(tiny_guide, name) if name else None for name in NAMES]
    how = {"sampling": Sampling(seed=4, **sampling, **wanted), "max_tokens": 20}
    found = tiny_guide.generate(CHATS, plans, **how)
    monkeypatch.setattr(HostLink, "apply", copying)
    judge = tiny_guide.generate(CHATS, plans, **how)
    assert [(m.token_ids, m.logprobs, m.guidance) for m in found] == [
        (m.token_ids, m.logprobs, m.guidance) for m in judge
    ]
    assert set(seen) == {not wanted}, "a recorder wants the logits as the model wrote them"
