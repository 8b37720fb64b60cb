"""Shortest texts of a plan's response are those of its schema, whether the plan was made here or was sent."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.wire import decode_plan, encode_plan
from grammars.regular.languages import UNKNOWN, Regular, Unknown
from grammars.shortest import instances, plan_texts
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


def test_a_word_is_searched_breadth_first_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patient search after the quick one does not repeat what the quick one gave up."""
    apart = [{"pattern": f"{letter}.{{3}}[0-9].*z"} for letter in "abcd"]
    plan = plan_of(engine, response_format=JsonSchema({"type": "string", "allOf": apart}), thinking=False)
    assert plan.response is not None
    searched, shortest = [], instances.shortest

    def counted(term: Regular, budget: int) -> str | Unknown | None:
        searched.append(shortest(term, budget))
        return searched[-1]

    monkeypatch.setattr(instances, "shortest", counted)
    found = response_text(plan.response)
    assert searched == [UNKNOWN]
    assert found is not None
    assert all(re.search(one["pattern"], json.loads(found)) for one in apart)
