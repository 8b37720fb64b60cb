"""Constants with sibling keywords on the fast path: if no constant is left, our own compiler reports it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.passthrough.build import pass_through
from grammars.values.spelling import DEFAULT_SPELLING
from special_tokens.errors import SchemaError

#: Constants, and sibling keywords that none of them satisfies.
IMPOSSIBLE: list[dict[str, Any]] = [
    {"const": 3, "minimum": 5},
    {"const": 3, "exclusiveMaximum": 3},
    {"enum": [3, 5.5], "multipleOf": 2},
    {"enum": ["x"], "pattern": "^y$"},
    {"enum": ["x", "yy"], "minLength": 3},
    {"const": "xyz", "maxLength": 2},
    {"const": "x", "format": "date"},
]


@pytest.mark.parametrize("schema", IMPOSSIBLE, ids=json.dumps)
def test_constants_that_nothing_is_left_of_are_refused_as_such(schema: Any) -> None:
    for whole in (schema, {"type": "object", "properties": {"a": schema}, "required": ["a"]}):
        with pytest.raises(SchemaError, match="unsatisfiable"):
            build(whole, watch=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 5, "minimum": 5},
        {"type": "integer", "enum": [3, 4], "multipleOf": 2},
        {"enum": ["x", None], "minimum": 5},
        {"enum": ["x", "y"], "pattern": "^y$"},
        {"enum": ["xx", True], "maxLength": 1},
        {"const": "2024-01-31", "format": "date"},
        {"enum": [1, "a"], "format": "date"},
    ],
    ids=json.dumps,
)
def test_constants_that_something_is_left_of_are_taken(schema: Any) -> None:
    assert pass_through(schema, DEFAULT_SPELLING) is not None
