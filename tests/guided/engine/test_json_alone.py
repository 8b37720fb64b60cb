"""A plan that is one JSON value is compiled without Lark, with the same masks, ends and commits."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.constraints import Choice, JsonSchema
from grammars.values.format import Ends, Format
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, TokenRefused

SCHEMAS: dict[str, Any] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string", "maxLength": 6},
    "enum": {"enum": ["a", "ab", 1, None]},
    "marker": {"enum": ["a<|im_end|>b", "<|im_end|>"]},
    "array": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    "object": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "blanks": {"enum": ["} | %json {", "} "]},
    "either": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]},
}


def plan_of(engine: Engine, schema: Any, **format_options: Any) -> Plan:
    parts = Parts(response_format=JsonSchema(schema))
    return compose(parts, tokens=engine.tokens, format=Format("plain", **format_options))


def with_sentinels(plan: Plan, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> GuidanceState:
    """The judge: the same plan compiled from its Lark, where a sentinel stands for the end."""
    with monkeypatch.context() as patch:
        patch.setattr(engine, "eos", None)
        return GuidanceState(plan, engine)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("seed", range(4))
def test_every_step_is_the_step_of_the_grammar_with_a_sentinel(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    plan = plan_of(engine, SCHEMAS[name])
    state, judge = GuidanceState(plan, engine), with_sentinels(plan, engine, monkeypatch)
    assert engine.grammar_of(plan)[1] == engine.eos is not None
    draw = random.Random(f"{name} {seed}")
    ends = plan.end_ids()
    for _ in range(60):
        assert np.array_equal(state.mask(), judge.mask())
        assert state.open_end_ids() == judge.open_end_ids()
        assert state.is_accepting == judge.is_accepting
        assert state.ff_tokens() == judge.ff_tokens()
        if state.is_stopped:
            break
        allowed = allowed_ids(state.mask())
        tried = [draw.choice(allowed), *draw.choices(range(engine.vocab_size), k=2), *ends]
        for drafts in (tried, tried[:1] + list(ends), list(ends), tried[1:]):
            assert state.validate(drafts) == judge.validate(drafts)
        refused = draw.randrange(engine.vocab_size + 2)
        if refused not in allowed:
            for one in (state, judge):
                with pytest.raises(TokenRefused):
                    one.commit([refused])
        closing = [i for i in allowed if i in ends]
        token = draw.choice(closing) if closing and draw.random() < 0.3 else draw.choice(allowed)
        for one in (state, judge):
            one.commit([token])
        if draw.random() < 0.3:
            back = draw.randint(1, state.num_tokens)
            for one in (state, judge):
                one.rollback(back)
        if draw.random() < 0.2:
            state, judge = state.fork(), judge.fork()
    assert state.tokens == judge.tokens


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_whole_value_only_ends(engine: Engine, name: str) -> None:
    values = {"boolean": "true", "integer": "12", "number": "1.5", "string": '"ab"', "enum": '"ab"', "array": "[true]"}
    values |= {"object": '{"a": 1, "b": "x"}', "either": "null", "blanks": '"} "', "marker": '"<|im_ end|>"'}
    state = GuidanceState(plan_of(engine, SCHEMAS[name]), engine)
    pieces = values[name].split(" ") if name == "marker" else [values[name]]  # as text, never as the token
    state.commit([token for piece in pieces for token in engine.tokenize(piece)])
    end = min(state.open_end_ids())
    assert state.validate([end]) == 1
    assert state.validate([end, end]) == 1
    state.commit([end])
    assert state.stop_reason is not None
    assert state.stop_reason.token_id == end
    with pytest.raises(GuidanceError):
        state.commit([end])
    state.rollback(1)
    assert not state.is_stopped
    assert state.is_accepting


def test_the_engine_s_own_end_token_is_offered_only_where_the_plan_has_it(engine: Engine) -> None:
    assert engine.eos is not None
    name = engine.tokens.text(engine.eos)
    other = next(i for i in sorted(engine.tokens.marker_ids) if i != engine.eos)
    plan = plan_of(engine, {"enum": ["a", "ab"]}, ends=Ends(content=(engine.tokens.text(other),), not_ends=(name,)))
    assert engine.eos not in plan.end_ids()
    assert other in plan.end_ids()
    state = GuidanceState(plan, engine)
    state.commit(engine.tokenize('"a"'))
    assert engine.eos not in allowed_ids(state.mask())
    assert set(state.open_end_ids()) == plan.end_ids()
    with pytest.raises(TokenRefused):
        state.commit([engine.eos])
    state.commit([other])
    assert state.is_stopped


def test_only_a_json_value_alone_goes_without_its_lark(engine: Engine) -> None:
    choice = compose(Parts(response_format=Choice(("a", "b"))), tokens=engine.tokens, format=Format("plain"))
    assert engine.grammar_of(choice) == (choice.engine_text(), None)
    text, end = engine.grammar_of(plan_of(engine, SCHEMAS["object"]))
    assert end == engine.eos
    assert set(json.loads(text)["grammars"][0]) == {"json_schema"}


def test_two_values_are_not_one(engine: Engine) -> None:
    plan = plan_of(engine, {"type": "integer", "multipleOf": 7, "not": {"minimum": 5, "maximum": 20}})
    assert plan.grammar.rules.count("%json") == 2
    assert plan.grammar.json_text() is None
    GuidanceState(plan, engine).mask()
