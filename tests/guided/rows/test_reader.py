"""Tokens that someone else sampled are read as those of the row that wrote them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grammars.plan.plan import Plan, RowPlan, Stops
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.output.message import Message, Usage
from guided.output.parser import Event
from guided.rows.answer import RowAnswer, read_answer
from guided.rows.reader import AnswerReader
from guided.rows.report import RowReport
from guided.rows.sequence import RowSequence
from special_tokens.errors import TokenRefused
from tests.cases import seeds
from tests.guided.landing.test_control import FEW, step
from tests.guided.landing.test_landing import KINDS, made
from tests.guided.output.test_answer_end import CALL, SEP, said, separated  # noqa: F401  (a fixture)
from tests.guided.output.test_parser import without_ids
from tests.judges.plans import drawn, plan_of


def joined(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The events, with adjacent text of one kind as one."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        kind, text = type(event).__name__, getattr(event, "text", None)
        key = (kind, getattr(event, "index", None), getattr(event, "name", None))
        if out and out[-1][:3] == key and text is not None:
            out[-1] = (*key, out[-1][3] + text)
        else:
            out.append((*key, text))
    return out


def read(
    tokens: Sequence[int], plan: RowPlan, engine: Engine, chance: random.Random, report: RowReport, **how: Any
) -> tuple[Message, list[Event]]:
    """The message and the events of tokens that come in portions."""
    reader, events, at = AnswerReader(plan, engine, prompt_tokens=3), list[Event](), 0
    while at < len(tokens):
        size = chance.choice((1, 1, 2, 5, 40))
        events += reader.feed(tokens[at : at + size])
        at += size
    events += reader.finish(**how)
    assert not reader.feed([1])
    assert not reader.finish()
    return reader.message(Usage(cached_tokens=1), report), events


def answered(answer: RowAnswer, chance: random.Random, most: int) -> list[Event]:
    """The events of an answer that its row guides; it is read now and then."""
    events: list[Event] = []
    row = answer.sequence
    while not answer.is_done and len(answer.tokens) < most:
        mask = answer.token_mask()
        ids = allowed_ids(mask.words) if mask is not None else list(range(answer._engine.vocab_size))
        if isinstance(row, RowSequence) and row.is_landing():
            token = step(row.fork(), chance)
        else:
            token = next(drawn(ids, answer._engine, chance))
        answer.push(token)
        if chance.random() < 0.3:
            answer.push_forced(min(4, most - len(answer.tokens)))
        if chance.random() < 0.5:
            events += answer.read()
    return events + answer.finish()


def stops_for(engine: Engine, chance: random.Random, plan: Plan) -> Stops:
    """Stops of one and two letters of what the plan writes, or none."""
    if chance.random() < 0.5:
        return Stops()
    some = RowAnswer(plan, engine)
    answered(some, chance, 40)
    text = b"".join(map(engine.token_bytes, some.tokens)).decode("utf-8", "ignore")
    at = chance.randrange(max(1, len(text) - 3))
    return Stops((text[at : at + chance.randint(1, 3)] or "e",), include=chance.random() < 0.5)


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS])
def test_a_reader_finds_what_the_row_finds(engine: Engine, kind: str, seed: int) -> None:
    """Whole and cut answers, stops kept and left out; the judge is the answer that its own row wrote."""
    chance = random.Random(f"{kind} {seed}")
    plan = made(engine, kind)
    plan = replace(plan, stops=stops_for(engine, chance, plan))
    most = chance.choice((3, 20, 60, 150))
    answer = RowAnswer(plan, engine, prompt_tokens=3)
    events = answered(answer, chance, most)
    judge, report = answer.message(Usage(cached_tokens=1)), answer._report()
    padding = [engine.tokens.end_ids[0]] * chance.randrange(3) if answer.is_done else []
    message, found = read([*answer.tokens, *padding], plan, engine, chance, report)
    assert without_ids(message) == without_ids(judge)
    assert joined(found) == joined(events)
    again = read_answer(answer.tokens, plan, engine, prompt_tokens=3, sequence=answer.sequence)
    assert without_ids(again) == without_ids(judge)


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS])
def test_a_reader_says_what_landed(engine: Engine, kind: str, seed: int) -> None:
    chance, plan = random.Random(f"{kind} {seed}"), made(engine, kind)
    most = min_tokens(plan, engine) + chance.choice((0, 4, 20))
    answer = RowAnswer(plan, engine, max_tokens=most, prompt_tokens=3)
    events = answered(answer, chance, most)
    message, found = read(answer.tokens, plan, engine, chance, answer._report())
    assert without_ids(message) == without_ids(answer.message(Usage(cached_tokens=1)))
    assert joined(found) == joined(events)


@pytest.mark.parametrize("seed", seeds(8, default=3))
def test_rows_without_a_plan_are_read(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    for plan in (None, Stops(("t", "ab")), Stops(("<|im_end|>",)), Stops(regex="[0-9][ -@]")):
        answer = RowAnswer(plan, engine, prompt_tokens=3)
        events = answered(answer, chance, 30)
        message, found = read(answer.tokens, plan, engine, chance, answer._report())
        assert without_ids(message) == without_ids(answer.message(Usage(cached_tokens=1)))
        assert joined(found) == joined(events)


@pytest.mark.parametrize("on_error", ["end", "unconstrained"])
def test_an_error_of_the_row_is_one_of_the_message(engine: Engine, on_error: Any) -> None:
    plan, chance = plan_of(engine, response_format={"type": "object"}, thinking=False), random.Random(1)
    answer = RowAnswer(plan, engine, on_error=on_error, prompt_tokens=3)
    for token in [*engine.tokenize('{"a": '), *engine.tokenize("]oops")]:
        if not answer.is_done:
            answer.push(token)
    judge, report = answer.message(Usage(cached_tokens=1)), answer._report()
    assert isinstance(report.error, TokenRefused)
    message, _ = read(answer.tokens, plan, engine, chance, report)
    assert without_ids(message) == without_ids(judge)
    assert message.finish_reason == ("error" if on_error == "end" else "length")


def test_a_separator_ends_an_answer_unless_a_call_follows(separated: Any) -> None:  # noqa: F811
    """Every way to cut the tokens in two; before it is decided nothing of the call is shown."""
    plan, engine = separated
    for text in (CALL + SEP, CALL, *("Hello." + end for end in (SEP, SEP + SEP, CALL, CALL + SEP, SEP + "\n\nf"))):
        ids = engine.tokenize(text)
        row = RowSequence(plan, engine)
        row.extend(ids)
        judge = read_answer(ids, plan, engine, sequence=row)
        for at in range(len(ids) + 1):
            reader = AnswerReader(plan, engine)
            events = reader.feed(ids[:at]) + reader.feed(ids[at:]) + reader.finish()
            message = reader.message(report=row.report())
            assert said(message) == said(judge)
            if SEP + SEP not in text:  # the row reads both, of which either would do
                assert without_ids(message) == without_ids(judge)
            assert "".join(one[3] for one in joined(events) if one[0] == "ContentDelta") == (judge.content or "")


def test_a_sampler_may_say_that_the_answer_is_whole(engine: Engine) -> None:
    """Some hosts take the end token out."""
    plan = plan_of(engine, response_format={"type": "object", "additionalProperties": False}, thinking=False)
    tokens = engine.tokenize("{}")
    for reason, finish, parsed in (("stop", "stop", {}), ("length", "length", None), (None, "length", None)):
        reader = AnswerReader(plan, engine)
        reader.feed(tokens)
        reader.finish(reason)  # type: ignore[arg-type]
        message = reader.message()
        assert (message.finish_reason, message.parsed, message.usage.completion_tokens) == (finish, parsed, len(tokens))


def test_what_no_mask_chose_is_validated(engine: Engine) -> None:
    """Without a report of a row nothing vouches for the text."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    plan = plan_of(engine, response_format=schema, thinking=False)
    reader = AnswerReader(plan, engine)
    reader.feed([*engine.tokenize('{"n": "x"}'), engine.tokens.end_ids[0]])
    message = reader.message()
    assert message.violations
    assert message.parsed is None


