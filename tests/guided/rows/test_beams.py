"""Rows under beam search: after any permutation of histories, every row is where its history leads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, Stops
from grammars.values.constraints import Choice, Regex
from grammars.values.format import Ends, Format
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.rows.beams import BeamTracker
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from special_tokens.errors import LimitExceeded
from tests.cases import costly

FORMAT = Format("plain", ends=Ends(("<|im_end|>",)))
PARTS: list[dict[str, Any]] = [
    {"response_format": Choice(["yes", "yesterday", "no"])},
    {"response_format": Regex("[a-c]{2,6}x?")},
    {"response_format": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}},
]


def plan_of(engine: Engine, parts: dict[str, Any]) -> Plan:
    return compose(Parts(**parts), tokens=engine.tokens, format=FORMAT)


def fresh(engine: Engine, plan: Plan, history: list[int]) -> RowSequence:
    """The judge: a new row that reads the whole history."""
    row = RowSequence(plan, engine)
    for token in history:
        row.extend([token])
    return row


def mask_of(row: RowSequence) -> list[int] | None:
    mask = row.token_mask()
    return allowed_ids(mask.words) if mask is not None else None


def assert_same(row: RowSequence, judge: RowSequence) -> None:
    assert list(row.state.tokens) == list(judge.state.tokens)
    assert row.is_done == judge.is_done
    assert type(row.error) is type(judge.error)
    assert mask_of(row) == mask_of(judge)
    one, other = row.state, judge.state
    assert (one.region, one.is_stopped, one.is_accepting) == (other.region, other.is_stopped, other.is_accepting)
    assert one.ff_tokens() == other.ff_tokens()


@costly
@given(parts=st.sampled_from(PARTS), num_rows=st.integers(1, 4), data=st.data())
def test_any_histories_in_any_order(engine: Engine, parts: dict[str, Any], num_rows: int, data: st.DataObject) -> None:
    """Permuted, duplicated, shortened, replaced, illegal: as if every row were new."""
    plan = plan_of(engine, parts)
    tracker = BeamTracker([RowSequence(plan, engine, row=i) for i in range(num_rows)])
    histories: list[list[int]] = [[] for _ in range(num_rows)]
    for _ in range(8):
        new = []
        for _ in range(num_rows):
            history = list(data.draw(st.sampled_from(histories)))
            history = history[: len(history) - data.draw(st.sampled_from([0, 0, 0, 1, 3]))]
            allowed = mask_of(fresh(engine, plan, history))
            illegal = data.draw(st.integers(0, 9)) == 0
            ids = list(range(engine.vocab_size)) if illegal or not allowed else allowed
            new.append([*history, data.draw(st.sampled_from(ids))])
        histories = new
        tracker.sync(histories)
        for row, history in zip(tracker.rows, histories, strict=True):
            assert_same(row, fresh(engine, plan, history))  # type: ignore[arg-type]


def test_one_fork_per_copy_and_no_replay(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(engine, PARTS[1])
    a, b, c = (engine.tokenize(text)[0] for text in "abc")
    tracker = BeamTracker([RowSequence(plan, engine, row=i) for i in range(3)])
    tracker.sync([[a], [b], [c]])
    rows = list(tracker.rows)
    tracker.sync([[b, a], [b, b], [a, c]])
    assert tracker.rows[1] is rows[1]  # who may stay does
    assert tracker.rows[2] is rows[0]
    assert tracker.rows[0] not in rows
    assert [row.row for row in tracker.rows] == [0, 1, 2]
    for row in tracker.rows:
        assert isinstance(row, RowSequence)
        assert (row.state.counters.commits, row.state.counters.rollbacks) == (2, 0)


def test_a_row_brought_elsewhere_leaves_the_others_alone(engine: Engine) -> None:
    plan = plan_of(engine, PARTS[1])
    ids = engine.tokenize("abcab")
    tracker = BeamTracker([RowSequence(plan, engine)])
    tracker.sync([ids])
    before = list(tracker.rows[0].state.tokens)  # type: ignore[union-attr]
    assert_same(tracker.at(ids[:2]), fresh(engine, plan, ids[:2]))  # type: ignore[arg-type]
    assert list(tracker.rows[0].state.tokens) == before  # type: ignore[union-attr]


def test_rows_without_a_plan_move_with_their_stops(engine: Engine) -> None:
    stops = Stops(("stop",))
    tracker = BeamTracker([UnguidedSequence(stops, engine, row=i) for i in range(2)])
    one, two = engine.tokenize("a sto"), engine.tokenize("nothing")
    tracker.sync([one, two])
    tracker.sync([two, [*one, *engine.tokenize("p and more")]])
    assert [row.is_done for row in tracker.rows] == [False, True]
    tracker.sync([one, two])
    assert [row.is_done for row in tracker.rows] == [False, False]


# -- one row


@pytest.mark.parametrize("history", ["abca", "ab", "abb"])
def test_a_matcher_that_failed_is_replaced_wherever_the_row_goes(engine: Engine, history: str) -> None:
    plan = plan_of(engine, PARTS[1])
    row = RowSequence(plan, engine)
    row.sync(engine.tokenize("abc"))
    row.state._matcher.current.consume_tokens([plan.ends[0].sentinel] * 2)
    row.sync(engine.tokenize(history))
    assert row.error is None
    assert row.guidance().recovered == 1
    assert_same(row, fresh(engine, plan, engine.tokenize(history)))


def test_the_number_of_rollbacks_may_be_limited(engine: Engine) -> None:
    row = RowSequence(plan_of(engine, PARTS[1]), engine, max_rollbacks=3)
    ids = engine.tokenize("abc")
    for _ in range(3):
        row.sync(ids)
        row.sync(ids[:1])
    assert row.error is None
    row.sync(ids)
    row.sync(ids[:1])
    assert isinstance(row.error, LimitExceeded)
    row.restart()
    assert row.error is None
    assert row.state.counters.rollbacks == 0
