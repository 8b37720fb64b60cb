"""Whether two subschemas exclude each other is decided by every validator's reading, at any depth."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.document.documents import Documents
from grammars.json_schema.solver.semantics import solver_of
from grammars.limits.deadline import deadline
from grammars.tree.render import render
from special_tokens.errors import GuidedError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts
from tests.judges.byte_masks import accepts
from tests.judges.schema_causes import violated
from tests.judges.schema_masks import Judge
from tests.made_up.schemas import having


def _object(inner: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"k": inner}, "required": ["k"], "additionalProperties": False}


def _array(inner: Any) -> dict[str, Any]:
    return {"type": "array", "items": inner, "minItems": 1, "maxItems": 1}


#: Around a schema of strings and around a string.
AROUND: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda schema: schema, lambda value: value),
    (_object, lambda value: {"k": value}),
    (lambda schema: _object(_object(schema)), lambda value: {"k": {"k": value}}),
    (_array, lambda value: [value]),
    (lambda schema: _object(_array(schema)), lambda value: {"k": [value]}),
    (lambda schema: _array(_array(schema)), lambda value: [[value]]),
    (lambda schema: {"allOf": [_object(schema)]}, lambda value: {"k": value}),
]

#: That two schemas exclude each other, in several ways; and around a value.
SIBLINGS: list[tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = [
    (lambda one, two: {"oneOf": [one, two]}, lambda value: value),
    (lambda one, two: {"allOf": [one], "not": two}, lambda value: value),
    (lambda one, two: {"anyOf": [one, two], "if": one, "then": {"not": two}}, lambda value: value),
    (
        lambda one, two: {"type": "array", "items": one, "contains": {"not": two}, "minItems": 1, "maxItems": 2},
        lambda value: [value],
    ),
]

DOT, SEPARATOR = {"type": "string", "pattern": "^.$"}, {"const": "\r"}
LINE, NEWLINE = {"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a\\n$"}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("sibling", SIBLINGS)
@pytest.mark.parametrize(("one", "two", "shared"), [(SEPARATOR, DOT, "\r"), (NEWLINE, LINE, "a\n")])
def test_what_a_validator_takes_for_the_other_too_is_not_written(
    judge: Judge, around: Any, sibling: Any, one: Any, two: Any, shared: str
) -> None:
    """It was written after two keys and in an array, and a final newline everywhere."""
    schema = sibling[0](around[0](one), around[0](two))
    value = sibling[1](around[1](shared))
    assert True not in {verdict.is_valid for verdict in verdicts(schema, value) if verdict.validator == "jsonschema"}
    try:
        found = judge.compiled(schema)
    except GuidedError as error:
        assert "no value satisfies" in str(error)
    else:
        assert not found.accepts(json.dumps(value))


#: Nothing is written of both, and a validator has a value.
TWICE = (SEPARATOR, DOT)
UUID = {"type": "string", "format": "uuid", "enum": ["x"]}


@pytest.mark.parametrize(
    ("branches", "shared"),
    [
        # nothing is written of the first branch, and validators have something there
        ([{"type": "string", "pattern": "^.$", "enum": ["\r"]}, {"type": "string", "maxLength": 1}], "\r"),
        (
            [
                {"type": "object", "required": ["k"], "allOf": [{"properties": {"k": part}} for part in TWICE]},
                {"type": "object", "minProperties": 1},
            ],
            {"k": "\r"},
        ),
        # keys that readings of a pattern differ on
        (
            [
                {"type": "object", "patternProperties": {"^.$": {"type": "integer"}}, "additionalProperties": False},
                {"type": "object", "required": ["\r"]},
            ],
            {"\r": 1},
        ),
        # a tag that one branch has in a form of which nothing is written
        (
            [
                {
                    "type": "object",
                    "anyOf": [
                        {"properties": {"kind": {"const": "a"}}, "required": ["kind"], "minProperties": 1},
                        {
                            "minProperties": 1,
                            "required": ["kind", "x"],
                            "properties": {"kind": {"const": "b"}},
                            "allOf": [{"properties": {"x": part}} for part in TWICE],
                        },
                    ],
                },
                having({"kind": {"const": "b"}}),
            ],
            {"kind": "b", "x": "\r"},
        ),
    ],
)
def test_branches_that_only_validators_fill_exclude_others_too(judge: Judge, branches: Any, shared: Any) -> None:
    schema = {"oneOf": branches}
    assert not any(verdict.is_valid for verdict in verdicts(schema, shared))
    found = judge.compiled(schema)
    assert not found.plan.schema_report.relaxed
    assert not found.accepts(json.dumps(shared))


def test_a_format_that_its_draft_does_not_have_excludes_nothing(judge: Judge) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "oneOf": [UUID, {"type": "string"}]}
    assert not any(verdict.is_valid for verdict in verdicts(schema, "x"))
    assert not judge.compiled(schema).accepts('"x"')


SEVEN = [f"k{i}" for i in range(7)]
DRAFT = "https://json-schema.org/draft/2019-09/schema"


@pytest.mark.parametrize(
    ("schema", "shared"),
    [
        (  # more combinations of branches than are distinguished
            {
                "oneOf": [
                    {
                        "type": "object",
                        "anyOf": [{"properties": {key: {"type": "integer"}}, "required": [key]} for key in SEVEN],
                        "unevaluatedProperties": False,
                    },
                    {"type": "object", "required": SEVEN},
                ]
            },
            dict.fromkeys(SEVEN, 1),
        ),
        (  # items that validators let `contains` evaluate, and the draft does not
            {
                "$schema": DRAFT,
                "oneOf": [
                    {"type": "array", "contains": {"const": 1}, "unevaluatedItems": False},
                    {"type": "array", "minItems": 1},
                ],
            },
            [1],
        ),
        ({"oneOf": [{"type": "string", "format": "time"}, {"pattern": "Z\n"}]}, "00:00:00Z\n"),
        ({"oneOf": [{"type": "string", "format": "uuid"}, {"pattern": "_"}]}, "0_000000-0000-0000-0000-000000000000"),
    ],
    ids=["combinations", "contains", "newline", "underscore"],
)
def test_what_only_we_narrow_proves_nothing(judge: Judge, schema: Any, shared: Any) -> None:
    assert True not in {v.is_valid for v in verdicts(schema, shared) if v.validator == "jsonschema"}
    found = judge.compiled(schema)
    assert not found.accepts(json.dumps(shared)) or ("", "oneOf") in {
        (row.pointer, row.keyword) for row in found.plan.schema_report.relaxed
    }


#: Keys by a pattern that is not regular, keys that readers differ on, and a class that they end elsewhere.
UNKNOWN = {"patternProperties": {"^(a)\\1$": {"type": "integer"}}}
OPEN = {"type": "object", "patternProperties": {"^.$": {"type": "integer"}}, "unevaluatedProperties": False}
CLASS = {"type": "string", "pattern": "^[^]a]$"}


@pytest.mark.parametrize(
    ("schema", "invalid", "valid"),
    [
        ({"oneOf": [OPEN, {"type": "object", "required": ["\r"]}]}, {"\r": 1}, {"a": 1}),
        (
            {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["\r"], "additionalProperties": {"type": "integer"}},
                "contains": {"not": OPEN},
            },
            [{"\r": 1}],
            [{"\r": 1, "aa": 1}],
        ),
        (
            {"oneOf": [{"type": "object", "not": UNKNOWN}, {"type": "object", "required": ["aa"]}]},
            {"aa": "x"},
            {"aa": 1},
        ),
        ({"type": "array", "items": {"required": ["aa"]}, "contains": UNKNOWN}, [{"aa": "x"}], [{"aa": 1}]),
        ({"type": "object", "not": UNKNOWN}, {}, {"aa": "x"}),
        ({"type": "object", **UNKNOWN, "additionalProperties": False}, {"b": 1}, {"aa": 1}),
        ({"type": "object", **UNKNOWN, "unevaluatedProperties": False}, {"b": 1}, {"aa": 1}),
        ({"type": "object", "allOf": [UNKNOWN], "unevaluatedProperties": False}, {"b": 1}, {"aa": 1}),
        (
            {"type": "object", **UNKNOWN, "required": ["aa"], "unevaluatedProperties": False},
            {"aa": 1, "b": 1},
            {"aa": 1},
        ),
        (CLASS, "xa]", "x"),
        ({"type": "string", "pattern": "^[]]$"}, "x", "]"),
        ({"type": "object", "patternProperties": {CLASS["pattern"]: {"type": "integer"}}}, {"x": "y"}, {"x": 1}),
    ],
)
def test_patterns_that_are_not_understood_have_a_row_wherever_they_decide(
    judge: Judge, schema: Any, invalid: Any, valid: Any
) -> None:
    assert not any(verdict.is_valid for verdict in verdicts(schema, invalid))
    assert all(verdict.is_valid for verdict in verdicts(schema, valid))
    found = judge.compiled(schema)
    relaxed = {(row.pointer, row.keyword) for row in found.plan.schema_report.relaxed}
    assert not found.accepts(json.dumps(invalid)) or relaxed & violated(schema, invalid)
    assert found.accepts(json.dumps(valid))


@pytest.mark.parametrize("dialect", ["2019-09", "2020-12"])
def test_items_that_contains_may_evaluate_are_said(dialect: str) -> None:
    inner = {"$schema": DRAFT, "contains": {"const": 1}, "minContains": 0}
    schema = {"$schema": f"https://json-schema.org/draft/{dialect}/schema", "allOf": [{"$ref": "urn:inner"}]}
    for closing, said in (({"unevaluatedItems": False}, True), ({}, False)):
        report = build({**schema, "type": "array", **closing}, documents={"urn:inner": inner}).report
        assert (("", "unevaluatedItems") in {(row.pointer, row.keyword) for row in report.relaxed}) is said


PATTERNS = ["^.$", "^a$", "^a\\n$", ".*", "^.+a", "^[^a]$", "^(?!a)", "^a|.b$", "(?i)^k$", "\\.", "^[a-z.]{1,3}$", "b$"]
PARTS: list[Any] = [
    *({"type": "string", "pattern": pattern} for pattern in PATTERNS),
    *({"const": word} for word in ("\r", "\u2028", "a\n", "a", "\ra", "", "2020-01-01T00:00:60Z")),
    {"enum": ["\r", "b"]},
    {"not": {"pattern": "^.$"}},
    {"not": {"pattern": "a$"}},
    {"type": "string", "format": "date-time"},
]
WORDS = ["\r", "\n", "a", "a\n", "\ra", "aa", "b", "b\n", "", "\u2028", "\u2028a", "k", "\u212a", ".", "ab\r"]
WORDS.append("2020-01-01T00:00:60Z")


@pytest.mark.parametrize("seed", seeds(60, default=2))
def test_nothing_that_all_validators_refuse_is_written(judge: Judge, seed: int) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(20):
        (schema_around, value_around), (siblings, value_siblings) = rng.choice(AROUND), rng.choice(SIBLINGS)
        schema = siblings(*(schema_around(rng.choice(PARTS)) for _ in range(2)))
        try:
            found = judge.compiled(schema, "strict")
        except GuidedError:
            continue
        for word in WORDS:
            value = value_siblings(value_around(word))
            if found.accepts(json.dumps(value, ensure_ascii=False)):
                accepted += 1
                assert True in {verdict.is_valid for verdict in verdicts(schema, value)}, (schema, value)
    assert accepted > 5


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ({"pattern": "^[0-9a-z_-]{1,255}$"}, {"pattern": ".*\\{\\{.+}}.*"}, True),  # a separator is only of the second
        ({"pattern": "^[a-z]+$"}, {"pattern": "^[0-9]+$"}, True),
        ({"pattern": "^.$"}, {"const": "long\r"}, True),
        ({"pattern": "^.$"}, {"const": "\r"}, False),
        ({"pattern": "^.$"}, {"pattern": "^..$"}, True),
        ({"pattern": "^a$"}, {"pattern": "^a\\n$"}, False),
        ({"pattern": "^a$"}, {"pattern": "^b\\n$"}, True),
        ({"pattern": "^x."}, {"pattern": "^[^x]"}, True),
        ({"pattern": "^x.$"}, {"pattern": "^x[\\r]$"}, False),
        ({"pattern": "^[a-z]+-[0-9]{5}$"}, {"pattern": "^[a-z]+-[0-9]{5}\\n$"}, False),
        ({"pattern": "^a{29999}$"}, {"pattern": "^b+$"}, False),  # the second reading is too long to prove anything
        ({"enum": ["a", "b"]}, {"pattern": "^.{2}$"}, True),
        ({"enum": ["a", "b"]}, {"pattern": "^[c-z]"}, True),
        ({"enum": ["a", "b"]}, {"minLength": 2}, True),
    ],
)
def test_only_what_is_apart_for_all_readers_is_proved_apart(one: Any, two: Any, expected: bool) -> None:
    """Nothing is proved where their readings may differ."""
    documents = Documents({"oneOf": [{"type": "string", **one}, {"type": "string", **two}]}, None)
    solver = solver_of(documents)
    a, b = (solver.child(documents.root, part, "oneOf", i) for i, part in enumerate(documents.root.schema["oneOf"]))
    differ = any("$" in part.get("pattern", "") for part in (one, two))
    assert solver.is_empty(tuple(sorted((*a, *b))), for_all=True) is (expected and not differ)


# -- `oneOf` of overlapping patterns: exact while the engine can follow, reported where it could not


@pytest.mark.parametrize("size", [2, 4, 6])
def test_exactly_one_of_several_patterns(size: int) -> None:
    patterns = [f"a.*{i}" for i in range(size)]
    built = build({"oneOf": [{"type": "string", "pattern": pattern} for pattern in patterns]})
    assert not built.report.relaxed
    grammar = render(built.node).engine_text()
    for word in ("a1", "a12", "b", "a", "xa0y", "0a", "a00", "a10x"):
        exactly_one = sum(re.search(pattern, word) is not None for pattern in patterns) == 1
        assert accepts(grammar, f'"{word}"') == exactly_one, word


@pytest.mark.parametrize("size", [7, 8, 60])
def test_more_than_the_engine_can_follow_are_reported(size: int) -> None:
    with deadline(60.0):  # what is reported, on a machine of any speed
        built = build({"oneOf": [{"type": "string", "pattern": f"a.*{i}"} for i in range(size)]})
    assert [(row.keyword, row.pointer) for row in built.report.relaxed] == [("oneOf", "")]
    assert accepts(render(built.node).engine_text(), '"a12"')
