"""Report rows point to the keywords that they are about."""

from __future__ import annotations

from typing import Any

import pytest

import grammars.json_schema.document.documents as documents_module
from grammars.json_schema.build import DEFAULT_SPELLING, build
from special_tokens.errors import RequestError, SchemaError
from tests.made_up.schemas import having

_SEVEN = "http://json-schema.org/draft-07/schema#"
_LOST = {"type": "string", "pattern": "^(a|b)\\1$"}  # a back-reference: relaxed where it stands


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"items": [_LOST]}, "/items/0"),
        ({"items": [True], "additionalItems": _LOST}, "/additionalItems"),
        ({"items": _LOST}, "/items"),
        ({"prefixItems": [True, _LOST], "$schema": ""}, "/prefixItems/1"),
        ({"dependencies": {"a": {"properties": {"b": _LOST}}}}, "/dependencies/a/properties/b"),
        ({"properties": {"a": {"items": [{"items": [_LOST]}]}}}, "/properties/a/items/0/items/0"),
        ({"definitions": {"a": [_LOST]}, "$ref": "#/definitions/a/0"}, "/definitions/a/0"),
        ({"items": [{}, _LOST], "properties": {"a": {"$ref": "#/items/1"}}}, "/items/1"),
        (_LOST, ""),
        ({"anyOf": [{"type": "integer"}, _LOST]}, "/anyOf/1"),
        ({"type": "object", "propertyNames": _LOST}, "/propertyNames"),
        ({"type": "object", "nullable": True, "allOf": [{"properties": {"a": _LOST}}]}, "/allOf/0/properties/a"),
    ],
)
@pytest.mark.parametrize("watch", [False, True])
def test_the_pointer_is_into_the_schema_as_it_was_given(schema: dict[str, Any], wanted: str, watch: bool) -> None:
    schema = {"$schema": _SEVEN, **schema}
    rows = build(schema, watch=watch).report.relaxed
    assert {row.pointer for row in rows if row.keyword == "pattern"} == {wanted}
    with pytest.raises(SchemaError, match="back-reference"):
        build(schema, watch=watch, policy="strict")


_DEEP = ("/properties/not/if/items", "not")
_SEVENTHS = {"properties": {"b": {"multipleOf": 7}}}  # not enforced where it is negated


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"not": _SEVENTHS}, ("", "not")),
        ({"dependencies": {"a": {"not": _SEVENTHS}}}, ("/dependencies/a", "not")),
        ({"not": {"$ref": "#/definitions/a"}, "definitions": {"a": _SEVENTHS}}, ("", "not")),
        ({"items": {"if": _SEVENTHS, "then": False}}, ("/items", "if")),
        ({"oneOf": [_SEVENTHS, {"type": "object"}]}, ("", "oneOf")),
        ({"properties": {"not": {"if": {"items": {"not": _SEVENTHS}}, "else": False}}}, _DEEP),
    ],
)  # fmt: skip
def test_what_leans_on_a_relaxed_part_deep_inside_is_relaxed(schema: Any, wanted: tuple[str, str]) -> None:
    report = build({"$schema": _SEVEN, **schema}, spelling=DEFAULT_SPELLING).report
    relaxed = {(row.pointer, row.keyword) for row in report.relaxed}
    assert "multipleOf" in {keyword for _, keyword in relaxed}
    assert wanted in relaxed
    assert ("/properties", "not") not in relaxed


