"""Objects that are nearly a schema or a format: read literally, they would allow any JSON."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.json_schema.report.misspelt import misspelt_rows
from grammars.limits.schema_limits import survey
from grammars.values.format import Format
from grammars.values.report import Outcome
from special_tokens.errors import RequestError
from tests.judges.schema_masks import Judge


@pytest.mark.parametrize(("schema", "place", "word", "meant"), [
    ({"type": "object", "propertys": {"a": {"type": "integer"}}}, "", "propertys", "properties"),
    ({"type": "integer", "minimun": 3}, "", "minimun", "minimum"),
    ({"type": "object", "properties": {"a": {}}, "requird": ["a"]}, "", "requird", "required"),
    ({"items": {"type": "string", "max_length": 3}}, "/items", "max_length", "maxLength"),
    ({"properties": {"b": {"anyof": [True]}}}, "/properties/b", "anyof", "anyOf"),
    ({"$defs": {"d": {"additionalproperties": False}}}, "/$defs/d", "additionalproperties", "additionalProperties"),
])  # fmt: skip
def test_a_misspelt_keyword_is_a_row_and_a_note(judge: Judge, schema: Any, place: str, word: str, meant: str) -> None:
    plan = judge.plan(schema)
    (row,) = [row for row in plan.schema_report.rows if "did you mean" in row.reason]
    assert (row.pointer, row.keyword, row.outcome) == (place, word, Outcome.EXACT)
    assert repr(meant) in row.reason
    assert any(word in note and meant in note for note in plan.notes)


@pytest.mark.parametrize("schema", [
    {"type": "object", "properties": {"propertys": {}, "minimun": {}, "requird": {}, "formats": {}}},
    {"enum": [{"propertys": 1}], "default": {"requird": 2}, "x-minimun": 3, "examples": [{"minimun": 1}]},
    {"type": "integer", "minimum": 1, "minimun": 3},
    {"title": "t", "description": "d", "deprecated": True, "readOnly": True, "$comment": "c", "nullable": True},
])  # fmt: skip
def test_names_of_properties_and_values_are_no_misspelt_keywords(schema: Any) -> None:
    assert misspelt_rows(schema, survey(schema).keys) == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_keyword_with_one_letter_changed_is_found(seed: int) -> None:
    rng = random.Random(seed)
    for word in ("properties", "required", "minLength", "maxItems", "additionalProperties", "patternProperties"):
        at = rng.randrange(3, len(word))
        wrong = rng.choice([word[:at] + word[at + 1 :], word[:at] + "z" + word[at:], word[:at] + "z" + word[at + 1 :]])
        schema = {wrong: {}}
        (row,) = misspelt_rows(schema, survey(schema).keys)
        assert repr(word) in row.reason


@pytest.mark.parametrize(("given_format", "message"), [
    ({"name": "person", "schema": {"type": "object"}}, "there is no type.*json_schema"),
    ({"json_schema": {"name": "person", "schema": {}}}, "there is no type.*json_schema"),
    ({"regex": "a+"}, r"'regex' is not a keyword of a schema; expected guided.Regex"),
    ({"tag": "n", "schema": {"type": "integer"}}, r"'tag' is not a keyword of a schema; expected guided.StructuralTag"),
    ({"structures": [], "triggers": ["<f"]}, "'structures' is not a keyword of a schema; expected guided.Structural"),
    ({"choice": ["a"]}, "guided.Choice"),
    ({"type": "objekt"}, "unknown type 'objekt'.*object, array.*is it 'object'"),
    ({"type": "int"}, "unknown type 'int'"),
    ({"type": "json_shema"}, "unknown type 'json_shema'.*json_schema"),
])  # fmt: skip
def test_what_would_allow_any_json_by_accident_is_refused(judge: Judge, given_format: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        compose(Parts(response_format=given_format), tokens=judge.tokens, format=Format("bench"))


@pytest.mark.parametrize("schema", [{}, {"title": "anything"}, {"properties": {"regex": {}, "schema": {}}}])
def test_schemas_are_still_schemas(judge: Judge, schema: Any) -> None:
    assert compose(Parts(response_format=schema), tokens=judge.tokens, format=Format("bench")).response is not None
