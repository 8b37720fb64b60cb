"""Values of Gemma 4's calls: what their grammar does not read is said, and what no value satisfies is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from special_tokens.errors import SchemaError
from tests.judges.plans import FORMAT, plan_of
from tests.made_up.wire_forms import FORMS


def plan_with(engine: Engine, value: Any, form: str = "gemma", *, strict: bool = False) -> Plan:
    parameters = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters, "strict": strict}}
    return plan_of(engine, replace(FORMAT, tool_calls=FORMS[form]), tools=[tool], tool_choice="required")


@pytest.mark.parametrize(
    ("value", "place", "keyword"),
    [
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "x", "uniqueItems"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False, "minItems": 1}, "x", "prefixItems"),
        ({"properties": {"k": {"type": "object", "minProperties": 2}}}, "x/properties/k", "minProperties"),
        ({"anyOf": [{"type": "null"}, {"type": "object", "if": {}}]}, "x/anyOf/1", "if"),
    ],
)
def test_keywords_that_a_value_is_written_without_are_relaxed(
    engine: Engine, value: Any, place: str, keyword: str
) -> None:
    rows = [(row.pointer, row.keyword) for row in plan_with(engine, value).tool_report.relaxed]
    assert rows == [(f"/tools/f/parameters/properties/{place}", keyword)]
    with pytest.raises(SchemaError, match=keyword):
        plan_with(engine, value, strict=True)


def test_a_schema_that_refers_to_itself_is_read_to_an_end(engine: Engine) -> None:
    node: dict[str, Any] = {"type": "object", "properties": {"next": {}}, "maxProperties": 1}
    node["properties"]["next"] = {"type": "array", "items": {"$ref": "#/properties/x"}}
    assert {row.keyword for row in plan_with(engine, node).tool_report.relaxed} == {"maxProperties"}


@pytest.mark.parametrize("form", ["gemma", "character data", "invoke with a flag", "key tags with types"])
@pytest.mark.parametrize(
    "value", [{"type": "integer", "enum": ["x"]}, {"type": "array", "items": False, "minItems": 1}]
)
def test_a_value_that_cannot_be_is_a_typed_error(engine: Engine, form: str, value: Any) -> None:
    with pytest.raises(SchemaError, match="no value satisfies it") as caught:
        plan_with(engine, value, form)
    assert caught.value.place.startswith("/tools/f/parameters/properties/x")


def test_an_array_of_nothing_is_empty(engine: Engine) -> None:
    plan_with(engine, {"type": "array", "items": False})
