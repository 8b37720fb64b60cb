"""Validation always ends: its worker process is killed at its limit."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from grammars.limits.deadline import time_limits, use_time_limits
from grammars.values.constraints import JsonSchema
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.engine.worker import Worker
from guided.output.message import Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import ContentDelta
from guided.validation.validate import NOT_VALIDATED, Verdict, judge
from tests.judges.plans import plan_of

SEVEN = "http://json-schema.org/draft-07/schema#"
FOUR = "http://json-schema.org/draft-04/schema#"


@pytest.fixture
def soon() -> Iterator[None]:
    """Little time, so that a test of it takes little."""
    with use_time_limits(replace(time_limits(), validation_cpu_s=0.3)):
        yield


def by_name(schema: Any, value: Any, **documents: Any) -> dict[str, Verdict]:
    """The verdicts, which must come within a time that only what has no end would miss."""
    begun = time.thread_time()
    found = {v.validator: v for v in judge(schema, value, documents=documents)}
    assert time.thread_time() - begun < 20
    return found


@pytest.mark.usefixtures("soon")
def test_what_doubles_without_references_is_left_without_an_opinion() -> None:
    """Each level asks twice what is evaluated below it."""
    schema: Any = {"properties": {"a": True}}
    for _ in range(40):
        schema = {"allOf": [schema, True], "unevaluatedProperties": False}
    found = by_name(schema, {"a": 1})
    assert found["jsonschema"].is_valid is None
    assert found["jsonschema"].failure == "Unfinished: more than 0.3 s of processor time"


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("pattern", ["(?=(a+)+$)b?", "(?<=a)(a|a)+$", r"(a+)\1+$"])
def test_a_slow_pattern_is_ended_and_the_next_value_judged(pattern: str) -> None:
    found = by_name({"type": "string", "pattern": pattern}, "a" * 50_000 + "!")["jsonschema"]
    assert found.failure == "Unfinished: more than 0.3 s of processor time"
    assert by_name({"pattern": pattern}, 5)["jsonschema"].is_valid is True


def test_long_lists_of_objects_are_compared_too() -> None:
    values = [{"a": [i, {"b": i}]} for i in range(300)]
    assert by_name({"uniqueItems": True}, values)["jsonschema"].is_valid is True
    assert by_name({"uniqueItems": True}, [*values, {"a": [7.0, {"b": 7}]}])["jsonschema"].is_valid is False
    assert by_name({"items": {"enum": values[::-1]}}, values)["jsonschema"].is_valid is True


def test_errors_below_a_reference_tell_the_place_of_each() -> None:
    schema = {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"properties": {"x": {"type": "string"}}}}}
    value = {"x": 1}
    told = by_name(schema, [value, {}, value])["jsonschema"].violations
    assert told == ("/0/x: 1 is not of type 'string'", "/2/x: 1 is not of type 'string'")


# -- numbers


@pytest.mark.parametrize("seed", range(5))
def test_multiples_are_those_of_exact_arithmetic(seed: int) -> None:
    at = random.Random(seed)
    for _ in range(40):
        value, step = f"{at.randrange(10_000)}e-{at.randrange(4)}", f"{at.randrange(1, 60)}e-{at.randrange(4)}"
        exact = Fraction(value) % Fraction(step) == 0
        assert by_name({"multipleOf": float(step)}, float(value))["jsonschema"].is_valid is exact, (value, step)


# -- documents


@pytest.mark.parametrize("place", ["", "#/definitions/part"])
@pytest.mark.parametrize("dialect", [FOUR, SEVEN])
@pytest.mark.parametrize(("value", "valid"), [([1], True), (["x"], False), ([1, 2], False)])
def test_a_document_is_read_in_its_own_dialect(dialect: str, place: str, value: Any, valid: bool) -> None:
    """By a pointer into the middle of it, too; and a document that names none is read as the schema it came with."""
    part = {"items": [{"type": "integer"}], "additionalItems": False}
    document = {**part, "definitions": {"part": part}}
    schema = {"$ref": f"http://house.example/a{place}"}
    named = by_name(schema, value, **{"http://house.example/a": {"$schema": dialect, **document}})
    inherited = by_name({"$schema": dialect, **schema}, value, **{"http://house.example/a": document})
    for found in (named, inherited):
        assert [v.is_valid for v in found.values()] == [valid], found


def test_a_document_leads_back_into_the_dialect_of_the_schema() -> None:
    four = {"$schema": FOUR, "id": "http://h.example/four", "minimum": 1, "exclusiveMinimum": True}
    nine = {"prefixItems": [{"$ref": "http://h.example/four"}], "items": False}
    seven = {"$schema": SEVEN, "items": [{"$ref": "http://h.example/nine"}], "additionalItems": False}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "http://h.example/seven"}
    documents = {"http://h.example/four": four, "http://h.example/nine": nine, "http://h.example/seven": seven}
    for value, valid in ([[2]], True), ([[1]], False), ([[2, 2]], False), ([[2], 2], False):
        assert [v.is_valid for v in by_name(schema, value, **documents).values()] == [valid]


def test_a_document_may_be_true() -> None:
    schema = {"$ref": "http://h.example/a", "properties": {"x": {"$ref": "http://h.example/b"}}}
    documents = {"a": True, "b": {"type": "object"}, "c": {}}
    named = {f"http://h.example/{name}": document for name, document in documents.items()}
    for value, valid in ({}, True), ({"x": {}}, True), ({"x": 1}, False):
        assert [v.is_valid for v in by_name(schema, value, **named).values()] == [valid]


# -- what is said


@pytest.mark.parametrize("unique", [False, True])
def test_a_message_says_that_no_one_judged_it(engine: Engine, monkeypatch: pytest.MonkeyPatch, unique: bool) -> None:
    """As a note where the masks alone guarantee it; otherwise the value is not returned."""
    schema = {"type": "array", "uniqueItems": unique, "items": {"type": "object", "required": ["a"]}}
    plan = plan_of(engine, response_format=JsonSchema(schema))
    assert bool(plan.schema_report.relaxed) is unique

    def never(*_: Any, **__: Any) -> Any:
        raise TimeoutError("not finished")

    monkeypatch.setattr(Worker, "ask", never)
    builder = MessageBuilder(plan)
    builder.add([ContentDelta('[{"a": 1}]')])
    message = builder.message(ended=True, usage=Usage(), guidance=Guidance())
    said = f"{NOT_VALIDATED}jsonschema: TimeoutError: not finished"
    assert said in (message.violations if unique else message.notes)
    assert message.parsed == (None if unique else [{"a": 1}])


@pytest.mark.parametrize("dynamic", [True, False])
def test_dynamic_references_from_many_scopes_end(dynamic: bool) -> None:
    """Building a validator in Rust would follow each of them from every scope: minutes and gigabytes."""
    anchor = {"$dynamicAnchor": "n"} if dynamic else {"$recursiveAnchor": True}
    to = {"$dynamicRef": "#n"} if dynamic else {"$recursiveRef": "#"}
    draft = "2020-12" if dynamic else "2019-09"
    rings = {
        f"l{i}": {
            "$id": f"l{i}",
            **anchor,
            "type": "object",
            "properties": {f"k{i}": to, f"m{i}": {"$ref": f"l{(i + 1) % 12}"}},
        }
        for i in range(12)
    }
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "$id": "http://x.example/r",
        **anchor,
        "anyOf": [{"$ref": name} for name in rings],
        "$defs": rings,
    }
    begun = time.monotonic()
    verdicts = {verdict.validator: verdict.is_valid for verdict in judge(schema, {})}
    assert time.monotonic() - begun < 120
    assert verdicts["jsonschema"] is True
    assert False not in verdicts.values()
