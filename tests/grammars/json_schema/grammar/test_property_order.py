"""Keys come in the order in which a schema names them, wherever it names them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges.schema_masks import Judge

INTEGER = {"type": "integer"}
A_THEN_B = {"dependentSchemas": {"a": {"properties": {"b": INTEGER}, "required": ["b"]}}}
SEVEN = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    ("schema", "keys"),
    [
        (A_THEN_B, "ab"),
        ({**SEVEN, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, "cd"),
        ({"dependentSchemas": {"a": {"properties": {"b": INTEGER}}, "c": {"properties": {"b": INTEGER}}}}, "acb"),
        ({**A_THEN_B, "properties": {"c": INTEGER, "a": INTEGER}}, "cab"),
        ({"properties": {"c": INTEGER, "a": INTEGER}, **A_THEN_B}, "cab"),
        ({"properties": {"c": INTEGER}, **A_THEN_B}, "cab"),
        ({"anyOf": [{"properties": {"c": INTEGER}}, A_THEN_B]}, "cab"),
    ],
    ids=json.dumps,
)
def test_a_key_stands_before_those_that_depend_on_it(judge: Judge, schema: dict[str, Any], keys: str) -> None:
    found = judge.compiled({"type": "object", **schema})
    assert found.accepts(json.dumps(dict.fromkeys(keys, 1)))


@pytest.mark.parametrize("names", [{"enum": ["b", "a"]}, {"$ref": "#/$defs/k"}, {"$ref": "#/$defs/j"}])
def test_names_come_in_the_order_of_their_list_wherever_it_stands(judge: Judge, names: dict[str, Any]) -> None:
    definitions = {"j": {"$ref": "#/$defs/k"}, "k": {"enum": ["b", "a"]}}
    compiled = judge.compiled({"type": "object", "propertyNames": names, "minProperties": 2, "$defs": definitions})
    assert compiled.accepts('{"b": 1, "a": 2}')
    assert not compiled.accepts('{"a": 1, "b": 2}')
