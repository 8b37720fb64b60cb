"""An error names a keyword of the wrong kind, whatever its sibling keywords and wherever the schema is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.passes.kinds import CHECKS
from special_tokens.errors import SchemaError

WRONG: list[Any] = [
    None, True, 5, -1, 1.5, "x", "", [], [5], [[1]], [{}], ["a", [1]], {"a": 5}, {"a": [[1]]}, {"^a$": None},
]  # fmt: skip

SIBLINGS: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"properties": {"a": {"type": "string"}, "b": {}}},
    {"required": ["a"]},
    {"patternProperties": {"^a$": {"type": "string"}, "^b": False}},
    {"additionalProperties": False},
    {"minProperties": 1},
    {"maxProperties": 1},
    {"enum": ["a", {"a": 1}]},
    {"const": {"a": 1}},
    {"items": {"type": "integer"}},
    {"prefixItems": [{"const": 1}], "minItems": 1},
    {"contains": {"const": 1}},
    {"pattern": "^[0-9]+.*"},
    {"pattern": "a", "minLength": 1, "maxLength": 5},
    {"format": "date"},
    {"anyOf": [{"type": "string"}, {"required": ["a"]}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 1}}}]},
    {"not": {"required": ["b"]}},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": False},
    {"minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
    {"dependentRequired": {"a": ["b"]}},
    {"propertyNames": {"enum": ["a", "b"]}},
    {"unevaluatedProperties": False},
    {"nullable": True, "type": "string"},
    {"$ref": "#/$defs/d"},
]

#: Schemas around one, by what leads to it.
AROUND: dict[str, Any] = {
    "": lambda schema: schema,
    "/properties/a": lambda schema: {"properties": {"a": schema}, "patternProperties": {"^a": {"minLength": 1}}},
    "/patternProperties/^a": lambda schema: {"properties": {"a": {}}, "patternProperties": {"^b": {}, "^a": schema}},
    "/items": lambda schema: {"items": schema, "type": "array"},
    "/anyOf/0": lambda schema: {"anyOf": [schema, {"type": "string"}], "minLength": 1},
    "/oneOf/1": lambda schema: {"oneOf": [{"type": "integer"}, schema]},
    "/allOf/0": lambda schema: {"allOf": [schema, {"properties": {"a": {"minLength": 1}}, "required": ["a"]}]},
    "/not": lambda schema: {"not": schema},
    "/$defs/q": lambda schema: {"allOf": [{"$ref": "#/$defs/q"}, {"$ref": "#/$defs/q", "type": "object"}]},
}


@pytest.mark.parametrize("keyword", CHECKS)
def test_a_wrong_kind_is_named_whatever_stands_next_to_it(keyword: str) -> None:
    is_right, expected = CHECKS[keyword]
    for value in WRONG:
        if is_right(value):
            continue
        for siblings in SIBLINGS:
            if keyword in siblings:
                continue
            for schema in ({keyword: value, **siblings}, {**siblings, keyword: value}):
                with pytest.raises(SchemaError) as caught:
                    build({**schema, "$defs": {"d": {}}}, watch=True)
                assert (caught.value.keyword, caught.value.pointer) == (keyword, ""), schema
                assert caught.value.expected == expected


@pytest.mark.parametrize("place", AROUND)
def test_a_wrong_kind_is_named_wherever_the_schema_stands(place: str) -> None:
    rng = random.Random(f"wrong kinds {place}")
    for _ in range(400):
        keyword = rng.choice(sorted(CHECKS))
        wrong = [value for value in WRONG if not CHECKS[keyword][0](value)]
        if not wrong:
            continue
        words = [*rng.choice(SIBLINGS).items(), *rng.choice(SIBLINGS).items(), (keyword, rng.choice(wrong))]
        rng.shuffle(words)
        schema = {k: v for k, v in words if k != keyword or not CHECKS[k][0](v)}
        whole = {**AROUND[place](schema), "$defs": {"d": {}, "q": schema}}
        with pytest.raises(SchemaError) as caught:
            build(whole, watch=True)
        assert (caught.value.keyword, caught.value.pointer) == (keyword, place), whole


@pytest.mark.parametrize("step", ["9" * 5_000, "\u00b2", "-1", "1", "00000000000000000000", "1e0"])
def test_a_reference_to_no_element_leads_nowhere(step: str) -> None:
    with pytest.raises(SchemaError, match="leads nowhere"):
        build({"prefixItems": [{"const": 3}], "items": {"$ref": f"#/prefixItems/{step}"}}, watch=True)
