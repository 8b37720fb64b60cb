"""Enumerations of arrays and objects: equal values count once; too many are refused with their place."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.json_schema.shapes.equality_keys import EqualityKeys, distinct_values
from special_tokens.errors import SchemaError
from tests.judges.schema_masks import Judge


def equal(one: Any, two: Any) -> bool:
    """By the definition: pair by pair."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(equal(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    return bool(one == two)


@pytest.mark.parametrize("seed", range(10))
def test_two_values_have_one_key_where_json_schema_calls_them_equal(seed: int) -> None:
    at = random.Random(seed)
    plain: list[Any] = [0, 1, 1.0, -0.0, True, False, None, "", "1", 2**60, float(2**60)]

    def value(depth: int) -> Any:
        match at.randrange(3) if depth else 2:
            case 0:
                return [value(depth - 1) for _ in range(at.randrange(3))]
            case 1:
                return {key: value(depth - 1) for key in at.sample("abc", at.randrange(3))}
        return at.choice(plain)

    values = [value(2) for _ in range(60)]
    keys = EqualityKeys()
    for one in values:
        for two in values:
            assert (keys(one) == keys(two)) is equal(one, two), (one, two)
    first = [i for i, one in enumerate(values) if not any(equal(one, two) for two in values[:i])]
    assert [i for i, _ in distinct_values(values)] == first


def test_a_key_is_found_at_any_depth() -> None:
    def deep() -> Any:
        value: Any = 1
        for i in range(5_000):
            value = {"a": value} if i % 2 else [value]
        return value

    assert len(distinct_values([deep(), deep()])) == 1


@pytest.mark.parametrize("value", [[], {}, [1], {"a": [1.0]}])
@pytest.mark.parametrize("more", [{}, {"minItems": 0}])
def test_equal_values_are_one_however_many_there_are(judge: Judge, value: Any, more: dict[str, Any]) -> None:
    """On the fast path, and where a sibling keyword leaves the schema to our own compiler."""
    found = judge.compiled({"enum": [*([value] * 3_000), [[7]]], **more})
    for text, fits in (json.dumps(value).replace("1.0", "1"), True), ("[[7]]", True), ("[[8]]", False):
        assert found.accepts(text) is fits


@pytest.mark.parametrize("values", [[[i] for i in range(9_000)], [{"a": {"b": i}} for i in range(9_000)]])
def test_too_many_are_refused_with_their_place(judge: Judge, values: list[Any]) -> None:
    with pytest.raises(SchemaError, match="the limit 'edges' is 16000") as told:
        judge.compiled({"properties": {"a": {"enum": values}}})
    assert "/properties/a" in str(told.value)
