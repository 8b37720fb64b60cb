"""Numbers with bounds and steps, on their own and inside: what is accepted, and random answers to their ends.

The judge is exact arithmetic on the text, and on the double that a reader keeps of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.json_schema import Judge
from benchmarks.json_schema_laws import byte_judge
from grammars.json_schema import DEFAULT_SPELLING, build
from grammars.json_schema.scalars import engine_number
from grammars.tree import Json
from special_tokens.errors import GrammarError


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "number", "exclusiveMinimum": 0.01, "multipleOf": 7}, ["7", "700"], ["0", "-7"]),
        ({"type": "number", "exclusiveMaximum": 2.3, "multipleOf": 1.5}, ["1.5", "-3"], ["3", "800019"]),
        ({"type": "integer", "exclusiveMinimum": 7, "multipleOf": 7}, ["14"], ["0", "7"]),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 3, "multipleOf": 1.5}, ["1.5"], ["0", "3"]),
        ({"items": {"exclusiveMinimum": 0, "multipleOf": 3}, "minItems": 1}, ["[3]"], ["[0]", "[-3]"]),
    ],
)
def test_exclusive_bounds_hold_beside_steps(
    judge: Judge, schema: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    found = judge.compiled(schema)
    assert all(map(found.accepts, right))
    assert not any(map(found.accepts, wrong))


def test_a_word_that_the_engine_would_pass_over_is_an_error() -> None:
    with pytest.raises(GrammarError, match="exclusiveAaximum"):
        engine_number({"type": "number", "exclusiveAaximum": 2}, {})
    node = build({"exclusiveMaximum": 2, "multipleOf": 7, "type": "integer"}, spelling=DEFAULT_SPELLING).node
    assert isinstance(node, Json)
    assert node.schema.keys() == {"type", "multipleOf", "minimum", "maximum"}
