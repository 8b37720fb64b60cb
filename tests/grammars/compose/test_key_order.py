"""The order of keys and the separators that a response format asks for; jsonschema judges what the masks accept."""

from __future__ import annotations

import itertools
import json
import random
from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import BaseModel, Field

import guided
from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from special_tokens.errors import RequestError, SchemaError
from tests.judges.plans import accepts, plan_of, write_to_the_end
from tests.made_up.schemas import closed

INTEGER, FLAG = {"type": "integer"}, {"type": "boolean"}
THREE = closed({"a": INTEGER, "b": FLAG, "c": INTEGER}, optional=["a", "c"])


def planned(engine: Engine, schema: Any, **wanted: Any) -> Plan:
    return plan_of(engine, response_format=guided.JsonSchema(schema, **wanted))


def is_written(plan: Plan, engine: Engine, value: Any, separators: tuple[str, str] = (", ", ": ")) -> bool:
    return accepts(plan, engine, json.dumps(value, separators=separators), "after")


@pytest.mark.parametrize(
    "schema", [THREE, {**THREE, "required": []}, {**THREE, "required": ["c", "a"]}], ids=json.dumps
)
def test_any_order_is_every_permutation_and_no_key_twice(engine: Engine, schema: dict[str, Any]) -> None:
    plan = planned(engine, schema, key_order="any")
    texts = {"a": '"a": 1', "b": '"b": true', "c": '"c": 2'}
    for count in range(5):
        for keys in itertools.product("abc", repeat=count):
            text = "{" + ", ".join(texts[key] for key in keys) + "}"
            right = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)) and len(set(keys)) == count
            assert accepts(plan, engine, text, "after") == right, text
    assert not [row for row in plan.schema_report.rows if "order" in row.reason]


def test_any_order_holds_in_every_object_and_lets_free_keys_stand_between(engine: Engine) -> None:
    inner = {"type": "object", "properties": {"x": INTEGER, "y": FLAG}, "required": ["x", "y"]}
    schema = {"type": "object", "properties": {"p": inner, "q": {"type": "array", "items": inner}}, "required": ["q"]}
    plan = planned(engine, schema, key_order="any")
    items = [{"x": 1, "y": True}, {"y": True, "other": None, "x": 2}]
    assert is_written(plan, engine, {"q": items, "free": [1], "p": items[1]})
    assert not is_written(plan, engine, {"q": [{"y": True}]})
    assert not accepts(plan, engine, '{"q": [], "q": []}', "after")
    assert not accepts(plan, engine, '{"free": 1, "q": [], "free": 1}', "after")  # held by a watcher


def test_random_answers_in_any_order_end_and_are_valid(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {f"k{i}": [INTEGER, FLAG, {"enum": ["x", "y"]}][i % 3] for i in range(12)},
        "required": [f"k{i}" for i in range(0, 12, 2)],
        "additionalProperties": False,
    }
    plan = planned(engine, schema, key_order="any")
    orders = set()
    for seed in range(15):
        ids = write_to_the_end(plan, engine, random.Random(seed), entry="after", wander=30)
        value = json.loads(b"".join(engine.token_bytes(i) for i in ids[:-1]))
        jsonschema.validate(value, schema)
        orders.add(tuple(value))
    assert len(orders) > 10


def test_keys_that_come_first(engine: Engine) -> None:
    class Reasoned(BaseModel):
        result: int
        reasoning: str

    plan = planned(engine, Reasoned, key_order=["reasoning"])
    assert is_written(plan, engine, {"reasoning": "so", "result": 1})
    assert not is_written(plan, engine, {"result": 1, "reasoning": "so"})
    assert list(plan.response.schema["properties"]) == ["reasoning", "result"]  # shown to the model
    assert plan.python_type is Reasoned
    nested = {"anyOf": [{"type": "object", "properties": {"n": INTEGER, "why": {"type": "string"}}}, {"type": "null"}]}
    assert is_written(planned(engine, nested, key_order=("why",)), engine, {"why": "", "n": 1})


def test_compact_separators(engine: Engine) -> None:
    plan = planned(engine, THREE, separators="compact")
    assert is_written(plan, engine, {"a": 1, "b": True}, (",", ":"))
    assert not is_written(plan, engine, {"a": 1, "b": True})
    sent = guided.decode_plan(guided.encode_plan(plan)).response.spelling
    assert (sent.item_separator, sent.key_separator) == (",", ":")


def test_a_schema_as_text_is_read(engine: Engine) -> None:
    assert is_written(planned(engine, json.dumps(THREE)), engine, {"b": True})
    with pytest.raises(SchemaError, match="not JSON"):
        planned(engine, "{")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"key_order": "sorted"}, "response_format.key_order: 'sorted' is not an order of keys"),
        ({"key_order": ["a", "bb"]}, r"response_format.key_order\[1\]: no object lists the key 'bb'.* \(is it 'b'\?\)"),
        ({"key_order": [1]}, "expected schema, any, or a list of the keys that come first"),
        ({"separators": "wide"}, "response_format.separators: .*family or compact"),
    ],
    ids=json.dumps,
)
def test_what_is_no_order(engine: Engine, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        planned(engine, THREE, **wanted)


def test_what_no_grammar_counts_in_any_order(engine: Engine) -> None:
    many = {"type": "object", "properties": {f"k{i}": INTEGER for i in range(64)}}
    with pytest.raises(SchemaError, match="64 keys in any order, the limit is 63"):
        planned(engine, many, key_order="any")
    with pytest.raises(SchemaError, match="condition on several keys"):
        planned(engine, {**THREE, "dependentRequired": {"a": ["c"]}}, key_order="any")


def test_numbers_of_python_types_are_as_long_as_64_bits_and_doubles(engine: Engine) -> None:
    plan = plan_of(engine, response_format=dict[str, int | float])
    for number in (2**64 - 1, -(2**63), 5e-300, 1.7976931348623157e308, 0.00012345678901234567):
        assert is_written(plan, engine, {"a": number})
    assert not accepts(plan, engine, '{"a": 123456789012345678901}', "after")
    assert any("at most 20 digits in a row" in row.reason for row in plan.schema_report.rows)
    wide = plan_of(engine, response_format=Annotated[int, Field(ge=10**30)])
    assert accepts(wide, engine, str(10**30), "after")  # a type that asks for more gets it
