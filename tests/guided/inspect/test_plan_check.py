"""`guide.check` says what a plan's answers cost and keep, before one is generated."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import guided
from special_tokens.errors import PlanError
from tests.made_up.schemas import closed

SCHEMA = closed({"ok": {"type": "boolean"}})


def test_the_least_is_enough_and_one_less_is_not(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=SCHEMA)
    check = tiny_guide.check(plan)
    jsonschema.validate(json.loads(check.shortest), SCHEMA)
    assert check.report is plan.schema_report
    assert tiny_guide.chat("Is it?", plan, max_tokens=check.min_tokens, temperature=0).complete
    with pytest.raises(guided.RequestError, match=f"expected at least {check.min_tokens}"):
        tiny_guide.chat("Is it?", plan, max_tokens=check.min_tokens - 1, short_budget="error")


def test_a_plan_without_a_response_format_has_no_shortest_response(tiny_guide: Any) -> None:
    check = tiny_guide.check(tiny_guide.plan())
    assert (check.shortest, check.min_tokens) == (None, 1)


def test_where_no_end_is_found_a_note_says_why(tiny_guide: Any) -> None:
    schema = {"type": "array", "items": {"enum": list(range(120))}, "uniqueItems": True, "minItems": 100}
    plan = tiny_guide.plan(response_format=schema, thinking=False)
    check = tiny_guide.check(plan)
    assert (check.shortest, check.min_tokens) == (None, None)
    assert "no end without repeats" in check.notes[-1]
    assert check.notes[:-1] == plan.notes


def test_the_plan_of_another_vocabulary_is_refused(tiny_guide: Any, demo_guide: Any) -> None:
    with pytest.raises(PlanError, match="the plan belongs to vocabulary"):
        tiny_guide.check(demo_guide.plan(response_format=SCHEMA))
