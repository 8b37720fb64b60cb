"""Counts larger than anything that is written, long tuples, and number classes of users."""

from __future__ import annotations

import json
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.tree.render import render
from grammars.values.json_copy import json_copy
from special_tokens.errors import SchemaError
from tests.judges.schema_masks import Judge

LARGE = [2**31, 2**32, 2**63 - 1, 10**30]


@pytest.mark.parametrize("count", LARGE)
@pytest.mark.parametrize(
    ("schema", "keyword", "text"),
    [
        ({"type": "object"}, "maxProperties", '{"a": 1}'),
        ({"properties": {"a": {"type": "integer"}}}, "maxProperties", '{"a": 1}'),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, "maxProperties", '{"a": 1}'),
        ({"type": "array"}, "maxItems", "[1, 2]"),
        ({"type": "array", "contains": {"const": 1}}, "maxContains", "[1, 2, 1]"),
        ({"type": "string"}, "maxLength", '"abc"'),
    ],
)
def test_a_most_that_nothing_comes_to_asks_for_nothing(
    judge: Judge, count: int, schema: dict[str, Any], keyword: str, text: str
) -> None:
    found = judge.compiled({**schema, keyword: count}, "strict")
    assert found.accepts(text)


@pytest.mark.parametrize("count", LARGE)
@pytest.mark.parametrize("keyword", ["minProperties", "minItems", "minLength"])
def test_a_least_that_nothing_comes_to_is_refused_at_its_place(judge: Judge, count: int, keyword: str) -> None:
    kind = {"minProperties": "object", "minItems": "array", "minLength": "string"}[keyword]
    with pytest.raises(SchemaError, match="at least") as caught:
        judge.compiled({"type": "object", "properties": {"a": {"type": kind, keyword: count}}, "required": ["a"]})
    assert "properties/a" in str(caught.value)


@pytest.mark.parametrize("count", LARGE)
@pytest.mark.parametrize(("keyword", "text"), [("minProperties", "{}"), ("minItems", "[]"), ("minContains", "[]")])
def test_anything_breaks_a_least_that_nothing_comes_to(judge: Judge, count: int, keyword: str, text: str) -> None:
    schema: dict[str, Any] = {keyword: count} | ({"contains": {"const": 1}} if keyword == "minContains" else {})
    assert judge.compiled({"not": schema}).accepts(text)


@pytest.mark.parametrize("size", [200, 1_900])
@pytest.mark.parametrize("key", ["prefixItems", "items"])
def test_long_tuples_may_end_anywhere(judge: Judge, size: int, key: str) -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"} if key == "items" else {}
    found = judge.compiled({**draft, "type": "array", key: [{"type": "integer"}] * size, "maxItems": size})
    for length in (0, 1, 31, 62):
        assert found.accepts(str([7] * length))
    if size == 200:
        assert found.accepts(str([7] * size))
        assert not found.accepts(str([7] * (size + 1)))
    assert not found.accepts('[7, "a"]')


class Own(float):
    """A number like numpy's ``float64``."""

    def __repr__(self) -> str:
        return f"Own({float(self)})"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "minimum": Own(1.5), "maximum": 1.5},
        {"const": Own(1.5)},
        {"enum": [Own(1.5), {"a": Own(2.5)}]},
        {"type": "number", "multipleOf": Own(0.5)},
        {"not": {"const": Own(2.5)}},
    ],
)
def test_numbers_of_another_class_are_numbers(judge: Judge, schema: dict[str, Any]) -> None:
    found = judge.compiled(schema)
    assert found.accepts("1.5")
    kept = found.plan.response.schema if found.plan.response is not None else None
    assert "Own" not in repr(kept)
    assert kept == schema
    assert type(json_copy(Own(1.5))) is float


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1


@pytest.mark.parametrize("more", [{}, {"not": {"const": "green"}}])
@pytest.mark.parametrize("schema", [{"enum": list(Colour)}, {"const": Colour.RED}, {"enum": list(Size)}])
def test_members_of_enumerations_are_their_values(schema: dict[str, Any], more: dict[str, Any]) -> None:
    typed = {"type": "integer" if list(Size) in schema.values() else "string", **schema, **more}
    for one in (schema, typed):
        plain = json.loads(json.dumps(one))
        assert render(build(one, watch=True).node) == render(build(plain, watch=True).node)
    assert json_copy({Colour.RED: [Size.SMALL]}) == {"red": [1]}
    assert type(next(iter(json_copy({Colour.RED: 1})))) is str
