"""Rows that fail (engine errors, limits, poisoned states) leave their neighbours untouched and say why."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from grammars.plan.plan import Stops
from grammars.values.constraints import Lark
from guided.state.state import GuidanceState
from special_tokens.errors import LimitExceeded, MatcherFailed
from tests.guided.engine.test_engine_failure import PANICS
from tests.judges.generation import CHATS, GuidedCall, generate, with_spy
from tests.made_up.models import poisoned

MODE = ("a row whose guidance fails", "right", "it ends with finish_reason error, or goes on unguided by option")

NAMES = ["json", "json", "choice", None]


class Fault:
    """Raises ``error`` in a method of the state of one row, once it has ``at`` tokens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verb: str, at: int, error: Exception) -> None:
        self.target: GuidanceState | None = None
        real = getattr(GuidanceState, verb)

        def broken(state: GuidanceState, *args: Any) -> Any:
            if state is self.target and state.num_tokens == at:
                raise error
            return real(state, *args)

        monkeypatch.setattr(GuidanceState, verb, broken)


FAULTS: list[tuple[str, int, Exception]] = [
    ("token_mask", 0, MatcherFailed("injected")),
    ("token_mask", 3, LimitExceeded("too many items")),
    ("commit", 4, MatcherFailed("injected")),
]


def run(guide: Any, fault: Fault | None, **options: Any) -> tuple[Any, list[Any], list[torch.Tensor]]:
    call = GuidedCall(guide, CHATS, NAMES, **options)
    call.kwargs, spy = with_spy(call.kwargs)
    if fault is not None:
        fault.target = call.inputs.session.rows[1].state
    out = call.generate(max_new_tokens=30)
    return out[:, call.inputs.prompt_len :], call.read(out), spy.scores


@cache
def undisturbed(guide: Any) -> tuple[Any, list[Any], list[torch.Tensor]]:
    return run(guide, None)


def check_neighbours(guide: Any, found: tuple[Any, list[Any], list[torch.Tensor]]) -> None:
    """All rows but one are what they are undisturbed, to the bit."""
    (tokens, messages, scores), (judge, judged, judge_scores) = found, undisturbed(guide)
    for r in (0, 2, 3):
        size = len(judged[r].token_ids)
        assert tokens[r, :size].tolist() == judge[r, :size].tolist()
        assert all(torch.equal(a[r], b[r]) for a, b in zip(scores, judge_scores[:size], strict=False))
        assert (messages[r].finish_reason, messages[r].error) == (judged[r].finish_reason, None)
        assert messages[r].guidance == judged[r].guidance


