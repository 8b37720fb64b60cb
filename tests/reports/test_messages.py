"""Kind: an error names what the client sent, not the grammar that was made of it; files may begin with a mark.

Source: the reports on the tests of guidance and llguidance that this project was run on; no thread of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.cli.inputs import load_json
from guided.engine.engine import Engine
from tests.judges.plans import PLAIN, accepts, plan_of

INTERNAL = ("start:", "response:", "<[", " | ")


def _error(engine: Engine, **parts: Any) -> str:
    def prepared() -> None:
        plan = plan_of(engine, PLAIN, **parts)
        engine.pristine(plan, plan.entries[0].name)

    with pytest.raises(guided.GuidedError) as raised:
        prepared()
    return str(raised.value)


@pytest.mark.parametrize("pattern", ["a^b", "a$b", r"(?<=a^)b", r"(a)\1", r"(?>a)b", "(?P>x)"])
def test_a_pattern_that_is_not_supported_is_refused_in_its_own_words(engine: Engine, pattern: str) -> None:
    text = _error(engine, response_format=guided.Regex(pattern))
    assert not [word for word in INTERNAL if word in text], text


@pytest.mark.parametrize(("kind", "pattern"), [("argument", "a^b"), ("custom", "a^b"), ("custom", r"a\b")])
def test_a_pattern_of_a_tool_as_well(engine: Engine, kind: str, pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": pattern}}
    tool: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": schema}}
    tool = tool if kind == "argument" else {"type": "custom", "custom": {"name": "f", "format": grammar}}
    text = _error(engine, tools=[tool], tool_choice="required")
    assert not [word for word in INTERNAL if word in text], text


@pytest.mark.parametrize(("pattern", "column"), [("*a", 1), ("x[b-a]", 4), (r"a\u{1", 4), ("ab++", 3), (r"(a)\1", 4)])
def test_a_pattern_of_a_schema_is_refused_by_its_column(engine: Engine, pattern: str, column: int) -> None:
    schema = guided.JsonSchema({"type": "string", "pattern": pattern})
    assert f", column {column}" in _error(engine, response_format=schema, schema_policy="strict")


def test_nul_is_a_character(engine: Engine) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Regex(r"a\0b"))
    assert accepts(plan, engine, "a\0b")


def test_a_pattern_of_a_client_s_lark_grammar_as_well(engine: Engine) -> None:
    text = _error(engine, response_format=guided.Lark("start: /a^b/"))
    assert "a^b" in text
    assert not [word for word in INTERNAL if word in text], text


def test_a_repeat_without_a_bound_says_how_to_leave_it_open(engine: Engine) -> None:
    body = {"type": "repeat", "content": {"type": "const_string", "value": "a"}, "min": 2}
    tag = {"type": "structural_tag", "format": body}
    text = _error(engine, response_format=guided.StructuralTag(tag))
    assert text == "response_format.format.max: there is no max; expected a number, or -1 for any number"
    body["max"] = -1
    assert accepts(plan_of(engine, PLAIN, response_format=guided.StructuralTag(tag)), engine, "aaa")


def test_a_schema_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "string"}), encoding="utf-8-sig")
    assert load_json(str(file), "--schema") == {"type": "string"}
