"""A row as vLLM's grammar: masks, drafts and ends as the row says, and nothing that raises.

The scheduler is a fake that calls the grammar in vLLM's order; the live tests run the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grammars.plan.plan import Plan, Stops
from grammars.values.constraints import Choice, Regex
from guided.bitmask import allowed_ids, num_words
from guided.engine.engine import Engine
from guided.rows.making import make_row
from guided.rows.sequence import RowSequence
from guided.state.state import GuidanceState
from guided.vllm.grammar import RowGrammar, grammar_of
from guided.vllm.sealed import read_report, seal
from special_tokens.errors import GuidanceError, RequestError, TokenRefused
from tests.judges.plans import plan_of

WIDER = 3  # words of the engine's masks beyond those of the vocabulary


class FakeTensor:
    """A bitmask that is read as vLLM's is."""

    def __init__(self, rows: int, words: int) -> None:
        self.data = np.full((rows, words), -1, dtype=np.int32)

    def numpy(self) -> Any:
        return self.data


@dataclass
class FakeRequest:
    """A request in the hands of a scheduler that stops at ends and at its limit, as vLLM's does."""

    plan: Plan
    max_tokens: int = 40
    seal: str = ""
    request_id: str = "r"
    stop_reason: int | str | None = None
    prompt_token_ids: tuple[int, ...] = (1, 2)
    tokens: list[int] = field(default_factory=list)
    is_over: bool = False

    @property
    def sampling_params(self) -> Any:
        return SimpleNamespace(structured_outputs=SimpleNamespace(grammar=self.seal or seal(self.plan)))

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens)

    def is_finished(self) -> bool:
        return self.is_over

    def take(self, grammar: RowGrammar, sampled: Sequence[int]) -> bool:
        """Append the tokens and let the grammar read them; whether the request goes on or ends well."""
        self.tokens += sampled
        self.is_over = self.tokens[-1] in self.plan.end_ids() or len(self.tokens) >= self.max_tokens
        return grammar.accept_tokens(self.request_id, list(sampled))


def mask_of(grammar: RowGrammar, engine: Engine) -> list[int]:
    bitmask = FakeTensor(2, num_words(engine.vocab_size) + WIDER)
    grammar.fill_bitmask(bitmask, 1)
    assert (bitmask.data[0] == -1).all()
    assert not bitmask.data[1][num_words(engine.vocab_size) :].any()
    return allowed_ids(bitmask.data[1])


def made(engine: Engine, plan: Plan, *, most_drafts: int = 0, **more: Any) -> tuple[FakeRequest, RowGrammar]:
    request = FakeRequest(plan, **more)
    return request, grammar_of(request, engine, most_drafts=most_drafts)


def written(engine: Engine, request: FakeRequest, grammar: RowGrammar) -> bytes:
    """Write a letter where a mask allows one, until the request ends."""
    while not request.is_over:
        allowed = mask_of(grammar, engine)
        letters = [token for token in allowed if engine.token_bytes(token).isalpha()]
        assert request.take(grammar, (letters or allowed)[:1])
    return b"".join(engine.token_bytes(token) for token in request.tokens if token not in request.plan.end_ids())


@pytest.fixture
def regex(engine: Engine) -> Plan:
    return plan_of(engine, response_format=Regex("[ab]{2}cccccc[de]"))


def test_masks_and_the_end_are_the_rows(engine: Engine, regex: Plan) -> None:
    request, grammar = made(engine, regex)
    row = make_row(regex, engine, max_tokens=40, lands_in_masks=True)
    assert isinstance(row, RowSequence)
    while not row.is_done:
        allowed = mask_of(grammar, engine)
        mask = row.token_mask()
        assert allowed == allowed_ids(mask.words)
        assert request.take(grammar, allowed[:1])
        row.extend(allowed[:1])
    assert not grammar.is_terminated()  # vLLM would allow everything
    report = read_report(request.stop_reason)
    assert (report.error, report.guidance.applied) == (None, True)


def test_drafts_are_validated_looked_at_and_taken_back(engine: Engine, regex: Plan) -> None:
    request, grammar = made(engine, regex)
    a, b, c, d = (engine.tokens.facts.lookup(letter) for letter in "abcd")
    before = mask_of(grammar, engine)
    assert grammar.validate_tokens([a, b, d]) == [a, b]
    for token in (a, b):
        mask_of(grammar, engine)
        assert grammar.accept_tokens("r", [token])
    assert c in mask_of(grammar, engine)
    grammar.rollback(2)
    assert mask_of(grammar, engine) == before
    assert request.stop_reason is None
    assert request.take(grammar, [b])  # the model wrote another one
    assert grammar.validate_tokens([c]) == []