@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
@pytest.mark.parametrize(("verb", "at", "error"), FAULTS)
def test_G3_neighbours_are_untouched_and_the_row_says_why(
    tiny_guide: Any, verb: str, at: int, error: Any, on_error: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """The row ends there, or goes on unguided with one warning."""
    judge, *_ = undisturbed(tiny_guide)
    with caplog.at_level(logging.WARNING, logger="guided"):
        found = _, messages, _ = run(tiny_guide, Fault(monkeypatch, verb, at, error), on_error=on_error)
    check_neighbours(tiny_guide, found)
    broken = messages[1]
    assert broken.error is error
    assert not broken.guidance.applied
    assert broken.token_ids[:at] == tuple(judge[1, :at].tolist())
    assert (len(broken.token_ids) == at) == (broken.finish_reason == "error") == (on_error == "end")
    warnings = [r.message for r in caplog.records if "without guidance" in r.message]
    assert len(warnings) == (on_error != "end")
    assert all("row 1" in said for said in (*warnings, str(broken.error)))


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_a_search_whose_guidance_fails_ends_with_the_error(
    tiny_guide: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GuidanceState.token_mask

    def broken(state: GuidanceState) -> Any:
        if state.num_tokens == 4:
            raise LimitExceeded("injected")
        return real(state)

    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    *_, (message,) = generate(tiny_guide, CHATS[:1], ["json"], **options)
    assert message.finish_reason == "error"
    assert isinstance(message.error, LimitExceeded)


def scripted(
    guide: Any, texts: list[str | None], chats: list[str] = CHATS, *, on_error: Any = "end", **options: Any
) -> tuple[Any, list[Any]]:
    """The tokens and messages of rows that have the plan on which the engine panics after 3; None is a plain row.

    A processor makes each row write its own text, where it may, with a score of 100 a token.
    """
    plan = guide.plan(response_format=Lark(PANICS))
    plans = [None if text is None else plan for text in texts]
    call = GuidedCall(guide, chats[: len(texts)], plans, on_error=on_error)
    scripts = [None if text is None else [guide.engine.tokenize(c)[0] for c in text] for text in texts]

    def write(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        at = input_ids.shape[1] - call.inputs.prompt_len
        for row, ids in zip(scores, scripts, strict=True):
            if ids is not None and at < len(ids):
                row[ids[at]] = 100.0
        return scores

    call.kwargs.setdefault("logits_processor", []).insert(0, write)
    return call.run(max_new_tokens=5, **options)


@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"prefill_chunk_size": 4}], ids=str)
def test_G3_a_panic_of_the_engine_ends_the_row_that_met_it(tiny_guide: Any, options: dict[str, Any]) -> None:
    """Rows of one grammar share a lock inside the engine: the first panic ended all of them."""
    texts = ["1200", "3", "0210", None]
    judged = [scripted(tiny_guide, [text], [chat]) for text, chat in zip(texts, CHATS, strict=True) if text != "3"]
    tokens, messages = scripted(tiny_guide, texts, **options)
    assert [message.finish_reason for message in messages] == ["stop", "error", "stop", "length"]
    assert [message.content for message in messages[:3]] == texts[:3]
    for r, ((alone,), (message,)) in zip((0, 2, 3), judged, strict=True):
        if not (r == 3 and options):
            assert tokens[r][: len(message.token_ids)] == alone
        assert replace(messages[r].guidance, recovered=0) == message.guidance
    assert isinstance(messages[1].error, MatcherFailed)
    assert "row 1" in str(messages[1].error)
    assert [message.guidance.recovered for message in messages] == [1, 0, 1, 0]


