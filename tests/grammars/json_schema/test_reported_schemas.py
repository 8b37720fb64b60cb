"""Schemas of bug reports: refused, reordered or read otherwise than they are written."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.json_schema.build import build
from grammars.json_schema.document.string_formats import FORMATS
from grammars.regular.terms import matches
from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Judge


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


def test_references_may_lead_in_a_circle_next_to_other_keywords(judge: Judge) -> None:
    both: dict[str, Any] = {"type": "object", "anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]}
    schema = both | {
        "$defs": {
            "a": both,
            "b": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
            "c": {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]},
        }
    }
    compiled, peer = judge.compiled(schema), jsonschema.Draft202012Validator(schema)
    for text in ('{"y": "a"}', '{"x": {"y": "a"}}', '{"x": {"x": {}}}', '{"x": 1}', '{"y": 1}', "{}"):
        assert compiled.accepts(text) == peer.is_valid(json.loads(text)), text


@pytest.mark.parametrize("names", [{"enum": ["b", "a"]}, {"$ref": "#/$defs/k"}, {"$ref": "#/$defs/j"}])
def test_names_come_in_the_order_of_their_list_wherever_it_stands(judge: Judge, names: dict[str, Any]) -> None:
    definitions = {"j": {"$ref": "#/$defs/k"}, "k": {"enum": ["b", "a"]}}
    compiled = judge.compiled({"type": "object", "propertyNames": names, "minProperties": 2, "$defs": definitions})
    assert compiled.accepts('{"b": 1, "a": 2}')
    assert not compiled.accepts('{"a": 1, "b": 2}')


@pytest.mark.parametrize(
    "pattern", ["[']", "[-]", r"[\w.-]", "[^'\"]+", "[-a-z]", "[(){}|$*+?]", r"^[\w.+-]+@[a-z.-]+$"]
)
def test_the_format_regex_writes_everyday_classes(judge: Judge, pattern: str) -> None:
    assert re.compile(pattern)
    assert judge.compiled({"type": "string", "format": "regex"}).accepts(json.dumps(pattern))


@given(st.text("-[]^'a.\\w&(|z{$", max_size=7))
def test_what_the_format_regex_writes_is_a_regular_expression(text: str) -> None:
    if matches(FORMATS["regex"].language, text):
        re.compile(text)


def test_options_of_llguidance_have_a_row() -> None:
    rows = build({"type": "integer", "x-guidance": {"lenient": True}}).report.rows
    assert [row.outcome.value for row in rows if row.keyword == "x-guidance"] == ["exact"]