def test_forced_runs_are_offered_as_drafts(engine: Engine, regex: Plan) -> None:
    request, grammar = made(engine, regex, most_drafts=4)
    a, c = (engine.tokens.facts.lookup(letter) for letter in "ac")
    assert request.take(grammar, [a, a])
    assert grammar.validate_tokens([]) == grammar.validate_tokens([c])[:4] != []
    assert set(mask_of(grammar, engine)) == {grammar.validate_tokens([])[0]}
    assert len(grammar.validate_tokens([])) <= 4


def test_after_a_stop_only_an_end_is_allowed(engine: Engine) -> None:
    plan = plan_of(engine, stop=Stops(("ab",)))
    request, grammar = made(engine, plan)
    assert request.take(grammar, [engine.tokens.facts.lookup(letter) for letter in "xab"])
    assert set(mask_of(grammar, engine)) == set(plan.end_ids())
    assert grammar.validate_tokens([1]) == []
    assert request.take(grammar, mask_of(grammar, engine)[:1])
    assert read_report(request.stop_reason) is not None


def test_a_token_that_is_refused_ends_the_row(engine: Engine, regex: Plan) -> None:
    request, grammar = made(engine, regex)
    z = engine.tokens.facts.lookup("z")
    assert not request.take(grammar, [z])
    report = read_report(request.stop_reason)
    assert isinstance(report.error, TokenRefused)


@pytest.mark.parametrize("error", [ZeroDivisionError, MemoryError])
@pytest.mark.parametrize("name", ["__init__", "token_mask", "extend", "validate", "rollback"])
def test_nothing_raises_and_the_row_fails_at_its_next_token(
    engine: Engine, regex: Plan, name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error("in the test")

    monkeypatch.setattr(RowSequence, name, broken)
    request, grammar = made(engine, regex, most_drafts=4, request_id="2_guided-0a")
    a = engine.tokens.facts.lookup("a")
    mask_of(grammar, engine)
    grammar.validate_tokens([a])
    assert grammar.accept_tokens("r", [a])  # a draft: vLLM ends where one is refused
    grammar.rollback(1)
    assert set(mask_of(grammar, engine)) == set(regex.end_ids())
    assert not request.take(grammar, mask_of(grammar, engine)[:1])
    report = read_report(request.stop_reason)
    assert isinstance(report.error, GuidanceError)
    assert error.__name__ in str(report.error)
    assert "row 2" in str(report.error)


@pytest.mark.parametrize(("request_id", "number"), [("guided-0a", 0), ("0_guided-0a", 0), ("3_guided-0a", 3)])
def test_the_error_of_a_choice_names_its_row(
    engine: Engine, regex: Plan, request_id: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    request, grammar = made(engine, regex, request_id=request_id)
    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    assert not request.take(grammar, mask_of(grammar, engine)[:1])
    report = read_report(request.stop_reason)
    assert f"row {number};" in str(report.error)


def test_a_row_that_cannot_be_made_fails_with_its_reason(engine: Engine, regex: Plan) -> None:
    request, grammar = made(engine, regex, max_tokens=3, seal=seal(regex, short_budget="error"))
    assert grammar.validate_tokens([1]) == []
    assert not request.take(grammar, mask_of(grammar, engine)[:1])
    report = read_report(request.stop_reason)
    assert isinstance(report.error, RequestError)
    assert report.error.place == "max_tokens"


def test_the_budget_is_kept_and_reported(engine: Engine) -> None:
    plan = plan_of(engine, response_format=Regex('"[a-z]{0,30}"'))
    request, grammar = made(engine, plan, max_tokens=6)
    assert written(engine, request, grammar).endswith(b'"')
    report = read_report(request.stop_reason)
    assert report.marks.begun is not None


def test_a_reset_row_begins_again(engine: Engine) -> None:
    plan = plan_of(engine, response_format=Choice(("ab", "cd")))
    request, grammar = made(engine, plan)
    before = mask_of(grammar, engine)
    assert request.take(grammar, before[:1])
    grammar.reset()
    assert mask_of(grammar, engine) == before
