"""The path of a value through a schema, and the report rows that excuse its refusal."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.json_schema.build import Outcome, ReportRow
from tests.judges.schema_ways import excuses, way

SCHEMA = {
    "$defs": {"a": {"properties": {"x": {"type": "integer"}}, "propertyNames": {"maxLength": 3}}},
    "anyOf": [{"$ref": "#/$defs/a"}, {"prefixItems": [{"const": 1}], "items": {"type": "string"}}],
    "properties": {"n": {"$ref": "#"}, "m": {"type": "number", "minimum": 0}},
    "patternProperties": {"^y": {"minimum": 1}},
    "additionalProperties": {"pattern": "^a"},
}


def test_the_way_is_what_parts_of_the_value_are_held_against() -> None:
    met = {pointer: parts for pointer, (_, parts) in way(SCHEMA, {"x": 1, "yy": 2, "n": [1, "b"]}).items()}
    assert met["/$defs/a/properties/x"] == [1]
    assert met["/patternProperties/^y"] == [2]
    assert met["/additionalProperties"] == [1]
    assert sorted(met["/$defs/a/propertyNames"]) == ["n", "x", "yy"]
    assert met["/anyOf/1/prefixItems/0"] == [1]
    assert met["/anyOf/1/items"] == ["b"]
    assert "/properties/m" not in met


def test_the_way_is_in_the_words_that_are_written() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "null"}],
        "additionalItems": {"dependencies": {"a": {"minProperties": 2}}},
        "$ref": "#/nowhere",
    }
    assert list(way(schema, [None])) == [""]
    del schema["$ref"]
    assert {*way(schema, [None, {"a": 1}])} == {"", "/items/0", "/additionalItems", "/additionalItems/dependencies/a"}


@pytest.mark.parametrize(
    ("row", "value", "expected"),
    [
        (("/properties/m", "minimum", "numbers with bounds are written without exponent"), {"m": 1e3}, True),
        (("/properties/m", "minimum", "numbers with bounds are written without exponent"), {"m": "a"}, False),
        (("/properties/m", "minimum", "numbers with bounds are written without exponent"), {"x": 1e3}, False),
        (("", "type", "numbers are written with at most 64 digits in a row, and below 1.8e308"), {"m": 12}, False),
        (("", "type", "numbers are written with at most 64 digits in a row, and below 1.8e308"), {"m": 10**64}, True),
        (("", "type", "integers are written without point and exponent"), {"x": [2.0]}, True),
        (("", "type", "integers are written without point and exponent"), {"x": 2.5}, False),
        (
            (
                "",
                "type",
                "\\u escapes of letters, \\/ and, in patterns, control characters "
                "without a short escape are not written",
            ),
            {"\x01": 1},
            True,
        ),
        (("", "properties", "keys come in the order of the schema"), {"x": 1}, False),
    ],
)
def test_a_row_excuses_what_it_speaks_of(row: tuple[str, str, str], value: Any, expected: bool) -> None:
    pointer, keyword, reason = row
    found = ReportRow(pointer, keyword, Outcome.NARROWED, reason)
    assert list(excuses(SCHEMA, value, None, [found])) == [expected]