@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
def test_a_draft_on_which_the_engine_panics_is_taken_back(
    tiny_guide: Any, on_error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log must not say that a row goes on without guidance which goes on with it."""
    ((alone,), _), chats = scripted(tiny_guide, ["1200"], ["assistant\n3"]), ["assistant\n3"]
    with caplog.at_level(logging.WARNING, logger="guided"):
        ((drafted,), (message,)) = scripted(tiny_guide, ["1200"], chats, prompt_lookup_num_tokens=2, on_error=on_error)
    assert all("unless this is taken back" in record.message for record in caplog.records)
    assert bool(caplog.records) == (on_error == "unconstrained")
    assert drafted == alone
    assert (message.content, message.finish_reason, message.error) == ("1200", "stop", None)
    assert message.guidance.rollbacks > 0
    assert message.guidance.recovered > 0


@pytest.mark.parametrize("ids", [slice(None), [0], slice(5, 40)], ids=["all", "one", "some"])
@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
@pytest.mark.parametrize("at", [3, 0])
def test_nan_logits_end_a_guided_row_with_an_error(tiny_guide: Any, ids: Any, on_error: str, at: int) -> None:
    """The mask and the rescue hid NaN, and the row went on with tokens that no sampler chose."""
    judge, *_ = undisturbed(tiny_guide)
    with poisoned(tiny_guide.model, since=at, rows=1, ids=ids):
        found = _, messages, _ = run(tiny_guide, None, on_error=on_error)
    check_neighbours(tiny_guide, found)
    broken = messages[1]
    assert (broken.finish_reason, broken.guidance.applied) == ("error", False)
    assert str(broken.error).startswith("row 1: the model's logits are not numbers (NaN or all infinite)")
    assert broken.token_ids == tuple(judge[1, :at].tolist())


@pytest.mark.parametrize(
    "options", [{}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 2}, {"do_sample": True}], ids=str
)
@pytest.mark.parametrize("stop", [None, "never written"])
def test_nan_logits_end_a_row_of_free_text_with_an_error(tiny_guide: Any, options: dict[str, Any], stop: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], [tiny_guide.plan(stop=stop)])
    with poisoned(tiny_guide.model, since=2):
        (tokens,), (message,) = call.run(max_new_tokens=20, **options)
    assert message.finish_reason == "error"
    assert "the model's logits are not numbers" in str(message.error)
    assert len(tokens) < 20
    assert GuidedCall(tiny_guide, CHATS[:1], call.plans).run(max_new_tokens=5)[1][0].error is None


@pytest.mark.parametrize("row", [None, Stops(("never written",))], ids=["none", "stops"])
def test_nan_logits_of_a_row_without_guidance_are_left_as_they_are(tiny_guide: Any, row: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:2], [tiny_guide.plan(), row])
    seen: list[bool] = []

    def spy(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen.append(bool(scores[1].isnan().all()))
        return scores

    call.kwargs["logits_processor"].append(spy)
    with poisoned(tiny_guide.model, since=2, rows=1):
        _, messages = call.run(max_new_tokens=6)
    assert seen == [False, False, True, True, True, True]
    assert [message.error for message in messages] == [None, None]


def test_G7_rollbacks_are_counted_per_call_and_may_be_limited(tiny_guide: Any) -> None:
    chats = ['{"ok": true, "n": 7} and {"ok": false']
    call = GuidedCall(tiny_guide, chats, ["json"])
    counts = [call.run(prompt_lookup_num_tokens=3)[1][0].guidance.rollbacks for _ in range(2)]
    assert counts[0] == counts[1] > 3
    _, (message,) = GuidedCall(tiny_guide, chats, ["json"], max_rollbacks=3).run(prompt_lookup_num_tokens=3)
    assert message.finish_reason == "error"
    assert isinstance(message.error, LimitExceeded)
    assert "at most 3 times (max_rollbacks)" in str(message.error)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"num_return_sequences": 3, "do_sample": True}], ids=str)
def test_G3_a_panic_in_one_prompts_search_leaves_the_others_as_they_are(
    tiny_guide: Any, options: dict[str, Any]
) -> None:
    plan = tiny_guide.plan(response_format=Lark(PANICS))
    best = {first: tiny_guide.engine.tokenize(first)[0] for first in "123"}
    found = []
    for firsts in ("12", "32"):
        call = GuidedCall(tiny_guide, CHATS[:2], [plan, plan])

        def prefer(input_ids: torch.Tensor, scores: torch.Tensor, firsts: str = firsts, call: GuidedCall = call) -> Any:
            scores = scores.clone()
            if input_ids.shape[1] == call.inputs.prompt_len:
                half = len(scores) // 2
                scores[:half, best[firsts[0]]] += 200.0
                scores[half:, best["3"]] = -200.0
            return scores

        call.kwargs["logits_processor"].insert(0, prefer)
        torch.manual_seed(0)
        found.append(call.run(max_new_tokens=6, **options))
    (tokens, messages), (other_tokens, other_messages) = found
    half = len(messages) // 2
    for r in range(half, len(messages)):
        assert messages[r].error is None
        assert other_tokens[r] == tokens[r]
        assert replace(other_messages[r].guidance, recovered=0) == messages[r].guidance
    assert any(message.guidance.recovered for message in other_messages[half:])
    for message in other_messages[:half]:  # a search goes on with what has not failed
        assert isinstance(message.error, type(None) if "num_beams" in options else MatcherFailed)
