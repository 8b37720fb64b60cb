"""Keys come in the order in which a schema names them, wherever it names them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges.schema_laws import byte_judge

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
def test_a_key_stands_before_those_that_depend_on_it(schema: dict[str, Any], keys: str) -> None:
    found = byte_judge(None).compiled({"type": "object", **schema})
    assert found.accepts(json.dumps(dict.fromkeys(keys, 1)))
