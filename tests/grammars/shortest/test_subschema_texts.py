"""A shortest text of every subschema, with a search, validators and hand-worked answers as judges."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
from referencing.jsonschema import specification_with

import grammars.shortest.subschema_texts as module
from grammars.compose.compose import Parts, compose
from grammars.json_schema.build import Spelling, build
from grammars.limits.deadline import deadline
from grammars.plan.plan import Plan
from grammars.plan.wire import decode_plan, encode_plan
from grammars.shortest.plan_texts import response_text, subschema_texts
from grammars.shortest.subschema_texts import ShortestTexts, subschemas
from grammars.values.constraints import Choice, JsonSchema
from grammars.values.format import Format
from grammars.values.json_pointer import unescaped
from special_tokens.errors import SchemaError, ToolError
from tests.cases import seeds
from tests.guided.inspect.test_shortest_laws import schema_of, small_values
from tests.judges.validators import judge
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

TOKENS = small_tokens(small_tokenizer(MARKERS))
DRAFT = "https://json-schema.org/draft/"
OLD = "http://json-schema.org/draft-0"


def at(schema: Any, pointer: str) -> Any:
    for step in map(unescaped, pointer.split("/")[1:]):
        schema = schema[int(step)] if isinstance(schema, list) else schema[step]
    return schema


def plan_of(parts: Parts) -> Plan:
    return compose(parts, tokens=TOKENS, format=Format("bench"))


@pytest.mark.parametrize("seed", seeds(10, default=4))
def test_no_small_instance_of_a_subschema_is_shorter_than_its_text(seed: int) -> None:
    chance = random.Random(f"nodes {seed}")
    num_found = 0
    for _ in range(10):
        schema = schema_of(chance)
        texts = ShortestTexts(schema)
        for pointer in texts:
            validator = jsonschema.Draft202012Validator(at(schema, pointer))
            instance = next(filter(validator.is_valid, small_values()), None)
            text = texts[pointer]
            if text is None:  # nothing is valid, or arrays of distinct arrays are relaxed, and what holds them
                assert instance is None or build(schema, start=pointer, watch=True).report.relaxed, (schema, pointer)
                continue
            num_found += 1
            assert validator.is_valid(json.loads(text)), (schema, pointer, text)
            assert instance is None or len(text) <= len(json.dumps(instance)), (schema, pointer, text, instance)
    assert num_found >= 10


#: A schema, and the text of each of its subschemas.
KNOWN: list[tuple[Any, dict[str, str | None]]] = [
    (True, {"": "0"}),
    (False, {"": None}),
    ({"type": "string", "title": "x", "default": {"type": "null"}}, {"": '""'}),
    (
        {
            "type": "object",
            "properties": {
                "a/b": {"const": 12},
                "~%": {"type": "string", "pattern": "^(a|b)a$", "maxLength": 2, "not": {"const": "ba"}},
                "": False,
                "properties": True,
            },
            "required": ["a/b", "~%"],
            "additionalProperties": False,
        },
        {
            "": '{"a/b": 12, "~%": "aa"}',
            "/properties/a~1b": "12",
            "/properties/~0%": '"aa"',
            "/properties/~0%/not": '"ba"',
            "/properties/": None,
            "/properties/properties": "0",
            "/additionalProperties": None,
        },
    ),
    (
        {
            "$schema": f"{OLD}4/schema#",
            "id": "http://e.org/root",
            "definitions": {
                "n": {"type": "number", "minimum": 10, "exclusiveMinimum": True},
                "l": {"id": "#here", "enum": ["x"]},
            },
            "type": "array",
            "items": [{"$ref": "#/definitions/n"}, {"$ref": "#here"}],
            "additionalItems": {"type": "null"},
            "minItems": 3,
            "dependencies": {"a": ["b"], "c": {"required": ["d"], "type": "object"}},
        },
        {
            "": '[11, "x", null]',
            "/definitions/n": "11",
            "/definitions/l": '"x"',
            "/items/0": "11",
            "/items/1": '"x"',
            "/additionalItems": "null",
            "/dependencies/c": '{"d": 0}',
        },
    ),
    (
        {
            "$schema": f"{DRAFT}2020-12/schema",
            "$id": "http://e.org/tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {
                "value": {"$ref": "urn:word"},
                "next": {"anyOf": [{"$dynamicRef": "#node"}, {"type": "null"}]},
            },
            "required": ["value", "next"],
        },
        {
            "": '{"value": "ab", "next": null}',
            "/properties/value": '"ab"',
            "/properties/next": "null",
            "/properties/next/anyOf/0": '{"value": "ab", "next": null}',
            "/properties/next/anyOf/1": "null",
        },
    ),
    # The masks vouch for what is not relaxed.
    (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(a)\1$"}, "b": {"const": 5}}},
        {"": None, "/properties/a": None, "/properties/b": "5"},
    ),
    # No subschemas: unknown words, and keywords of the wrong kind.
    ({"x-of": {"type": "null"}, "enum": [{"type": "null"}]}, {"": '{"type": "null"}'}),
    ({"properties": {"a": {"type": "null", "items": 5}, "b": 5}}, {"": None, "/properties/a": None}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "texts"), KNOWN)
def test_every_subschema_has_its_own_text(schema: Any, texts: dict[str, str | None]) -> None:
    documents = {"urn:word": {"type": "string", "pattern": "^ab$"}}
    found = ShortestTexts(schema, documents=documents)
    assert dict(found) == texts
    assert next(iter(found)) == ""
    assert len(found) == len(texts)
    for pointer, text in texts.items():
        if pointer and text is not None:
            whole = {"urn:whole": schema, **documents}
            wrapper = {"$ref": f"urn:whole#{quote(pointer)}"}
            if "$schema" in schema:
                wrapper["$schema"] = schema["$schema"]
            if "$id" not in schema and "id" not in schema:
                verdicts = {verdict.is_valid for verdict in judge(wrapper, json.loads(text), documents=whole)}
                assert verdicts <= {True, None}, (pointer, text)


@pytest.mark.parametrize("seed", seeds(20, default=4))
def test_pointers_are_those_of_the_subschemas_that_a_library_finds(seed: int) -> None:
    schema = schema_of(random.Random(f"pointers {seed}"))
    specification = specification_with(f"{DRAFT}2020-12/schema")
    found, todo = [], [schema]
    while todo:
        value = todo.pop()
        found.append(value)
        todo += specification.subresources_of(value) if isinstance(value, dict) else ()
    mine = [at(schema, pointer) for pointer in subschemas(schema)]
    assert sorted(map(json.dumps, mine)) == sorted(map(json.dumps, found))
    assert len(set(subschemas(schema))) == len(mine)


def test_a_pointer_that_leads_to_no_subschema_is_a_key_error() -> None:
    texts = ShortestTexts({"properties": {"a": {"type": "null"}}})
    for pointer in ("/properties", "/properties/b", "properties/a", "#", "/"):
        assert pointer not in texts
        assert texts.get(pointer) is None
        with pytest.raises(KeyError):
            texts[pointer]


def test_a_plan_has_the_texts_of_its_response_also_where_it_was_sent() -> None:
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
        "minItems": 2,
    }
    plan = plan_of(Parts(response_format=JsonSchema(schema)))
    texts = dict(subschema_texts(plan))
    assert texts == {"": '[{"k": 1}, {"k": 1}]', "/items": '{"k": 1}', "/items/properties/k": "1"}
    assert plan.response is not None
    assert texts[""] == response_text(plan.response)
    for copied in (decode_plan(encode_plan(plan)), pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert copied == plan
        assert dict(subschema_texts(copied)) == texts


def test_each_text_is_searched_once_and_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    monkeypatch.setattr(module, "build", lambda schema, **options: built.append(schema) or build(schema, **options))
    texts = subschema_texts(plan_of(Parts(response_format=JsonSchema({"type": "array", "items": {"const": 1}}))))
    assert not built
    assert texts["/items"] == texts["/items"] == "1"
    assert len(built) == 1


def test_definitions_and_what_references_lead_to_are_subschemas_in_every_dialect() -> None:
    schema = {
        "$schema": f"{OLD}7/schema#",
        "$defs": {"a": {"const": 1}},
        "components": {"schemas": {"b/c": {"$ref": "#/components/d"}}, "d": {"const": 2}, "e": {"const": 3}},
        "properties": {
            "p": {"$ref": "#/$defs/a"},
            "q": {"$ref": "#/components/schemas/b~1c"},
            "r": {"$ref": "#/nowhere"},
        },
    }
    texts = ShortestTexts(schema)
    assert {pointer: texts[pointer] for pointer in texts if pointer} == {
        "/$defs/a": "1",
        "/properties/p": "1",
        "/properties/q": "2",
        "/properties/r": None,
        "/components/schemas/b~1c": "2",
        "/components/d": "2",
    }


def test_references_begin_in_the_resource_around_them() -> None:
    schema = {
        "properties": {"q": {"$ref": "#/$defs/x/properties/y"}},
        "foo": {"const": 1},
        "$defs": {"x": {"$id": "urn:x", "foo": {"const": 3}, "properties": {"y": {"$ref": "#/foo"}}}},
    }
    texts = ShortestTexts(schema)
    assert {pointer: texts[pointer] for pointer in texts if pointer} == {
        "/properties/q": "3",
        "/$defs/x": "0",
        "/$defs/x/properties/y": "3",
        "/$defs/x/foo": "3",
    }


@pytest.mark.parametrize("named", [f"{OLD}4/schema#", "urn:unknown", 5])
def test_a_dialect_is_named_where_a_resource_begins(named: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"$schema": named, "const": "hello"}}, "required": ["a"]}
    assert dict(ShortestTexts(schema)) == {"": '{"a": "hello"}', "/properties/a": '"hello"'}


def test_a_long_list_of_numbers_has_a_text() -> None:
    assert ShortestTexts({"enum": list(range(5000))})[""] == "0"
    assert ShortestTexts({"items": {"enum": list(range(5000))}})["/items"] == "0"


def test_a_deadline_is_an_error_and_no_answer() -> None:
    texts = ShortestTexts({"type": "array", "items": {"type": "integer"}, "minItems": 1})
    with deadline(0), pytest.raises(SchemaError, match="deadline"):
        texts[""]
    assert texts[""] == "[0]"


def test_texts_are_spelled_as_the_format_spells_json() -> None:
    schema = {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2}
    narrow = Spelling(item_separator=",", key_separator=":")
    assert ShortestTexts(schema, spelling=narrow)[""] == "[1,2]"
    plan = compose(Parts(response_format=JsonSchema(schema)), tokens=TOKENS, format=Format("bench", spelling=narrow))
    assert subschema_texts(plan)[""] == "[1,2]"


def test_formats_without_a_schema_have_no_subschemas() -> None:
    plan = plan_of(Parts(response_format=Choice(("ab", "c"))))
    assert subschema_texts(plan) == subschema_texts(plan_of(Parts())) == {}
    assert plan.response is not None
    assert response_text(plan.response) == "c"


def test_the_plan_has_no_texts_of_a_tool_that_it_does_not_have() -> None:
    with pytest.raises(ToolError, match="there is no tool"):
        subschema_texts(plan_of(Parts()), "get_weather")
