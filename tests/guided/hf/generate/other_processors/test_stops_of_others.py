"""Rows that ``generate`` itself stops: stop strings, end tokens and criteria of the call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import StoppingCriteria

from grammars.plan.plan import Stops
from guided.hf.model import conflicts
from special_tokens.errors import TokenRefused
from tests.judges.generation import CHATS, GuidedCall, check_answer, generate, greedy

MODE = (
    "stop_strings, eos_token_id, criteria of the call",
    "right",
    "a row that they cut ends with length, as alone; which padding is known for what: below",
)

NAMES = ["json", "regex", None]


class EndOfFirst(StoppingCriteria):
    """Ends the first row where the history has ``length`` tokens; alone it ends the call."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> torch.Tensor:
        done = torch.zeros(len(input_ids), dtype=torch.bool)
        done[0] = input_ids.shape[1] >= self.length
        return done


def stops(guide: Any) -> dict[str, dict[str, Any]]:
    return {
        "stop_strings": {"stop_strings": ['"ok"'], "tokenizer": guide.tokenizer},
        "eos_token_id": {"eos_token_id": [guide.engine.tokenize("k")[0], *guide.tokens.end_ids]},
        "criterion": {},
    }


@pytest.mark.parametrize("which", ["stop_strings", "eos_token_id", "criterion"])
@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
@pytest.mark.parametrize("sampled", [True, False])
def test_a_row_cut_by_others_is_the_same_with_neighbours_and_without(
    tiny_guide: Any, which: str, on_error: str, sampled: bool
) -> None:
    """It was blamed for the padding after it."""
    messages = {}
    for rows in ((0,), (0, 1), (0, 1, 2), (0, 2)):
        call = GuidedCall(tiny_guide, [CHATS[r] for r in rows], [NAMES[r] for r in rows], on_error=on_error)
        if which == "criterion":
            call.kwargs["stopping_criteria"].append(EndOfFirst(call.inputs.prompt_len + 3))
        options = {"do_sample": True, "top_k": 1} if sampled else {}
        _, (message, *others) = call.run(max_new_tokens=30, **options, **stops(tiny_guide)[which])
        assert (message.error, message.finish_reason, message.guidance.applied) == (None, "length", True)
        assert message.guidance.commits == len(message.token_ids) > 1
        spare = message.guidance.masks - message.guidance.commits  # one for a step that was padded
        assert spare in (0, int(len(rows) > 1))
        assert all(other.error is None for other in others)
        messages[rows] = (message.content, message.token_ids, message.usage.completion_tokens)
    assert len(set(messages.values())) == 1
    written = messages[0,][1]
    assert written == tuple(greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0]))[: len(written)]


def cut(guide: Any, names: list[str | None], at: int, pad: int | None, **how: Any) -> list[Any]:
    """The messages of rows of which a criterion ends the first after ``at`` tokens; ``pad`` is named in the call."""
    call = GuidedCall(guide, CHATS[: len(names)], names, **how)
    call.kwargs["stopping_criteria"].append(EndOfFirst(call.inputs.prompt_len + at))
    return call.run(max_new_tokens=30, **({} if pad is None else {"pad_token_id": pad}))[1]


@pytest.mark.parametrize("names", [["json", "regex"], ["json", None], ["json", "json", "choice", None]], ids=str)
@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
@pytest.mark.parametrize("pad", ["<|im_end|>", "<|im_start|>", "<tool_call>"])
def test_a_pad_token_that_only_the_call_names(tiny_guide: Any, names: Any, on_error: Any, pad: str) -> None:
    """It looked like a token chosen against the mask."""
    token = tiny_guide.tokenizer.convert_tokens_to_ids(pad)
    (alone,) = cut(tiny_guide, names[:1], 4, token, on_error=on_error)
    first, *others = cut(tiny_guide, names, 4, token, on_error=on_error)
    assert (first.error, first.finish_reason) == (None, "length")
    assert (first.content, first.token_ids) == (alone.content, alone.token_ids)
    for message, judge in zip(others, cut(tiny_guide, names, 4, None)[1:], strict=True):
        assert (message.content, message.finish_reason) == (judge.content, judge.finish_reason)


@pytest.mark.parametrize("strings", [None, ["zzz"], ["end"]], ids=str)  # the pad token's name has an "end" in it
@pytest.mark.parametrize("siblings", ["json", None])
def test_the_padding_of_rows_without_a_grammar_is_not_read(tiny_guide: Any, strings: Any, siblings: str | None) -> None:
    first = Stops(strings=tuple(strings)) if strings else None
    found = []
    for others in ([], [siblings or Stops(strings=("zzzz",))]):
        call = GuidedCall(tiny_guide, CHATS[: 1 + len(others)], [first, *others])
        call.kwargs = {"stopping_criteria": [], "pad_token_id": tiny_guide.context.pad_id} | call.kwargs
        call.kwargs["stopping_criteria"].append(EndOfFirst(call.inputs.prompt_len + 3))
        _, (message, *_) = call.run(max_new_tokens=12)
        found.append((message.token_ids, message.content, message.finish_reason, message.stop_reason, message.usage))
    assert len(found[0][0]) == 3
    assert found[0][2:4] == ("length", None)
    assert found[1] == found[0]


