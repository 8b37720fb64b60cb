"""`uniqueItems` where there are too few values, and where no watcher can enforce it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.json_schema.build import build
from special_tokens.errors import SchemaError
from tests.guided.validation.validators import judge as validators
from tests.judges.schema_masks import Judge
from tests.made_up.schemas import having


def distinct(**words: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, **words}


TOO_FEW: dict[str, dict[str, Any]] = {
    "of one kind": distinct(items={"enum": [1, 2]}, minItems=3),
    "by position": distinct(prefixItems=[{"const": 1}, {"const": 1}], items=False, minItems=2),
    "by position, the third taking the first's": distinct(
        prefixItems=[{"enum": [1, 2]}, {"enum": [2, 1]}, {"enum": [1, 2]}], minItems=3
    ),
    "after others": distinct(prefixItems=[{"const": "a"}], items={"enum": [1, 2]}, minItems=4),
    "that are contained": distinct(items={"type": "string"}, contains={"const": "a"}, minContains=2),
}


@pytest.mark.parametrize("name", TOO_FEW)
def test_too_few_values_are_an_error_only_where_nothing_else_is_left(judge: Judge, name: str) -> None:
    schema = TOO_FEW[name]
    with pytest.raises(SchemaError, match="more different items are wanted") as error:
        build(schema, watch=True)
    assert error.value.keyword == "uniqueItems"
    optional = judge.compiled({"type": "object", "properties": {"a": schema, "b": {"type": "null"}}})
    assert optional.accepts("{}")
    assert optional.accepts('{"b": null}')
    assert not optional.accepts('{"a": [1, 1, 1]}')
    either = judge.compiled({"anyOf": [schema, {"type": "null"}]})
    assert either.accepts("null")


@pytest.mark.parametrize(
    "schema",
    [
        distinct(prefixItems=[{"enum": [1, 2]}, {"const": 1}], items=False, minItems=2),
        distinct(prefixItems=[{"enum": [1, 9]}], items={"enum": [1, 2]}),
        distinct(prefixItems=[{"enum": [1, 2, 3]}, {"enum": [1, 4]}, {"type": "string"}], items={"type": "integer"}),
    ],
    ids=["the second has what the first may take", "what is left for the others is fewer than all", "others"],
)
def test_a_repeat_that_may_be_all_that_is_left_is_said(schema: Any) -> None:
    (row,) = build(schema, watch=True).report.relaxed
    assert (row.pointer, row.keyword) == ("", "uniqueItems")
    assert "so few values" in row.reason


@pytest.mark.parametrize(
    "schema",
    [
        distinct(items={"enum": [1, 2, 3]}, minItems=2),
        distinct(prefixItems=[{"type": "string"}], items={"type": "integer"}),
    ],
    ids=["of three", "without end"],
)
def test_values_that_suffice_are_watched(schema: Any) -> None:
    assert not build(schema, watch=True).report.relaxed


STRINGS = {"type": "array", "items": {"type": "string"}}
MIXED: dict[str, tuple[Any, str, Any]] = {
    "branches that another key tells apart": (
        {
            "anyOf": [
                having({"k": {"const": 1}, "a": {**STRINGS, "uniqueItems": True}}),
                {"type": "object", "properties": {"k": {"const": 2}, "a": STRINGS}, "required": ["k", "a"]},
            ]
        },
        "/anyOf/0/properties/a",
        {"k": 1, "a": ["x", "x"]},
    ),
    "keys that patterns tell apart": (
        {
            "type": "object",
            "patternProperties": {"^a": {**STRINGS, "uniqueItems": True}, "a$": {"maxItems": 3}},
            "additionalProperties": False,
        },
        "/patternProperties/^a",
        {"ab": ["x", "x"]},
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_is_not_watched_because_of_other_branches_is_said(judge: Judge, name: str) -> None:
    schema, pointer, value = MIXED[name]
    found = judge.compiled(schema)
    assert found.accepts(json.dumps(value))
    assert not any(verdict.is_valid for verdict in validators(schema, value))
    assert [(row.pointer, row.keyword) for row in found.plan.schema_report.relaxed] == [(pointer, "uniqueItems")]


def test_what_leans_on_relaxed_items_is_said() -> None:
    schema = {"oneOf": [distinct(items={"type": "object"}), {"type": "string"}]}
    relaxed = {(row.pointer, row.keyword) for row in build(schema, watch=True).report.relaxed}
    assert relaxed == {("/oneOf/0", "uniqueItems"), ("", "oneOf")}