def test_tokens_may_come_as_arrays(engine: Engine) -> None:
    """A list to which an array is added is a sum in numpy."""
    plan, tokens = plan_of(engine, thinking=False), engine.tokenize("some text")
    reader = AnswerReader(plan, engine)
    for at in range(len(tokens)):
        reader.feed(np.array(tokens[at : at + 1]))
    assert reader.tokens == tokens
    assert all(type(token) is int for token in reader.message().token_ids)
    assert reader.message().content == "some text"


def test_what_follows_a_stop_is_not_kept(engine: Engine) -> None:
    plan = plan_of(engine, stop=Stops(("ab",)))
    tokens = [engine.tokens.facts.lookup(letter) for letter in "xaby"]
    for portions in ([tokens + sorted(plan.end_ids())], [tokens[:3], tokens[3:]]):
        reader = AnswerReader(plan, engine)
        for portion in portions:
            reader.feed(portion)
        assert reader.tokens == tokens[:3]
        message = reader.message()
        assert (message.content, message.finish_reason, message.stop_reason) == ("x", "stop", "ab")
        assert message.token_ids == tuple(tokens[:3])


@pytest.mark.parametrize("plan", [None, Stops(("ab",))])
def test_a_loop_may_ask_the_same_of_an_unguided_row(engine: Engine, plan: RowPlan) -> None:
    answer = RowAnswer(plan, engine, max_tokens=4)
    assert answer.push_forced(4) == []
    assert answer.landed is None
    assert answer.sequence is None or not answer.sequence.is_landing()
