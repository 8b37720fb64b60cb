"""Beam search: rows permuted, duplicated and dropped at every step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grammars.values.constraints import Choice
from tests.judges.generation import CHATS, CHOICES, GuidedCall, check_answer, generate, judge_kwargs, replay

MODE = ("beam search", "right", "beams are found again by their tokens; a search wider than the language ends early")
MODES = [("beam sampling", "right", "as beam search; candidates are drawn among the legal tokens")]


def both(guide: Any, chats: list[str], names: list[str | None], seed: int = 0, **options: Any) -> tuple[Any, Any]:
    """(ours with messages, the judge's output) for one beam search."""
    options = {
        "max_new_tokens": 40,
        "do_sample": False,
        "output_scores": True,
        "return_dict_in_generate": True,
    } | options
    torch.manual_seed(seed)
    result = inputs, plans, *_ = generate(guide, chats, names, **options)
    torch.manual_seed(seed)
    return result, guide.model.generate(**inputs, **options, **judge_kwargs(guide, inputs, plans))


def finished(guide: Any, plan: Any, tokens: list[int]) -> tuple[int, ...] | None:
    """The legal and finished answer that ``tokens`` begin with."""
    try:
        state = replay(guide, plan, tokens)
    except AssertionError:
        return None
    return tuple(tokens[: state.num_tokens]) if state.is_stopped else None


SEARCHES: list[dict[str, Any]] = [
    {"num_beams": 2},
    {"num_beams": 3},
    {"num_beams": 5},
    *(
        {"num_beams": 4, "num_return_sequences": 4, "early_stopping": early_stopping, "length_penalty": length_penalty}
        for early_stopping in (True, False, "never")
        for length_penalty in (-1.0, 0.0, 2.0)
    ),
    *({"num_beams": 3, "do_sample": True, "top_k": 0, "temperature": 1.5, "seed": seed} for seed in range(4)),
]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_beams_are_those_of_a_search_that_forgets_everything(tiny_guide: Any, options: dict[str, Any]) -> None:
    """All that are returned, in their order, and those of a plain row in the same batch."""
    names = ["json", None, "choice", "regex"]
    (inputs, plans, out, messages), judge = both(tiny_guide, CHATS, names, **options)
    ours, theirs = (found.sequences[:, inputs.prompt_len :].tolist() for found in (out, judge))
    for r, (row, other, message) in enumerate(zip(ours, theirs, messages, strict=True)):
        name, plan = names[4 * r // len(ours)], plans[4 * r // len(ours)]
        if name is None:
            assert row[: len(message.token_ids)] == other[: len(message.token_ids)]
        else:
            assert finished(tiny_guide, plan, row) == finished(tiny_guide, plan, other)
            check_answer(tiny_guide, name, row, message)
    assert torch.allclose(out.sequences_scores, judge.sequences_scores, atol=1e-4)


def test_more_beams_than_sentences(tiny_guide: Any) -> None:
    """Five words, eight beams: all five come out in the order of their scores, the rest says what it is."""
    options = {"num_beams": 8, "num_return_sequences": 8}
    (inputs, plans, out, messages), judge = both(tiny_guide, CHATS[:1], ["choice"], **options)
    size = inputs.prompt_len
    best = [finished(tiny_guide, plans[0], row) for row in out.sequences[:5, size:].tolist()]
    assert best == [finished(tiny_guide, plans[0], row) for row in judge.sequences[:5, size:].tolist()]
    assert len(set(best)) == 5
    for message in messages:
        assert message.finish_reason in ("stop", "error")
        if message.finish_reason == "stop":
            assert message.content in ("yes", "yesterday", "no", "perhaps", "never")
    assert out.sequences.shape[1] - size < 40, "a search without living beams ends"


def test_ends_that_generate_does_not_know(tiny_guide: Any) -> None:
    """Our ends are the plan's, not generate's: beams finish at them even where ``eos_token_id`` is none of them."""
    call = GuidedCall(tiny_guide, CHATS[:1], ["choice"])
    (ours, *_), (without, *_) = (call.run(num_beams=3, **more)[0] for more in ({}, {"eos_token_id": None}))
    assert finished(tiny_guide, call.plans[0], ours) == finished(tiny_guide, call.plans[0], without) is not None


def test_beams_cut_by_max_new_tokens_are_legal_prefixes(tiny_guide: Any) -> None:
    for size in range(1, 9):
        inputs, plans, out, messages = generate(
            tiny_guide, CHATS[:1], ["json"], num_beams=3, num_return_sequences=3, max_new_tokens=size
        )
        rows = out[:, inputs.prompt_len :].tolist()
        assert messages[0].finish_reason == "length"
        for row, message in zip(rows, messages, strict=True):
            if message.error is not None:  # fewer legal beginnings than rows to return
                assert "left over" in str(message.error)
                with pytest.raises(AssertionError):
                    replay(tiny_guide, plans[0], row)
            else:
                replay(tiny_guide, plans[0], row)


def test_states_are_forked_and_never_more_than_beams(tiny_guide: Any) -> None:
    """Resynchronisation takes the nearest beam: each step commits one token per beam and replays none."""
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    held = []

    def watch(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        held.append(len(call.inputs.session.rows))
        return scores

    call.kwargs["logits_processor"].append(watch)
    call.generate(num_beams=4)
    assert set(held) == {4}
    for row in call.inputs.session.rows:
        assert row.state.counters.commits <= len(held)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_sampled_search_has_left_over_is_no_whole_answer(tiny_guide: Any, seed: int) -> None:
    """Beams that never ended are padded like rows that a stop string cut."""
    torch.manual_seed(seed)
    options = {"num_beams": 8, "num_return_sequences": 8, "do_sample": True}
    *_, messages = generate(tiny_guide, CHATS[:1], ["choice"], **options)
    assert messages[0].finish_reason == "stop"
    for message in messages:
        assert message.ok == (message.finish_reason == "stop")
        assert not message.ok or message.content in CHOICES


def test_one_legal_token_and_many_beams(tiny_guide: Any) -> None:
    """Fewer candidates with a probability than are drawn: nothing raises, the answer is right."""
    plan = tiny_guide.plan(response_format=Choice(["only this"]))
    torch.manual_seed(0)
    *_, (message,) = generate(tiny_guide, CHATS[:1], [plan], num_beams=5, do_sample=True, top_p=0.5)
    assert (message.content, message.finish_reason) == ("only this", "stop")
