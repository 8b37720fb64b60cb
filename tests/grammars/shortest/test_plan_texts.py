"""Shortest texts of a plan's response are those of its schema, whether the plan was made here or was sent."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.wire import decode_plan, encode_plan
from grammars.shortest import node_texts, plan_texts
from grammars.shortest.instances import PATIENT
from grammars.shortest.plan_texts import response_text
from grammars.values.constraints import JsonSchema
from guided.engine.engine import Engine
from tests.judges.plans import plan_of

TRANSLATED: tuple[tuple[Any, int], ...] = (
    ({"type": "string", "minLength": 2, "not": {"const": "ab"}}, 4),
    ({"not": {"type": ["string", "number", "object", "null", "boolean"]}}, 2),
    ({"type": "array", "items": {"enum": [1, 2, "c"]}, "minItems": 3, "uniqueItems": True}, 11),
)


@pytest.mark.parametrize(("schema", "size"), TRANSLATED)
def test_a_translated_schema_is_not_built_again(
    engine: Engine, schema: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    sent = decode_plan(encode_plan(plan))
    assert plan.response is not None
    assert sent.response is not None
    assert plan == sent
    assert sent.response.built is None
    found = response_text(sent.response)
    monkeypatch.setattr(plan_texts, "build", lambda *args, **options: pytest.fail("built again"))
    assert response_text(plan.response) == found
    assert found is not None
    assert len(found) == size


def test_another_schema_is_built(engine: Engine) -> None:
    plan = plan_of(engine, response_format=JsonSchema(TRANSLATED[0][0]), thinking=False)
    assert plan.response is not None
    assert plan.response.built is not None
    other = replace(plan.response, schema={"type": "integer", "minimum": 100, "not": {"const": 100}})
    assert response_text(other) == "101"


def strings_of_two_patterns(chance: random.Random) -> Any:
    """An object of six strings that each match two patterns at once."""

    def pattern() -> str:
        return f"{chance.choice('ghij')}.{{{chance.randint(1, 6)}}}[0-9].*{chance.choice('xyz')}"

    members = {f"m{i}": {"type": "string", "allOf": [{"pattern": pattern()} for _ in range(2)]} for i in range(6)}
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


@pytest.mark.parametrize("seed", range(4))
def test_a_text_does_not_depend_on_what_was_searched_before(
    engine: Engine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remembered searches took no work: the second call found a text, so a row had an end and `min_tokens` none."""
    plan = plan_of(engine, response_format=JsonSchema(strings_of_two_patterns(random.Random(seed))), thinking=False)
    assert plan.response is not None
    for work in (1_000_000, 2_000_000, PATIENT[1]):
        monkeypatch.setattr(node_texts, "PATIENT", (PATIENT[0], work))
        found = [response_text(plan.response) for _ in range(4)]
        assert len(set(found)) == 1
    assert found[0] is not None


def test_a_word_of_many_places_takes_work_once(engine: Engine) -> None:
    mail = {"type": "string", "format": "email", "pattern": "@example\\.com$"}
    members = {f"m{i}": {"type": "array", "minItems": 3, "uniqueItems": True, "items": mail} for i in range(30)}
    schema = {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    assert plan.response is not None
    assert response_text(plan.response) is not None
