"""A report row says where a validator reads a dialect differently; no answer is judged silently."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.document.dialects import DIALECTS
from special_tokens.errors import GuidedError, SchemaError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts_of
from tests.judges.schema_causes import unexcused
from tests.judges.schema_masks import Compiled, Judge

_FOUR, _SIX, _SEVEN, _2019, _2020 = (dialect.uri for dialect in DIALECTS)
_LISTS = {"type": "array", "items": {"type": "array"}, "uniqueItems": True}


def _rows(found: Compiled, outcome: str) -> list[tuple[str, str]]:
    rows = found.plan.schema_report.rows
    return [
        (row.pointer, row.keyword) for row in rows if row.outcome == outcome and (row.pointer or row.keyword != "type")
    ]


def _verdicts(schema: Any, value: Any) -> list[bool | None]:
    return [verdict.is_valid for verdict in verdicts_of(schema, value)]


# -- OpenAPI's nullable


@pytest.mark.parametrize("siblings", [{"type": ["string", "integer"]}, {"type": "string", "enum": ["a", "b"]}])
def test_null_joins_the_types_and_an_enum_and_a_constant_leaves_one_value(judge: Judge, siblings: Any) -> None:
    for constant, accepted in (({}, [True, True, True]), ({"const": "a"}, [False, True, False])):
        found = judge.compiled({**constant, "nullable": True, **siblings})
        assert [found.accepts(json.dumps(value)) for value in (None, "a", "b")] == accepted


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("siblings", [{}, {"type": "array"}, {"enum": [[[1], [1]], 1]}])
def test_what_is_nullable_is_named_where_it_stands(judge: Judge, word: str, siblings: dict[str, Any]) -> None:
    first = {"title": "lists"} if word == "allOf" else {"type": "string"}
    schema = {word: [first, _LISTS], "nullable": True, **siblings}
    found = judge.compiled(schema)
    assert f"/{word}/1" in {pointer for pointer, _ in _rows(found, "relaxed")} or "enum" in siblings
    assert not [pointer for pointer, _ in _rows(found, "relaxed") if pointer.count("Of") > 1]
    for value in [[1], [1]], None:
        if found.accepts(json.dumps(value)) and False in _verdicts(schema, value):
            assert not unexcused(schema, value, None, found.plan.schema_report.relaxed)
    with pytest.raises(SchemaError) as caught:
        build({word: [{}, {"type": 5}], "nullable": True, **siblings}, watch=True)
    assert caught.value.pointer == f"/{word}/1"


# -- resources of another dialect, and a $schema that begins none


@pytest.mark.parametrize("name", ["$id", "id"])
@pytest.mark.parametrize(
    "around", [lambda part: {"properties": {"a": part}}, lambda part: {"properties": {"a": {"allOf": [part]}}}]
)
def test_a_resource_is_read_by_its_own_dialect(judge: Judge, around: Any, name: str) -> None:
    """With either keyword, on the fast path and off it."""
    parts: list[tuple[str, str, dict[str, Any]]] = [
        (_2020, _FOUR, {"const": 1}),
        (_SEVEN, _FOUR, {"type": "integer", "const": 1}),
        (_FOUR, _SEVEN, {"const": 1}),
        (_SEVEN, _2020, {"$ref": "urn:a#/$defs/x", "maximum": 5, "$defs": {"x": {"type": "integer"}}}),
        (_2020, _SEVEN, {"properties": {"k": {"$ref": "urn:a#/$defs/x", "maximum": 5}}, "$defs": {"x": {}}}),
    ]
    for root, own, part in parts:
        if name == "id" and "$defs" in part:  # which names nothing in these
            continue
        for more in {}, {"not": {"required": ["z"]}}:
            schema = {"$schema": root, "type": "object", **around({"$schema": own, name: "urn:a", **part}), **more}
            found = judge.compiled(schema)
            for value in 1, 3, 9, "x", {"k": 9}:
                verdicts = set(_verdicts(schema, {"a": value}))
                if verdicts in ({True}, {False}):
                    assert found.accepts(json.dumps({"a": value})) == verdicts.pop(), (schema, value)


_NEXT_TO_A_REFERENCE: dict[str, Any] = {"$schema": _FOUR, "$ref": "#/definitions/any", "type": "object"}


@pytest.mark.parametrize("more", [{}, {"$id": "https://example.com/root"}, {"title": "t", "$anchor": "here"}])
@pytest.mark.parametrize(
    "part", [_NEXT_TO_A_REFERENCE, {"items": _NEXT_TO_A_REFERENCE, "type": "array", "minItems": 1}]
)
def test_what_stands_next_to_a_reference_counts(judge: Judge, part: dict[str, Any], more: dict[str, Any]) -> None:
    """In a schema with identifiers as in one without, since ``$schema`` without ``$id`` begins no resource."""
    definitions = {"any": {"description": "whatever"}, "part": part}
    schema = {"definitions": definitions, "properties": {"a": {"$ref": "#/definitions/part"}}, "required": ["a"]} | more
    for value, is_valid in ("x", False), ({}, True):
        instance = {"a": [value] if "items" in part else value}
        assert (set(_verdicts(schema, instance)) == {True}) is is_valid
        assert judge.compiled(schema).accepts(json.dumps(instance)) is is_valid


@pytest.mark.parametrize("stray", [_2019, _2020])
@pytest.mark.parametrize("root", [_FOUR, _SEVEN])
def test_what_a_stray_dialect_reads_next_to_a_reference_is_relaxed(judge: Judge, root: str, stray: str) -> None:
    part = {"$ref": "#/definitions/x", "maximum": 5}
    for at, value, inner in (
        ("", 9, {"$schema": stray, **part}),
        ("/properties/b", {"b": 9}, {"$schema": stray, "properties": {"b": part}}),
    ):
        whole = {"$schema": root, "definitions": {"x": {"type": "integer"}}, "properties": {"a": inner}}
        found = judge.compiled(whole)
        assert _rows(found, "relaxed") == [(f"/properties/a{at}", "maximum")]
        assert ("/properties/a", "$schema") in _rows(found, "narrowed")
        assert found.accepts(json.dumps({"a": value}))
        assert False in _verdicts(whole, {"a": value})
        assert not unexcused(whole, {"a": value}, None, found.plan.schema_report.relaxed)


@pytest.mark.parametrize("more", [{}, {"not": {"required": ["z"]}}])
def test_what_is_ignored_next_to_a_reference_is_said(judge: Judge, more: dict[str, Any]) -> None:
    part = {"title": "t", "$ref": "#/definitions/x", "maximum": 5}
    schema = {"$schema": _SEVEN, "definitions": {"x": {"type": "integer"}}, "properties": {"a": part}, **more}
    found = judge.compiled(schema)
    assert _rows(found, "exact") == [("/properties/a", "maximum")]
    assert found.accepts('{"a": 9}')
    assert set(_verdicts(schema, {"a": 9})) == {True}


@pytest.mark.parametrize(
    ("root", "own", "word", "value"),
    [
        (_SEVEN, _SEVEN, "id", {"a": {"k": 1}}),
        (_2020, _2020, "id", {"a": {"k": 1}}),
        (_SEVEN, "http://me/s", "id", {"a": {"k": 1}}),
        (_SEVEN, 5, "id", {"a": {"k": 1}}),
        (_FOUR, _FOUR, "$id", {"a": {"k": 1}}),
    ],
)
@pytest.mark.parametrize("more", [{}, {"definitions": {"x": {"type": "string"}}}])
def test_the_word_of_another_dialect_names_nothing(
    judge: Judge, root: str, own: Any, word: str, value: Any, more: dict[str, Any]
) -> None:
    """References in it begin where they began around it, and those of a root at no name."""
    part = {"$schema": own, word: "http://foo/b.json", **more, "properties": {"k": {"$ref": "#/definitions/x"}}}
    schema = {"$schema": root, "definitions": {"x": {"type": "integer"}}, "properties": {"a": part}}
    assert judge.compiled(schema).accepts(json.dumps(value))
    assert not judge.compiled(schema).accepts('{"a": {"k": "x"}}')
    named = {"$schema": root, word: "http://x/a/root.json", "properties": {"k": {"$ref": "b.json"}}}
    build(named, documents={"b.json": {"type": "integer"}}, watch=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": _SEVEN, "properties": {"a": {"$schema": _SIX, "id": "urn:a", "if": {"type": "integer"}}}},
        {"$schema": _2020, "properties": {"a": {"$schema": _SEVEN, "minContains": 0, "maximum": 4}}},
        {"not": {"dependencies": {}, "required": ["a"]}},
        {"$schema": _FOUR, "not": {"type": "string", "exclusiveMinimum": 2}},
    ],
)
def test_what_makes_no_difference_is_not_relaxed(judge: Judge, schema: dict[str, Any]) -> None:
    assert not judge.compiled(schema, "strict").plan.schema_report.relaxed


# -- words that we read as another dialect does


@pytest.mark.parametrize(
    ("bound", "flag", "value"), [("minimum", "exclusiveMinimum", 5), ("maximum", "exclusiveMaximum", 5)]
)
@pytest.mark.parametrize("number", [0, 2, 5, 7])
def test_a_bound_next_to_an_exclusive_one_is_exclusive_in_draft_4(
    judge: Judge, bound: str, flag: str, value: int, number: int
) -> None:
    """Some validators read any number there as true."""
    found = judge.compiled({"$schema": _FOUR, "type": "integer", bound: value, flag: number})
    assert not found.accepts(str(value))
    assert not found.accepts(str(number))
    assert ("", flag) in _rows(found, "narrowed")


@pytest.mark.parametrize("bound", ["exclusiveMinimum", "exclusiveMaximum"])
def test_an_exclusive_bound_that_is_a_number_is_said_in_draft_4(judge: Judge, bound: str) -> None:
    """Its own meta-schema wants true or false; alone, ``jsonschema`` passes over it."""
    for dialect, narrowed in (_FOUR, [("", bound)]), (_SIX, []):
        found = judge.compiled({"$schema": dialect, "type": "integer", bound: 2})
        assert not found.accepts("2")
        assert [row for row in _rows(found, "narrowed") if row[1] == bound] == narrowed


@pytest.mark.parametrize("document", [5, None, "x", [{}]])
def test_a_document_that_is_no_schema_is_named(document: Any) -> None:
    with pytest.raises(SchemaError, match="the document 'urn:d' is"):
        build({"$ref": "urn:d"}, documents={"urn:d": document}, watch=True)


# -- the law


def dialect_schema(rng: random.Random, depth: int, *, is_root: bool = False, may_refer: bool = True) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if is_root or rng.random() < 0.25:
        out["$schema"] = rng.choice(DIALECTS).uri
        if not is_root and rng.random() < 0.4:
            out[rng.choice(["$id", "id"])] = f"urn:x{rng.randrange(10**6)}"
        elif not is_root:
            depth = 0  # the report does not list everything that an ignored dialect changes further below

    def below() -> dict[str, Any]:
        return dialect_schema(rng, depth - 1, may_refer=may_refer)

    values: list[Any] = [["integer", "null"], "string", "object", "array", ["object", "array"]]
    flat: list[Any] = [
        lambda: {"type": rng.choice(values)},
        lambda: {"const": rng.choice([1, "a", None, {}])},
        lambda: {"enum": rng.choice([[1, 2], ["a", 1], [None, 3]])},
        lambda: {rng.choice(["minimum", "exclusiveMinimum"]): rng.choice([1, 2]), "maximum": 3},
        lambda: {rng.choice(["maximum", "exclusiveMaximum"]): rng.choice([2, 3])},
        lambda: {"nullable": rng.random() < 0.8},
        lambda: {"propertyNames": {"enum": ["a", "b"]}},
        lambda: {"contains": {"const": 1}, "minContains": rng.choice([0, 2])},
        lambda: {"dependentRequired": {"a": ["b"]}},
        lambda: {"dependencies": {"a": ["b"]}},
        lambda: {"additionalProperties": False},
        lambda: {"required": [rng.choice("ab")]},
        lambda: {"$ref": f"#/definitions/{rng.choice('xy')}"} if may_refer else {},
    ]
    deep: list[Any] = [
        lambda: {"properties": {key: below() for key in rng.sample("ab", rng.choice([1, 2]))}},
        lambda: {"items": below()},
        lambda: {"contains": below()},
        lambda: {"dependencies": {"a": below()}},
        lambda: {"not": below()},
        lambda: {rng.choice(["oneOf", "anyOf", "allOf"]): [below(), below()]},
        lambda: {"if": below(), "then": below()},
    ]
    for _ in range(rng.choice([1, 1, 2, 3])):
        out |= rng.choice(flat + deep if depth else flat)()
    words = list(out.items())
    rng.shuffle(words)
    return dict(words)


def _value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.random()
    if depth and kind < 0.5:
        return {key: _value(rng, depth - 1) for key in rng.sample("abc", rng.randrange(3))}
    if depth and kind < 0.65:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return rng.choice([None, 0, 1, 2, 3, 4, "a", "b"])


def _orders(value: Any) -> Iterator[Any]:
    """The value with its keys in every order."""
    if isinstance(value, dict):
        for keys in permutations(value):
            for values in product(*(list(_orders(value[key])) for key in keys)):
                yield dict(zip(keys, values, strict=True))
    elif isinstance(value, list):
        yield from map(list, product(*map(list, map(_orders, value))))
    else:
        yield value


@pytest.mark.parametrize("seed", seeds(3_000, default=150))
def test_rows_tell_every_difference_from_a_validator(judge: Judge, seed: int) -> None:
    rng = random.Random(f"dialects {seed}")
    schema = dialect_schema(rng, 2, is_root=True)
    target = dialect_schema(rng, 1, may_refer=False)
    target.pop("$schema", None)  # some validators read it by the dialect of the reference
    schema["definitions"] = {"x": {"type": rng.choice(["integer", "object"])}, "y": target}
    values = [_value(rng) for _ in range(12)]
    try:
        found = judge.compiled(schema)
    except GuidedError:
        assert not [value for value in values if set(_verdicts(schema, value)) == {True}]
        return
    report = found.plan.schema_report
    for value in values:
        verdicts = set(_verdicts(schema, value))
        if found.accepts(json.dumps(value)):
            if False in verdicts:
                causes = unexcused(schema, value, None, report.relaxed)
                assert not causes or set() in causes, (value, causes)  # none: its own validator finds nothing wrong
        elif verdicts == {True} and set(_rows(found, "narrowed")) <= {("", "properties")}:
            assert any(found.accepts(json.dumps(one)) for one in _orders(value)), value
