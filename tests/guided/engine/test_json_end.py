"""An answer that is one JSON value ends where the value does, by the plan's own end tokens."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from grammars.values.format import Ends, Format
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, TokenRefused
from tests.made_up.schemas import closed

SCHEMAS: dict[str, Any] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string", "maxLength": 6},
    "enum": {"enum": ["a", "ab", 1, None]},
    "marker": {"enum": ["a<|im_end|>b", "<|im_end|>"]},
    "array": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    "object": closed({"a": {"type": "integer"}, "b": {"type": "string"}}, optional=["b"]),
    "blanks": {"enum": ["} | %json {", "} "]},
    "either": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]},
}


def plan_of(engine: Engine, schema: Any, **format_options: Any) -> Plan:
    parts = Parts(response_format=JsonSchema(schema))
    return compose(parts, tokens=engine.tokens, format=Format("plain", **format_options))


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
    assert state.stop_reason.token_id == end
    assert state.validate([end]) == 0
    with pytest.raises(GuidanceError, match="has ended"):
        state.commit([end])
    state.rollback(1)
    assert not state.is_stopped
    assert state.is_accepting


def test_the_engine_s_own_end_token_is_offered_only_where_the_plan_has_it(engine: Engine) -> None:
    eos = engine.tokens.end_ids[0]  # what the engine is given as its own
    name = engine.tokens.text(eos)
    other = next(i for i in sorted(engine.tokens.marker_ids) if i != eos)
    plan = plan_of(engine, {"enum": ["a", "ab"]}, ends=Ends(content=(engine.tokens.text(other),), not_ends=(name,)))
    assert eos not in plan.end_ids()
    assert other in plan.end_ids()
    state = GuidanceState(plan, engine)
    state.commit(engine.tokenize('"a"'))
    assert eos not in allowed_ids(state.mask())
    assert set(state.open_end_ids()) == plan.end_ids()
    with pytest.raises(TokenRefused):
        state.commit([eos])
    state.commit([other])
    assert state.is_stopped
