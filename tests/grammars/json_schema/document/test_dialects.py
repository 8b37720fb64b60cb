"""A ``$schema`` below the root sets the dialect only where ``$id`` begins a resource of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.guided.validation.validators import judge as verdicts_of
from tests.judges.schema_causes import unexcused
from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Judge

_FOUR = "http://json-schema.org/draft-04/schema#"
_BESIDE: dict[str, Any] = {"$schema": _FOUR, "$ref": "#/definitions/any", "type": "object"}


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


def _schema(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    definitions = {"any": {"description": "whatever"}, "part": part}
    return {"definitions": definitions, "properties": {"a": {"$ref": "#/definitions/part"}}, "required": ["a"], **more}


@pytest.mark.parametrize("more", [{}, {"$id": "https://example.com/root"}, {"title": "t", "$anchor": "here"}])
@pytest.mark.parametrize("part", [_BESIDE, {"items": _BESIDE, "type": "array", "minItems": 1}])
def test_what_stands_next_to_a_reference_counts(judge: Judge, part: dict[str, Any], more: dict[str, Any]) -> None:
    """In a schema with identifiers as in one without."""
    schema = _schema(part, **more)
    for value, is_valid in ("x", False), ({}, True):
        instance = {"a": [value] if "items" in part else value}
        verdicts = verdicts_of(schema, instance)
        assert all(verdict.is_valid is True for verdict in verdicts) == is_valid, verdicts
        assert judge.compiled(schema).accepts(json.dumps(instance)) == is_valid


def test_at_the_root_it_says_what_counts(judge: Judge) -> None:
    found = judge.compiled(_schema({"$ref": "#/definitions/any", "type": "object"}, **{"$schema": _FOUR}))
    assert found.accepts('{"a": "x"}')


def test_a_resource_has_a_dialect_of_its_own(judge: Judge) -> None:
    seven = "http://json-schema.org/draft-07/schema#"
    inner = {"$id": "https://example.com/in", "$schema": seven, "definitions": {"any": {}}, "properties": {"b": {}}}
    inner["properties"] = {"b": {"$ref": "#/definitions/any", "type": "object"}}
    found = judge.compiled(_schema(inner))
    assert found.accepts('{"a": {"b": "x"}}')


def test_words_that_only_a_stray_dialect_has_are_relaxed(judge: Judge) -> None:
    stray = {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"b": {"const": 1}}}
    schema = {"$schema": _FOUR, "type": "object", "properties": {"a": stray, "c": {"const": 1}}}
    found = judge.compiled(schema)
    rows = [(row.pointer, row.keyword) for row in found.plan.schema_report.relaxed]
    assert rows == [("/properties/a/properties/b", "const")]
    for value in {"a": {"b": 2}}, {"c": 2}:
        assert found.accepts(json.dumps(value))
        if False in {verdict.is_valid for verdict in verdicts_of(schema, value)}:
            assert not unexcused(schema, value, None, found.plan.schema_report.relaxed)


@pytest.mark.parametrize("bound", ["exclusiveMinimum", "exclusiveMaximum"])
def test_an_exclusive_bound_that_is_a_number_is_said_in_draft_4(judge: Judge, bound: str) -> None:
    """Its own meta-schema wants true or false; alone, ``jsonschema`` passes over it."""
    for dialect, narrowed in (_FOUR, [bound]), ("http://json-schema.org/draft-06/schema#", []):
        schema = {"$schema": dialect, "type": "integer", bound: 2}
        found = judge.compiled(schema)
        assert not found.accepts("2")
        assert [row.keyword for row in found.plan.schema_report.narrowed if row.keyword == bound] == narrowed
