"""Keywords that depend on a relaxed one have a report row; keys on which validators differ can be required."""

from __future__ import annotations

import copy
import importlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.document.dialects import DIALECTS
from special_tokens.errors import GuidedError, SchemaError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_causes import unexcused
from tests.judges.schema_masks import Judge


def relaxed() -> dict[str, Any]:
    """A pattern that is not regular; built anew, since places are compared by identity."""
    return {"type": "string", "pattern": "^(a)\\1$"}


def keys() -> dict[str, Any]:
    return {"patternProperties": {"^(a)\\1$": {"type": "integer"}}}


CLOSED: dict[str, Any] = {"unevaluatedProperties": False}
_FOUR, _, _SEVEN, _2019, _2020 = (dialect.uri for dialect in DIALECTS)


def _within(dialect: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A member with the word of another dialect, which names none there."""
    return {"$schema": _2020, "properties": {"a": {"$schema": dialect, **schema}}}


#: Schemas, and values that break them and are accepted.
LET_PASS: list[tuple[Any, Any]] = [
    ({"anyOf": [{"properties": {"a": relaxed()}}, {"properties": {"b": True}}], **CLOSED}, {"a": "x"}),
    ({"if": {"properties": {"a": relaxed()}, "required": ["a"]}, **CLOSED}, {"a": "x"}),
    (
        {
            "anyOf": [
                {"properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "array"}}}},
                {"properties": {"b": True}},
            ],
            **CLOSED,
        },
        {"a": [[1], [1]]},
    ),
    (
        {
            "$ref": "#/$defs/x",
            "$defs": {"x": {"allOf": [{"anyOf": [{"properties": {"a": relaxed()}}, {"minProperties": 0}]}]}},
            **CLOSED,
        },
        {"a": "x"},
    ),
    (
        {
            "properties": {
                "k": {
                    "type": "object",
                    "dependentSchemas": {"a": {"oneOf": [{"properties": {"a": relaxed()}}, {"required": ["b"]}]}},
                    **CLOSED,
                }
            }
        },
        {"k": {"a": "x"}},
    ),
    ({"if": keys(), "then": {"additionalProperties": True}, **CLOSED}, {"aa": "x"}),
    ({**keys(), "additionalProperties": {"type": "null"}, **CLOSED}, {"b": 1}),
    (
        {
            "anyOf": [
                {
                    "if": keys(),
                    "then": {"unevaluatedProperties": {"type": "string"}, **keys()},
                    "unevaluatedProperties": {"const": 1},
                }
            ]
        },
        {"aa": "x", "b": 2},
    ),
    # a property that is called as a keyword is
    (
        {"properties": {"properties": {"not": {"properties": {"a": relaxed()}, "required": ["a"]}}}},
        {"properties": {"a": "aa"}},
    ),
    # what is broken evaluates nothing, and validators name both
    ({"allOf": [{"properties": {"a": relaxed()}}], **CLOSED}, {"a": "x"}),
    ({"additionalProperties": relaxed(), **CLOSED}, {"b": "b"}),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"unevaluatedProperties": relaxed()}}, **CLOSED}, {"b": "b"}),
    ({"allOf": [{"prefixItems": [relaxed()]}], "unevaluatedItems": False}, ["x"]),
    # two references, of which the second leads to what is relaxed
    (
        {
            "$dynamicRef": "#dyn",
            "$ref": "#/$defs/e",
            "unevaluatedProperties": {"const": "x"},
            "$defs": {"e": {}, "y": {"$dynamicAnchor": "dyn", "unevaluatedProperties": relaxed()}},
        },
        {"a": "x"},
    ),
    # the same keyword with the same value, next to the reference and at its target
    (
        {
            "contains": {"const": "x"},
            "maxContains": 1,
            "$ref": "#/$defs/y",
            "$defs": {"y": {"contains": relaxed(), "minContains": 0, "maxContains": 1}},
        },
        ["x", "aa", "aa"],
    ),
    # a definition that is called as a keyword is
    (
        {"$ref": "#/x/properties", "x": {"properties": {"not": {"properties": {"a": relaxed()}, "required": ["a"]}}}},
        {"a": "aa"},
    ),
    ({"anyOf": [{"prefixItems": [relaxed()]}, {"minItems": 0}], "unevaluatedItems": False}, ["x"]),
    ({"contains": relaxed(), "unevaluatedItems": False}, ["aa", "x"]),
    ({"contains": {"pattern": "\\p{Script=Greek}", "type": "string"}, "minContains": 0, "maxContains": 0}, ["α"]),
]
#: The same, and one of the rows.
LET_PASS_WITH: list[tuple[Any, Any, tuple[str, str]]] = [
    # what only we read, where it is denied
    *(
        ({"$schema": _FOUR, "type": "integer", **denied}, 1, (at, "exclusiveMinimum"))
        for denied, at in (
            ({"not": {"exclusiveMinimum": 2}}, "/not"),
            ({"oneOf": [{"minimum": 0}, {"exclusiveMinimum": 2}]}, "/oneOf/1"),
            ({"oneOf": [{"maximum": 2}, {"exclusiveMinimum": 2}]}, "/oneOf/1"),
        )
    ),
    ({"$schema": _2019, "not": {"dependencies": {"a": ["b"]}}}, {"a": 1}, ("/not", "dependencies")),
    ({"oneOf": [{"dependencies": {"a": ["b"]}}, {"required": ["a"]}]}, {"a": 1}, ("/oneOf/0", "dependencies")),
    # what a stray dialect asks for more
    *(
        (_within(dialect, schema), {"a": value}, ("/properties/a", word))
        for dialect, schema, value, word in (
            (_2019, {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a"], "items"),
            (_2019, {"prefixItems": [{"const": 1}], "unevaluatedItems": False}, [1], "unevaluatedItems"),
            (_SEVEN, {"contains": {"const": 1}, "minContains": 0}, [2], "contains"),
        )
    ),
    # steps of numbers that are not enforced
    ({"type": "integer", "not": {"multipleOf": 3}}, 9, ("", "not")),
    ({"oneOf": [{"multipleOf": 7}, {"type": "number"}]}, 7, ("", "oneOf")),
    ({"items": {"if": {"multipleOf": 7}, "then": {"type": "string"}}}, [7], ("/items", "if")),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"multipleOf": 10007}}}, 1, ("/$defs/a", "multipleOf")),
    ({"allOf": [{"multipleOf": 10007}]}, 1, ("/allOf/0", "multipleOf")),
    ({"allOf": [{"multipleOf": 0.3}], "not": {"type": "integer"}}, 0.1, ("/allOf/0", "multipleOf")),
]


@pytest.mark.parametrize(("schema", "invalid", "row"), [*((*case, None) for case in LET_PASS), *LET_PASS_WITH])
def test_what_leans_on_a_relaxed_part_has_a_row(judge: Judge, schema: Any, invalid: Any, row: Any) -> None:
    kinds = {list: {"type": "array"}, dict: {"type": "object"}}
    schema = {**kinds.get(type(invalid), {}), **schema}
    assert False in {verdict.is_valid for verdict in verdicts(schema, invalid)}
    found = judge.compiled(schema)
    assert found.accepts(json.dumps(invalid, ensure_ascii=False))  # else there is nothing to excuse
    relaxed = found.plan.schema_report.relaxed
    assert not unexcused(schema, invalid, None, relaxed)
    assert row is None or row in {(one.pointer, one.keyword) for one in relaxed}


def test_many_relaxed_rows_after_many_references_take_no_time() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(250)}
    chain["d250"] = {"if": {"properties": {f"z{i}": relaxed() for i in range(1_200)}}}
    others = {f"q{i}": {"$ref": "#/$defs/e"} for i in range(1_700)}
    schema = {"type": "object", **CLOSED, "$ref": "#/$defs/d0", "properties": others, "$defs": {**chain, "e": {}}}
    rows = {(row.pointer, row.keyword) for row in build(schema).report.relaxed}  # else its deadline is over
    assert ("", "unevaluatedProperties") in rows


def test_each_place_around_what_is_relaxed_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(compiled: Any, pointer: str) -> Iterator[tuple[str, str]]:
        nonlocal looks
        for place in around(compiled, pointer):
            looks += 1
            yield place

    module = importlib.import_module("grammars.json_schema.report.dependent_keywords")
    around = module._CompiledSchemas.around
    monkeypatch.setattr(module._CompiledSchemas, "around", counted)
    schema: dict[str, Any] = {"type": "object", "properties": {f"r{i}": relaxed() for i in range(500)}}
    for i in range(80):
        schema = {"type": "object", "properties": {"a": schema}, "$anchor": f"n{i}"}
    schema["properties"] |= {f"z{i}": {"$ref": f"#n{i}"} for i in range(80)}
    rows = build({**schema, "if": {"$ref": "#n7"}}).report.relaxed
    assert ("", "if") in {(row.pointer, row.keyword) for row in rows}
    assert looks < 10 * (500 + 80)


def test_nothing_leans_where_nothing_is_relaxed() -> None:
    schema = {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": True}}]}
    assert not build({**schema, **CLOSED}).report.relaxed
    # what is relaxed elsewhere is none of its business
    siblings = {"type": "object", "properties": {"x": relaxed(), "y": {**schema, **CLOSED}}}
    assert {row.pointer for row in build(siblings).report.relaxed} == {"/properties/x"}


INTEGERS = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"patternProperties": {"^.$": INTEGERS}, "required": ["\r"]}, {"\r": 1}, {"\r": "x"}),
        ({"patternProperties": {"^.$": INTEGERS}, "const": {"\r": 1}}, {"\r": 1}, {"\r": 2}),
        (
            {"patternProperties": {"^.$": INTEGERS, "^(a)\\1$": INTEGERS}, "dependentRequired": {"b": ["\r"]}},
            {"b": 1, "\r": 1},
            {"b": 1, "\r": "x"},
        ),
        (
            {"patternProperties": {"^.$": INTEGERS}, "required": ["\r"], "additionalProperties": {"minimum": 3}},
            {"\r": 4},
            {"\r": "x"},
        ),
        (
            {"patternProperties": {"^.$": INTEGERS}, "propertyNames": {"enum": ["\r"]}, "minProperties": 1},
            {"\r": 1},
            {"\r": "x"},
        ),
        (
            {"allOf": [{"required": ["\r"], "maxProperties": 1}, {"patternProperties": {"^.$": INTEGERS}}]},
            {"\r": 1},
            {"\r": None},
        ),
    ],
)
def test_keys_that_readers_differ_on_can_be_asked_for(judge: Judge, schema: Any, valid: Any, invalid: Any) -> None:
    schema = {"type": "object", **schema}
    assert all(verdict.is_valid for verdict in verdicts(schema, valid))
    assert not any(verdict.is_valid for verdict in verdicts(schema, invalid))
    found = judge.compiled(schema)
    assert found.accepts(json.dumps(valid, ensure_ascii=False))
    assert not found.accepts(json.dumps(invalid, ensure_ascii=False))


def test_the_error_says_that_validators_may_read_an_impossible_schema_otherwise() -> None:
    schema = {"patternProperties": {"^(?!a)\\w$": INTEGERS}, "required": ["é"], "type": "object", **CLOSED}
    assert all(verdict.is_valid for verdict in verdicts(schema, {"é": 1}))
    with pytest.raises(SchemaError, match="some readings of its patterns, formats or contains may allow values"):
        build(schema)
    with pytest.raises(SchemaError) as error:
        build({"type": "integer", "minimum": 2, "maximum": 1})
    assert "by some reading" not in str(error.value)


PATTERNS = ["^(a)\\1$", "[]a]", "^[^]b]$", "(?=[]a])a", "^a", "^.$", "^b$", "^(?!a)", "^[^a]$"]
NAMES = ["a", "aa", "b", "]", "ab", "k", "\r"]
LEAVES: list[Any] = [INTEGERS, {"type": "string"}, False, True, {"const": 1}, {"minimum": 2}]
#: Nothing is proved by it, so that what breaks it breaks nothing else that was left out for it.
RELAXED = {"pattern": "^(a)\\1$"}


def leaf_of(rng: random.Random) -> Any:
    return dict(RELAXED) if rng.random() < 0.25 else copy.deepcopy(rng.choice(LEAVES))


def schema_of(rng: random.Random, depth: int) -> dict[str, Any]:
    """Objects by keywords that evaluate, close and choose."""
    out: dict[str, Any] = {}
    if rng.random() < 0.6:
        out["patternProperties"] = {rng.choice(PATTERNS): leaf_of(rng) for _ in range(rng.choice([1, 1, 2]))}
    for keyword, likely in (("additionalProperties", 0.25), ("unevaluatedProperties", 0.35)):
        if rng.random() < likely:
            out[keyword] = leaf_of(rng)
    if rng.random() < 0.25:
        out["properties"] = {rng.choice(NAMES): leaf_of(rng)}
    if rng.random() < 0.2:
        out["required"] = [rng.choice(NAMES)]
    for keyword in rng.sample(["not", "oneOf", "anyOf", "allOf", "if", "dependentSchemas"], rng.choice([0, 1, 1, 2])):
        if depth == 0:
            break
        if keyword.endswith("Of"):
            out[keyword] = [schema_of(rng, depth - 1) for _ in range(rng.choice([1, 2]))]
        elif keyword == "dependentSchemas":
            out[keyword] = {rng.choice(NAMES): schema_of(rng, depth - 1)}
        else:
            out[keyword] = schema_of(rng, depth - 1)
    if "if" in out:
        out |= {word: schema_of(rng, depth - 1) for word in ("then", "else") if rng.random() < 0.6}
    return out


@pytest.mark.parametrize("seed", seeds(60, default=2))
def test_each_violation_that_the_masks_let_pass_has_a_row(judge: Judge, seed: int) -> None:
    rng = random.Random(seed)
    num_excused = 0
    for _ in range(60):
        schema = {"type": "object", **schema_of(rng, rng.choice([1, 1, 2]))}
        values = [{name: rng.choice([1, "x", 2]) for name in rng.sample(NAMES, rng.choice([1, 1, 2]))} for _ in "12345"]
        try:
            found = judge.compiled(schema)
        except GuidedError as error:  # the engine finds some impossible
            for value in values:
                agreed = {verdict.is_valid for verdict in verdicts(schema, value)} == {True}
                assert not agreed or "by some reading" in str(error), (schema, value)
            continue
        for value in values:
            is_invalid = False in {verdict.is_valid for verdict in verdicts(schema, value)}
            if is_invalid and found.accepts(json.dumps(value)):
                left = unexcused(schema, value, None, found.plan.schema_report.relaxed)
                assert not left, (schema, value, left)
                num_excused += 1
    assert num_excused > 3
