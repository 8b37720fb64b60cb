"""Finished answers are validated: violations are listed, and an invalid object is never returned as parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.values.constraints import JsonSchema
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.engine.worker import Worker
from guided.output.message import Message, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import ContentDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from guided.validation.validate import judge, violations
from tests.judges.plans import plan_of

DRAFT4 = "http://json-schema.org/draft-04/schema#"


def verdicts(schema: Any, value: Any, **documents: Any) -> list[bool | None]:
    return [verdict.is_valid for verdict in judge(schema, value, documents=documents)]


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"type": "integer"}, 3, True),
        ({"type": "integer"}, "3", False),
        ({"format": "date"}, "2024-02-29", True),
        ({"format": "date"}, "2023-02-29", False),
        ({"uniqueItems": True}, [1, {"a": 1}, {"a": 1.0}], False),
        ({"$schema": DRAFT4, "minimum": 1, "exclusiveMinimum": True}, 1, False),
        ({"$schema": DRAFT4, "const": 2}, 1, True),  # a word that draft 4 does not have
        ({"type": "string", "nullable": True}, None, True),
        ({"enum": ["a"], "type": "string", "nullable": True}, None, True),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, False),
        ({"const": {"nullable": True, "type": "string"}}, {"nullable": True, "type": "string"}, True),
        ({"properties": {"nullable": True, "type": {"type": "string"}}}, {"type": 5}, False),
        # repeats in a row, and groups that repeat where no text is read in many ways
        ({"pattern": "^.*a.*b.*c$"}, "xaxbxc", True),
        ({"pattern": r"^[a-z.]+@[a-z.]+\.[a-z]{2,}$"}, "a" * 60 + "@b", False),
        ({"pattern": "^[a-z]+(-[a-z]+)*$"}, "a-b", True),
        ({"pattern": "^[a-z]+(-[a-z]+)*$"}, "a-", False),
        ({"pattern": r"^([a-z0-9]+\.)+[a-z]{2,}$"}, "a.b.com", True),
        ({"pattern": r"^([a-z0-9]+\.)+[a-z]{2,}$"}, "a..com", False),
        # numbers as they are written
        ({"multipleOf": 0.01}, 0.07, True),
        ({"multipleOf": 0.1}, 10**30, True),
        ({"multipleOf": 1e-300}, 1e300, True),
        ({"maximum": 1e23}, 10**23, True),
        ({"exclusiveMaximum": 1e23}, 10**23, False),
        ({"$schema": DRAFT4, "minimum": 0.3, "exclusiveMinimum": True}, 0.3, False),
        ({"$schema": DRAFT4, "maximum": 0.3}, 0.3, True),
        ({"multipleOf": 2}, True, True),
        ({"maximum": 10}, float("inf"), False),
        ({"exclusiveMaximum": 10}, float("inf"), False),
        ({"multipleOf": 10}, float("inf"), False),
        ({"minimum": 10**400}, 1.5, False),
    ],
)
def test_the_validator_reads_a_schema_as_we_do(schema: Any, value: Any, valid: bool) -> None:
    assert verdicts(schema, value) == [valid]


def test_references_lead_into_the_given_documents_and_nowhere_else() -> None:
    schema = {"properties": {"a": {"$ref": "http://house.example/a.json"}}}
    documents = {"http://house.example/a.json": {"type": "string"}}
    assert [v.is_valid for v in judge(schema, {"a": 1}, documents=documents)] == [False]
    assert verdicts(schema, {"a": 1}) == [None]


def test_where_no_one_could_judge_it_is_said_when_asked_for() -> None:
    schema = {"$ref": "http://house.example/a.json"}
    (found,) = violations(schema, 1)
    assert found.startswith("not validated: jsonschema: ")


LOOP = {"oneOf": [{"type": "array", "maxItems": 0}, {"$ref": "#/$defs/n"}]}
NULLS = {"n": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}}


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"type": "array"}, {"$ref": "#"}]},
        {**LOOP, "$defs": NULLS},
        {"$schema": "http://json-schema.org/draft-07/schema#", "oneOf": [{"type": "array"}, {"$ref": "#"}]},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "anyOf": [{"$recursiveRef": "#"}]},
        {"allOf": [{"$dynamicRef": "#"}]},
        {"unevaluatedProperties": False, "allOf": [{"$ref": "#"}]},
    ],
    ids=str,
)
def test_a_schema_that_leads_to_itself_without_end_has_no_verdict(
    schema: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (verdict,) = judge(schema, [])
    assert verdict.is_valid is None
    assert verdict.failure.startswith("RecursionError")
    assert capfd.readouterr().err == ""


def test_an_error_is_no_verdict_and_an_interrupt_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(error: BaseException) -> None:
        def ask(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(Worker, "ask", ask)

    ends(OSError("no process"))
    (verdict,) = judge({}, 1)
    assert (verdict.is_valid, verdict.failure) == (None, "OSError: no process")
    ends(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        judge({}, 1)


def answered(engine: Engine, schema: Any, value: Any) -> Message:
    builder = MessageBuilder(plan_of(engine, response_format=JsonSchema(schema)))
    builder.add([ContentDelta(json.dumps(value))])
    return builder.message(ended=True, usage=Usage(), guidance=Guidance())


def test_what_a_relaxed_keyword_let_through_is_marked_and_not_parsed(engine: Engine) -> None:
    """Items that are objects are compared after generation only, and the report says so."""
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object", "required": ["a"]}}
    plan = plan_of(engine, response_format=JsonSchema(schema))
    assert [row.keyword for row in plan.schema_report.relaxed] == ["uniqueItems"]
    message = answered(engine, schema, [{"a": 1}, {"a": 1}])
    assert message.parsed is None
    (said,) = message.violations
    assert "unique" in said
    assert answered(engine, schema, [{"a": 1}, {"a": 2}]).parsed == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"EN": 1, "EN": 2}', 'JSON: the key "EN" is written twice in one object'),
        ('{"x": [{"a": 1, "b": 1, "\\u0061": 1}]}', 'JSON: the key "a" is written twice in one object'),
        ('{"a": 1e999}', "JSON: the number 1e999 is larger than a double can be"),
        ('{"a": NaN}', "not JSON: NaN is not a JSON value"),
    ],
)
def test_what_a_reader_of_json_would_pass_over_is_marked(engine: Engine, text: str, fault: str) -> None:
    plan = plan_of(engine, response_format=JsonSchema({"type": "object"}))
    builder = MessageBuilder(plan)
    builder.add([ContentDelta(text)])
    message = builder.message(ended=True, usage=Usage(), guidance=Guidance())
    assert (message.parsed, message.violations, message.content) == (None, (fault,), text)
    call = MessageBuilder(plan)
    call.add([ToolCallStart(0, "c", "look"), ToolCallArguments(0, text), ToolCallEnd(0)])
    message = call.message(ended=True, usage=Usage(), guidance=Guidance())
    assert (message.tool_calls[0].parsed, message.tool_calls[0].arguments) == (None, text)
    assert message.violations == (f"the call of 'look': {fault}",)


def test_null_that_openapi_allows_is_no_violation(engine: Engine) -> None:
    message = answered(
        engine, {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}, {"a": None}
    )
    assert (message.parsed, message.violations) == ({"a": None}, ())


def test_documents_that_no_reference_comes_to_are_no_concern() -> None:
    """A schema is sent with all documents of its site, some of which refer to documents that were not sent."""
    documents = {
        "http://x.example/a": {"$id": "http://x.example/a", "$ref": "b#/$defs/name"},
        "http://x.example/b": {"$defs": {"name": {"type": "string"}}},
        "http://x.example/lost": {"$ref": "http://elsewhere.example/never-sent", "pattern": "^(a+)+$"},
    }
    schema = {"properties": {"name": {"$ref": "http://x.example/a"}}}
    assert [verdict.is_valid for verdict in judge(schema, {"name": "a"}, documents=documents)] == [True]
    assert [verdict.is_valid for verdict in judge(schema, {"name": 1}, documents=documents)] == [False]
    inner = {"http://x.example/c": {"$defs": {"it": {"$id": "http://x.example/inner", "type": "integer"}}}}
    by_inner = {"$ref": "http://x.example/inner"}
    assert False in [
        verdict.is_valid for verdict in judge(by_inner, "a", documents={**inner, "http://x.example/c2": {}})
    ]
