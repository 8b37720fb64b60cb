"""Rows as engines of others make and feed them: what they may be given, and errors that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from grammars.plan.plan import Plan, Stops
from grammars.values.constraints import Choice
from guided.engine.engine import Engine
from guided.rows.making import make_row
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin
from special_tokens.errors import GuidedError
from tests.judges.plans import plan_of


@pytest.fixture(scope="module")
def plan(engine: Engine) -> Plan:
    return plan_of(engine, response_format=Choice(["abc", "abd"]))


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_tokens_come_as_any_row_of_integers(engine: Engine, plan: Plan, kind: Any) -> None:
    tokens = engine.tokenize("ab")
    for row_plan in (plan, Stops(("x",))):
        row: Any = make_row(row_plan, engine, begin=Begin("after"))
        assert row.validate(kind(tokens)) == len(tokens)
        row.extend(kind(tokens))
        assert (row.num_tokens, row.error) == (len(tokens), None)
    state = RowSequence(plan, engine, begin=Begin("after")).state
    for token in kind(tokens):
        state.commit(token)
    assert list(state.tokens) == tokens


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"plan": {}}, "plan: dict is not a plan; expected what guide.plan"),
        ({"plan": "yes"}, "plan: str is not a plan"),
        ({"begin": "fresh"}, "begin: str is no place; expected what context.begin"),
        ({"begin": ([1], FRESH)}, "begin: tuple is no place"),
        ({"begin": Begin("frsh")}, "entry: 'frsh' is unknown; expected fresh or inside or after"),
        ({"max_tokens": 0}, "max_tokens: 0 is out of range; expected an integer of 1 or more"),
        ({"max_tokens": "5"}, "max_tokens: '5' is out of range"),
        ({"max_tokens": 2.5}, "max_tokens: 2.5 is out of range"),
        ({"max_tokens": 9, "budget": True}, "budget: bool is no budget; expected what budgeting"),
        ({"engine": "engine"}, "engine: str is not an engine; expected guide.engine"),
    ],
)
def test_what_no_row_can_be_made_of_is_raised(engine: Engine, plan: Plan, wrong: dict[str, Any], message: str) -> None:
    """Not kept in the row as a fault of ours: it is the caller who must change something."""
    given: dict[str, Any] = {"plan": plan, "engine": engine} | wrong
    with pytest.raises(GuidedError, match=f"^{message}"):
        make_row(given.pop("plan"), given.pop("engine"), **given)


def test_a_row_of_nothing_is_none(engine: Engine) -> None:
    assert make_row(None, engine) is None
    for most in (3, np.int64(3)):
        assert isinstance(make_row(Stops(("a",)), engine, max_tokens=most), UnguidedSequence)
