"""String languages that are empty or too large for the engine's lexer: neither leads to a dead row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from special_tokens.errors import LimitExceeded, SchemaError
from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Judge


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


#: Strings that there are none of, by their characters.
_NONE_LEFT: list[dict[str, Any]] = [
    {"allOf": [{"pattern": "^[a-z0-9:]+$"}, {"pattern": "[0-9]{4}-[1-2]{1}-[0-9]{1}"}]},
    {"pattern": "^[0-9]+$", "format": "date", "not": {"pattern": "x{9}"}},
    {"pattern": "^[a-f]{1,60}$", "allOf": [{"pattern": "[e-z]{3}"}, {"pattern": "^[a-dg-z]*$"}]},
]


@pytest.mark.parametrize("strings", _NONE_LEFT, ids=json.dumps)
def test_a_key_without_values_is_not_offered(judge: Judge, strings: dict[str, Any]) -> None:
    inner = {"type": "string", **strings}
    schema = {"type": "object", "properties": {"b": inner}, "additionalProperties": False}
    found = judge.compiled(schema, "strict")
    assert found.accepts("{}")
    assert not found.accepts('{"b": "a"}')
    state = found.start.fork()
    state.commit(state.engine.tokenize("{"))
    assert not state.allows(state.engine.tokenize('"')[0])
    for wanted, pointer in ((inner, "schema"), ({**schema, "required": ["b"]}, "properties/b")):
        with pytest.raises(SchemaError, match="no value satisfies") as refused:
            judge.compiled(wanted)
        assert pointer in str(refused.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"pattern": "a.{40}$"}, {"pattern": "b.{41}$"}], "not": {"pattern": "c.{42}$"}},
        {"pattern": "^(?=.*a.{20}$)(?=.*b.{20}$)(?!.*c.{20}$).*$"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_counts_that_multiply_are_refused_with_the_limit(judge: Judge, schema: Any) -> None:
    with pytest.raises(LimitExceeded, match="compiling the grammar takes more than"):
        judge.compiled({"type": "string", **schema})
