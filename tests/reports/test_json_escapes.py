"""Kind: an escape in a JSON string is whole or is not begun, and a row says where one is not written.

Source: vllm-project/vllm#16363 (control characters in place of letters).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from grammars.values.constraints import JsonSchema
from grammars.values.format import Ends
from grammars.values.report import Outcome
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from guided.output.parser import OutputParser, ToolCallArguments
from guided.state.state import GuidanceState
from tests.judges.plans import PLAIN, plan_of, walk

ESCAPED = (r"S\u00e3o", r"S\u00E3o Paulo", r"a\/b", r"\ud83d\ude00", r"\uD83D\uDE00!", r"\u0003", r"\u007f", r"\u0061")


STRING: dict[str, Any] = {"type": "string"}


def member(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"city": schema}, "required": ["city"], **more}


WRITTEN = {
    "alone": (STRING, '"%s"'),
    "anything": (True, '["%s"]'),
    "a member": (member(STRING), '{"city": "%s"}'),
    "a closed member": (member(STRING, additionalProperties=False), '{"city": "%s"}'),
    "a length": (member({"type": "string", "minLength": 1, "maxLength": 9}), '{"city": "%s"}'),
    "null or a string": (member({"type": ["string", "null"]}), '{"city": "%s"}'),
}
NOT_BEGUN = {
    "a pattern": ({"type": "string", "pattern": "^.{1,9}$"}, '"%s"'),
    "all but one": ({"type": "string", "not": {"const": "x"}}, '"%s"'),
    "a key": ({"type": "object"}, '{"%s": 1}'),
    "another key": (member(STRING), '{"city": "x", "%s": 1}'),
    "items that differ": ({"type": "array", "items": STRING, "uniqueItems": True}, '["%s"]'),
}


def begun(engine: Engine, schema: Any, text: str) -> int:
    """The number of bytes of ``text`` that the masks let through, in the shortest tokens that they allow."""
    state = GuidanceState(plan_of(engine, PLAIN, response_format=JsonSchema(schema)), engine)
    at = 0
    while at < len(text):
        mask = state.mask()
        found = [i for i in engine.tokens_within(text[at:].encode()) if is_allowed(mask, i)]
        if not found:
            break
        token = min(found, key=lambda i: len(engine.token_bytes(i)))
        state.commit([token])
        at += len(engine.token_bytes(token))
    return at


@pytest.mark.parametrize("escaped", ESCAPED)
@pytest.mark.parametrize("case", WRITTEN)
def test_an_escape_is_written_whole(plain_engine: Engine, case: str, escaped: str) -> None:
    schema, text = WRITTEN[case]
    whole = text % escaped
    json.loads(whole)
    assert begun(plain_engine, schema, whole) == len(whole)


@pytest.mark.parametrize("lone", [r"\ud83d", r"\ud83dx", r"\ude00", r"\ud83d\u0061"])
@pytest.mark.parametrize("case", WRITTEN)
def test_half_a_character_is_not(plain_engine: Engine, case: str, lone: str) -> None:
    schema, text = WRITTEN[case]
    assert begun(plain_engine, schema, text % lone) < len(text % lone)


@pytest.mark.parametrize("escaped", ESCAPED)
@pytest.mark.parametrize("case", NOT_BEGUN)
def test_where_texts_are_compared_an_escape_is_not_begun(plain_engine: Engine, case: str, escaped: str) -> None:
    schema, text = NOT_BEGUN[case]
    whole = text % escaped
    assert begun(plain_engine, schema, whole) == whole.index("\\") + 1
    plan = plan_of(plain_engine, PLAIN, response_format=JsonSchema(schema))
    assert any("escape" in row.reason for row in plan.response.report.rows if row.outcome is Outcome.NARROWED)


@pytest.mark.parametrize(
    ("schema", "escaped"),
    [({"enum": ["São", "Rio"]}, r'"S\u00e3o"'), ({"const": "a/b"}, r'"a\/b"'), ({"pattern": "^São$"}, r'"S\u00e3o"'),
     ({"pattern": "^(São|[A-Z]+)$"}, r'"S\u00e3o"'), ({"pattern": "^[a-z/]+$"}, r'"a\/b"')],
)  # fmt: skip
def test_listed_texts_are_written_as_they_are(plain_engine: Engine, schema: dict[str, Any], escaped: str) -> None:
    schema = {"type": "string", **schema}
    plan = plan_of(plain_engine, PLAIN, response_format=JsonSchema(schema))
    assert any("escape" in row.reason for row in plan.response.report.narrowed)
    assert begun(plain_engine, schema, escaped) == 2


def test_an_escape_that_one_listed_text_needs_may_be_that_of_another(plain_engine: Engine) -> None:
    schema = {"enum": ["São", "S\u0003o", "S\\u😀"]}
    for text in ('"São"', r'"S\u00e3o"', r'"S\u00E3o"', r'"S\u0003o"', '"S\\\\u😀"', r'"S\\u\ud83d\uDE00"'):
        assert json.loads(text) in schema["enum"]
        plan = plan_of(plain_engine, PLAIN, response_format=JsonSchema(schema))
        assert walk(plan, plain_engine, text).is_whole, text
    for text in (r'"S\u0061o"', r'"S\u00e4o"', r'"S\\u\ud83d"'):
        assert not walk(plan, plain_engine, text).is_whole


@pytest.mark.parametrize(("key", "has_row"), [("größe", True), ("a/b", True), ("size", False)])
@pytest.mark.parametrize("kind", ["properties", "const", "propertyNames"])
def test_fixed_keys_are_written_as_they_are(plain_engine: Engine, key: str, has_row: bool, kind: str) -> None:
    closed = {"type": "object", "properties": {key: {"type": "integer"}}, "additionalProperties": False}
    named = {"type": "object", "propertyNames": {"enum": [key, "b"]}, "additionalProperties": {"type": "integer"}}
    schema = {"properties": closed, "const": {"const": {key: 1}}, "propertyNames": named}[kind]
    plan = plan_of(plain_engine, PLAIN, response_format=JsonSchema(schema))
    assert any("escape" in row.reason for row in plan.response.report.narrowed) == has_row
    escaped = json.dumps({key: 1}).replace("/", "\\/")
    assert begun(plain_engine, schema, escaped) == (escaped.index("\\") if has_row else len(escaped))
    assert walk(plan, plain_engine, json.dumps({key: 1}, ensure_ascii=False)).is_whole


@pytest.mark.parametrize(("pattern", "has_row"), [("^[A-Za-zÀ-ÿ]+$", True), ("^[A-Za-z]+$", False)])
def test_letters_beyond_ascii_are_written_as_themselves(plain_engine: Engine, pattern: str, has_row: bool) -> None:
    schema = {"type": "string", "pattern": pattern}
    plan = plan_of(plain_engine, PLAIN, response_format=JsonSchema(schema))
    assert any("escape" in row.reason for row in plan.response.report.rows) == has_row
    assert begun(plain_engine, schema, r'"S\u00e3o"') == 2
    assert begun(plain_engine, schema, '"Sao"') == 5


def test_listed_texts_keep_the_escapes_that_they_need(plain_engine: Engine) -> None:
    for schema in ({"const": "a\x03"}, {"enum": ["a\x03", "b"]}, {"pattern": "^a\\x03$", "type": "string"}):
        assert begun(plain_engine, schema, r'"a\u0003"') == 9


@pytest.mark.parametrize(
    "vocabulary",
    [
        "qwen3",
        "llama3_1",
        "gemma3",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gptoss", "deepseek_v3")),
    ],
)
def test_real_vocabularies_write_escapes_in_answers_and_calls(real_engine: Any, vocabulary: str) -> None:
    engine = real_engine(vocabulary)
    format = replace(PLAIN, ends=Ends())
    text = r'{"city": "S\u00e3o \/ \ud83d\ude00"}'
    plan = plan_of(engine, format, response_format=JsonSchema(member(STRING)))
    assert walk(plan, engine, text).is_whole
    tool = {"type": "function", "function": {"name": "f", "parameters": member(STRING)}}
    plan = plan_of(engine, format, tools=[tool])
    ids = engine.tokenize('<tool_call>\n{"name": "f", "arguments": ' + text + "}\n</tool_call>")
    state = GuidanceState(plan, engine)
    for token in ids:
        state.mask()
        state.commit([token])
    parser = OutputParser(plan, engine, entry=plan.entries[0].name)
    events = [*parser.feed(ids), *parser.finish()]
    arguments = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    assert json.loads(arguments) == json.loads(text)
