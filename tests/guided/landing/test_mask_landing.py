"""A host that sees masks alone ends within its budget, and far from the budget its answers are what they were."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest

import guided
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.rows.answer import read_answer
from guided.rows.making import make_row
from guided.rows.sequence import RowSequence
from tests.cases import seeds
from tests.guided.landing.test_control import BUDGETS, FEW, _without, drawn, random_schema
from tests.guided.landing.test_landing import KINDS, check_value, made
from tests.judges.plans import plan_of


def row_of(plan: Plan, engine: Engine, max_tokens: int | None) -> RowSequence:
    row = make_row(plan, engine, max_tokens=max_tokens, lands_in_masks=True)
    assert isinstance(row, RowSequence)
    assert not row.budget_note
    return row


def sampled(row: RowSequence, chance: random.Random, most: int) -> list[int]:
    """What a sampler writes that sees the masks alone."""
    tokens: list[int] = []
    while not row.is_done and len(tokens) < most:
        mask = row.token_mask()
        assert mask is not None
        ids = allowed_ids(mask.words)
        assert mask.forced is None or ids == [mask.forced]
        assert set(mask.end_ids) <= set(ids)
        tokens.append(next(drawn(ids, row.state.engine, chance)))
        row.extend(tokens[-1:])
        assert row.error is None
    return tokens


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS])
def test_an_answer_ends_within_any_budget_that_can_hold_one(engine: Engine, kind: str, seed: int) -> None:
    plan, chance = made(engine, kind), random.Random(f"{kind} {seed}")
    least = min_tokens(plan, engine)
    for extra in BUDGETS if seed else chance.sample(BUDGETS, 3):
        row = row_of(plan, engine, least + extra)
        tokens = sampled(row, chance, least + extra)
        if kind == "free text":
            continue  # it may be cut anywhere
        assert row.state.is_stopped, (extra, b"".join(map(engine.token_bytes, tokens)))
        check_value(plan, engine, tokens)


@pytest.mark.parametrize("seed", seeds(200, default=12))
def test_random_schemas_end_within_their_budgets(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    schema = {"type": "object", "properties": {"first": random_schema(chance), "second": random_schema(chance)},
              "required": ["second"], "additionalProperties": False}  # fmt: skip
    try:
        plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    except guided.GuidedError:
        pytest.skip("no value is valid")
    least = min_tokens(plan, engine)
    enforced = _without(schema, {row.keyword for row in plan.schema_report.relaxed})
    for extra in chance.sample(BUDGETS, 3):
        row = row_of(plan, engine, least + extra)
        tokens = sampled(row, chance, least + extra)
        assert row.state.is_stopped, (schema, extra, b"".join(map(engine.token_bytes, tokens)))
        jsonschema.validate(json.loads(read_answer(tokens, plan, engine).content or ""), enforced)
