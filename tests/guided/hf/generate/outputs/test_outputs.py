"""The other outputs of ``generate``: scores, logits, hidden states, output objects, streamers.

Masks are written into the scores that ``generate`` hands over on request only, and with the same outcome.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from transformers import TextIteratorStreamer

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from guided.hf.masks.cpu import HostLink
from guided.sampling import Sampling
from tests.judges.generation import CHATS, GuidedCall, allowed_after, check_all, generate, plan_of

MODE = ("output_scores, output_logits, return_dict_in_generate", "right", "logits stay raw, scores are masked")
MODES = [
    ("in_place=True", "right", "the same tokens and scores to the bit; output_logits of guided rows are masked"),
    ("streamers", "right", "batch 1, as transformers has them; a streamer that raises cancels"),
]

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


# -- masks in place

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


def masked(guide: Any, names: list[str | None], in_place: bool, **options: Any) -> tuple[Any, ...]:
    call = GuidedCall(guide, CHATS[: len(names)], names, in_place=in_place)
    torch.manual_seed(5)
    wanted = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    out = call.generate(max_new_tokens=24, **wanted, **options)
    return call.inputs, call.plans, out, call.read(out)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_scores_and_counters_are_those_of_the_copying_form(tiny_guide: Any, options: dict[str, Any]) -> None:
    names = ["json"] if "prompt_lookup_num_tokens" in options else NAMES
    judge, found = (masked(tiny_guide, names, in_place, **options) for in_place in (False, True))
    assert torch.equal(found[2].sequences, judge[2].sequences)
    assert len(found[2].scores) == len(judge[2].scores)
    for ours, theirs in zip(found[2].scores, judge[2].scores, strict=True):
        assert torch.equal(ours, theirs)
    assert [m.guidance for m in found[3]] == [m.guidance for m in judge[3]]
    if "min_new_tokens" not in options:
        check_all(tiny_guide, names, found)


def test_logits_of_plain_rows_stay_and_those_of_guided_rows_are_masked(tiny_guide: Any) -> None:
    _, _, judge, _ = masked(tiny_guide, NAMES, False)
    _, _, out, _ = masked(tiny_guide, NAMES, True)
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


# -- streamers


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 1}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_the_streamer_gets_the_tokens_of_the_answer(tiny_guide: Any, options: dict[str, Any]) -> None:
    streamer = Mock()
    result = *_, messages = generate(tiny_guide, CHATS[:1], ["json"], streamer=streamer, **options)
    check_all(tiny_guide, ["json"], result)
    tokens = torch.cat([call.args[0].flatten() for call in streamer.put.call_args_list]).tolist()
    assert tuple(tokens[-len(messages[0].token_ids) :]) == messages[0].token_ids


def test_the_text_streamer_gives_the_text(tiny_guide: Any) -> None:
    streamer = TextIteratorStreamer(tiny_guide.tokenizer, skip_prompt=True, skip_special_tokens=True)
    *_, messages = generate(tiny_guide, CHATS[:1], ["json"], streamer=streamer)
    assert "".join(streamer) == messages[0].content


def test_a_streamer_that_raises_cancels_and_leaves_the_objects_usable(tiny_guide: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    expected = call.generate()
    for at in (1, 3):
        streamer = Mock(**{"put.side_effect": [None] * at + [KeyboardInterrupt]})
        with pytest.raises(KeyboardInterrupt):
            call.generate(streamer=streamer)
        assert torch.equal(call.generate(), expected)