_NONE = {"type": "string", "minLength": 5, "maxLength": 3}
#: Constants or numbers, and sibling keywords that none of them satisfies.
_IMPOSSIBLE: list[dict[str, Any]] = [
    {"const": 3, "minimum": 5},
    {"const": 3, "exclusiveMaximum": 3},
    {"enum": [3, 5.5], "multipleOf": 2},
    {"enum": ["x"], "pattern": "^y$"},
    {"enum": ["x", "yy"], "minLength": 3},
    {"const": "xyz", "maxLength": 2},
    {"const": "x", "format": "date"},
    {"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 0},
    {"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 0, "multipleOf": 3},
    {"type": "integer", "exclusiveMaximum": 3, "not": {"exclusiveMaximum": 10, "multipleOf": 0.5}},
]


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        *((schema, "") for schema in (_NONE, *_IMPOSSIBLE)),
        *(
            ({"type": "object", "properties": {"a": schema}, "required": ["a"]}, "/properties/a")
            for schema in (_NONE, *_IMPOSSIBLE)
        ),
        ({"type": "object", "properties": {"b": dict(_NONE), "a": _NONE}, "required": ["a"]}, "/properties/a"),
        (
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "type": "object", "$defs": {"n": _NONE}},
            "/$defs/n",
        ),
        (
            having({"a": {"type": "object", "properties": {"b": False}, "required": ["b"]}}),
            "/properties/a",
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, ""),
        ({"type": "integer", "minimum": 5, "exclusiveMaximum": 5}, ""),
        ({"type": "number", "exclusiveMinimum": 5, "exclusiveMaximum": 5}, ""),
    ],
)  # fmt: skip
def test_what_no_value_satisfies_is_named_where_it_stands(schema: Any, wanted: str) -> None:
    with pytest.raises(SchemaError, match="no value satisfies") as found:
        build(schema, watch=True)
    assert found.value.pointer == wanted
    if not wanted:
        build({"anyOf": [schema, {"type": "null"}]}, watch=True)


@pytest.mark.parametrize(
    ("schema", "documents", "place"),
    [
        ({"$id": "http://x/", "anyOf": [{"$ref": "//["}]}, {}, "schema/anyOf/0: "),
        ({"$id": "http://[", "properties": {"a": {"$ref": "a"}}}, {}, "schema/properties/a: "),
        ({"$id": "http://x/", "properties": {"a/b": {"$id": "//["}}}, {}, "schema/properties/a~1b: "),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://[", "$ref": "b"}, {}, "schema: "),
        ({"$ref": "http://y/"}, {"http://y/": {"items": {"$ref": "//\u2100/"}}}, "schema http://y/#/items: "),
    ],
)
def test_what_is_no_uri_is_refused_at_its_place(schema: Any, documents: Any, place: str) -> None:
    with pytest.raises(SchemaError, match="is not a URI|was not given") as error:
        build(schema, documents=documents)
    assert str(error.value).startswith(place)


def test_many_resources_are_found_in_one_walk() -> None:
    """Each walked the whole document: 5,000 took 80 seconds."""
    definitions: dict[str, Any] = {
        f"d{i}": {"$id": f"d{i}", "$ref": f"d{i - 1}" if i else "#/t", "t": {"type": "null"}} for i in range(3_000)
    }
    schema = {"$id": "http://x/", "$ref": "d2999", "$defs": definitions}
    calls: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        real = documents_module.parents_in
        patch.setattr(documents_module, "parents_in", lambda document: (calls.append(1), real(document))[1])
        build(schema)
    assert len(calls) == 1


@pytest.mark.parametrize("documents", [[1], {1: {}}, "abc", 5])
def test_documents_are_schemas_by_uri(documents: Any) -> None:
    with pytest.raises(RequestError, match=r"documents: .*schemas by their URIs"):
        build({"$ref": "http://y/"}, documents=documents)


def test_a_policy_is_one_of_two() -> None:
    with pytest.raises(RequestError, match="'silent' is not a policy; expected warn or strict"):
        build({}, policy="silent")  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [{"divisibleBy": 3}, {"disallow": "string"}, {"items": {"extends": {"maximum": 1}}}])
def test_what_only_draft_3_knows_is_not_passed_over(own: dict[str, Any]) -> None:
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", **own}
    (row,) = build(schema, watch=True).report.relaxed
    assert row.keyword == "$schema"
    assert not build(own, watch=True).report.relaxed  # a key that says nothing elsewhere