def _prefer_in_first(token_id: int, length: int | None = None) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A processor after ours that makes the first row write ``token_id``, or only after ``length`` tokens."""

    def force(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        if length in (None, input_ids.shape[1]):
            scores[0, token_id] = 1e6
        return scores

    return force


def test_a_pad_token_that_a_row_names_as_its_stop_is_read(tiny_guide: Any) -> None:
    name = tiny_guide.tokenizer.convert_ids_to_tokens(tiny_guide.context.pad_id)
    for stop in (Stops(strings=(name,)), Stops(ids=(tiny_guide.context.pad_id,))):
        call = GuidedCall(tiny_guide, CHATS[:2], [stop, "json"])
        call.kwargs["logits_processor"].append(_prefer_in_first(tiny_guide.context.pad_id))
        _, (first, _) = call.run(max_new_tokens=12)
        assert (first.finish_reason, first.usage.completion_tokens) == ("stop", 1)


@pytest.mark.parametrize(("text", "at"), [("!", 3), ("<|endoftext|>", 0)])
def test_a_token_against_the_mask_is_no_padding(tiny_guide: Any, text: str, at: int) -> None:
    """The row that failed is filled with the call's pad token; nothing ends a row before its first token."""
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", "json"])
    token = tiny_guide.tokenizer.convert_tokens_to_ids(text)
    call.kwargs["logits_processor"].append(_prefer_in_first(token, call.inputs.prompt_len + at))
    pads = {"pad_token_id": tiny_guide.tokenizer.convert_tokens_to_ids("<|im_start|>")} if at else {}
    tokens, (first, second) = call.run(max_new_tokens=30, **pads)
    assert isinstance(first.error, TokenRefused)
    assert "does not allow" in str(first.error)
    assert (first.finish_reason, first.token_ids) == ("error", tuple(tokens[0][:at]))
    check_answer(tiny_guide, "json", tokens[1], second)


def test_a_pad_token_that_is_an_end_looks_like_one_only_where_the_answer_may_end(tiny_guide: Any) -> None:
    """That end looks like one that was chosen; another pad token, named in the call, does not."""
    end, other = tiny_guide.tokens.end_ids[0], tiny_guide.tokenizer.convert_tokens_to_ids("<|im_start|>")
    reasons = {
        (name, pad): cut(tiny_guide, [name, "json"], 3, pad)[0].finish_reason
        for name in ("json", "regex")
        for pad in (end, other)
    }
    length = "length"
    assert reasons == {
        ("json", end): length, ("json", other): length, ("regex", end): "stop", ("regex", other): length
    }  # fmt: skip


@pytest.mark.parametrize("as_object", [False, True], ids=["tensor", "object"])
@pytest.mark.parametrize(("stop", "at"), [("rha", 2), ("yes", 3), ("no", 0)])
def test_beams_below_the_best_that_a_stop_string_cut(tiny_guide: Any, stop: str, at: int, as_object: bool) -> None:
    """Beams below one that ended by itself were taken for what the search had left over."""
    options = {"num_beams": 4, "num_return_sequences": 4, "stop_strings": [stop], "tokenizer": tiny_guide.tokenizer}
    if as_object:
        options |= {"return_dict_in_generate": True, "output_scores": True}
    *_, messages = generate(tiny_guide, CHATS[:1], ["choice"], max_new_tokens=30, **options)
    assert [message.error for message in messages] == [None] * 4
    assert [message.finish_reason for message in messages] == ["length" if i == at else "stop" for i in range(4)]
    assert (messages[at].content or "").endswith(stop)


@pytest.mark.parametrize("options", [{"num_beams": 3, "num_return_sequences": 2}, {"num_beams": 2}], ids=str)
def test_beams_cut_by_others(tiny_guide: Any, options: dict[str, Any]) -> None:
    *_, messages = generate(
        tiny_guide, CHATS[:2], ["json", "json"], stop_strings=['"n"'], tokenizer=tiny_guide.tokenizer, **options
    )
    for message in messages:
        assert message.error is None
        assert message.finish_reason == "length"
        assert '"n"' in (message.content or "")[-5:]  # its last token may hold more than the stop


def test_ordinary_text_in_a_configs_ends_is_told_before_the_first_token(
    tiny_guide: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conflicts, "_warned_ends", set())
    config = deepcopy(tiny_guide.model.generation_config)
    text = tiny_guide.engine.tokenize("k")[0]
    config.eos_token_id = [*tiny_guide.tokens.end_ids, text]
    monkeypatch.setattr(tiny_guide.model, "generation_config", config)
    with caplog.at_level(logging.WARNING, logger="guided"):
        GuidedCall(tiny_guide, CHATS[:1], ["json"])
        call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    (record,) = caplog.records
    assert f"has ordinary tokens in eos_token_id ({text}): generate stops at each of them" in record.message
    _, (message,) = call.run(max_new_tokens=30)
    assert (message.content, message.finish_reason, message.error) == ('{"ok', "length", None)
