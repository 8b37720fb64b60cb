"""Keys and items that can only end as a duplicate beyond the look-ahead: an error, never a duplicate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from special_tokens.errors import LimitExceeded
from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Judge


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


def pattern(size: int) -> str:
    return f"^[ab]x{{{size}}}$"


def keys(size: int) -> dict[str, Any]:
    return {"type": "object", "patternProperties": {pattern(size): {"type": "null"}}, "additionalProperties": False}


def items(size: int) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "pattern": pattern(size)}, "uniqueItems": True}


def written(schema: Any, size: int, *letters: str) -> str:
    words = [json.dumps(letter + "x" * size) for letter in letters]
    if schema["type"] == "array":
        return f"[{', '.join(words)}]"
    return "{" + ", ".join(f"{word}: null" for word in words) + "}"


@pytest.mark.parametrize("size", [150, 600])
@pytest.mark.parametrize("kind", [keys, items])
def test_all_words_of_a_long_pattern_are_written_once(judge: Judge, kind: Any, size: int) -> None:
    schema = kind(size)
    found = judge.compiled(schema)
    assert not found.plan.schema_report.relaxed
    assert found.accepts(written(schema, size, "a", "b"))
    assert not found.accepts(written(schema, size, "a", "b", "a"))


@pytest.mark.parametrize("kind", [keys, items])
def test_a_repeat_within_reach_is_not_begun(judge: Judge, kind: Any) -> None:
    schema = kind(150)
    assert not judge.compiled(schema).accepts(written(schema, 150, "a", "a"))


@pytest.mark.parametrize("size", [260, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [items, keys])
def test_a_repeat_out_of_reach_ends_with_an_error(judge: Judge, kind: Any, size: int) -> None:
    schema = kind(size)
    found = judge.compiled(schema)
    with pytest.raises(LimitExceeded, match="a search of 204 positions"):
        found.accepts(written(schema, size, "a", "a"))


def test_a_last_key_of_few_words_may_follow_others(judge: Judge) -> None:
    """A key of one word with keys of infinitely many: after a comma more than a blank must be looked at."""
    schema = {"not": {"propertyNames": {"not": {"const": "a"}}, "minProperties": 3}, "maxProperties": 3}
    found = judge.compiled({**schema, "type": "object", "propertyNames": {"pattern": "^(?!b)"}})
    assert found.plan.watchers[-1].fewest_keys == 1
    for text in ('{"ax": 1, "c": 2}', '{"ax": 1, "a": 0, "c": 2}', '{"c": 0, "ax": 1, "a": 2}'):
        assert found.accepts(text), text
    assert not found.accepts('{"ax": 1, "ax": 2}')
