"""Kind: what a Python type needs to be read back is written, and a schema that few mean is named.

Source: morluto/flameox#496 (a tag with a default was left out of a union).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NotRequired

import pydantic
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import guided
from guided.engine.engine import Engine
from tests.judges.plans import FORMAT, PLAIN, plan_of, walk
from tests.judges.schema_masks import Compiled, walked


class Feline(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Canine(BaseModel):
    kind: Literal["dog", "puppy"] = "dog"
    name: str = ""


class Finned(BaseModel):
    kind: Literal["fish"] = Field("fish", alias="type")


class Winged(BaseModel):
    kind: Literal["bird"] = Field("bird", alias="type")


@dataclass
class Left:
    side: Literal["left"] = "left"


@dataclass
class Right:
    side: Literal["right"] = "right"


class One(TypedDict):
    n: NotRequired[Literal[1]]


class Two(TypedDict):
    n: NotRequired[Literal[2]]


class Owner(BaseModel):
    pet: Annotated[Feline | Canine, Field(discriminator="kind")]
    alone: Feline = Feline()


UNIONS: dict[str, Any] = {
    "models": Annotated[Feline | Canine, Field(discriminator="kind")],
    "a member": Owner,
    "an alias": Annotated[Finned | Winged, Field(discriminator="kind")],
    "dataclasses": Annotated[Left | Right, Field(discriminator="side")],
    "typed dicts": Annotated[One | Two, Field(discriminator="n")],
    "a union in a union": Annotated[
        Annotated[Feline | Canine, Field(discriminator="kind")] | Annotated[Left | Right, Field(discriminator="side")],
        Field(union_mode="left_to_right"),
    ],
    "a list": list[Annotated[Feline | Canine, Field(discriminator="kind")]],
}


@pytest.mark.parametrize("case", UNIONS)
def test_the_tag_of_a_union_is_written_and_pydantic_reads_the_answer(engine: Engine, case: str) -> None:
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(UNIONS[case])
    plan = plan_of(engine, PLAIN, response_format=guided.JsonSchema(UNIONS[case]))
    assert plan.notes == ()
    texts = [text for seed in range(40) if (text := walked(Compiled(plan, engine, None), seed)) is not None]
    assert texts
    for text in texts:
        adapter.validate_json(text)
    empty = {"a member": '{"pet": {}}', "a list": "[{}]"}.get(case, "{}")
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_json(empty)
    assert not walk(plan, engine, empty).is_whole
    if case == "a member":  # outside the union the tag may be left out
        assert walk(plan, engine, '{"pet": {"kind": "cat"}, "alone": {}}').is_whole


def test_the_tag_of_a_union_is_written_in_calls(engine: Engine) -> None:
    def adopt(pet: Annotated[Feline | Canine, Field(discriminator="kind")]) -> None:
        """Adopt a pet."""

    plan = plan_of(engine, PLAIN, tools=[adopt], tool_choice="required")
    call = '<tool_call>\n{"name": "adopt", "arguments": {"pet": %s}}\n</tool_call>'
    assert walk(plan, engine, call % '{"kind": "puppy"}').is_whole
    assert not walk(plan, engine, call % "{}").is_whole
    assert plan.notes == ()


def _tool(parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


def test_a_required_key_that_is_not_among_the_properties_may_be_any_value_and_is_named(engine: Engine) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city", "ctiy"]}
    value = {"city": "x", "ctiy": [1]}
    plan = plan_of(engine, PLAIN, response_format=guided.JsonSchema(schema))
    assert walk(plan, engine, json.dumps(value)).is_whole
    assert plan.notes == (
        "required at the root: 'ctiy': not among the properties, so any value may be written there; "
        "did you mean 'city'?",
    )
    plan = plan_of(engine, PLAIN, tools=[_tool(schema)], tool_choice="required")
    call = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
    assert walk(plan, engine, call % json.dumps(value)).is_whole
    assert not walk(plan, engine, call % json.dumps({**value, "more": 1})).is_whole
    assert len(plan.notes) == 1
    assert "required at /tools/f/parameters: 'ctiy'" in plan.notes[0]


@pytest.mark.parametrize("syntax", ["json_in_tags", "xml_equals"])
def test_a_required_key_that_is_forbidden_is_named(engine: Engine, syntax: str) -> None:
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False}
    with pytest.raises(
        guided.SchemaError, match="^response_format: unsatisfiable: no value satisfies it .'b' is required, not among"
    ):
        plan_of(engine, PLAIN, response_format=guided.JsonSchema(schema))
    inside = {"type": "object", "properties": {"o": schema}, "required": ["o"]}
    with pytest.raises(
        guided.SchemaError, match=r"^response_format/properties/o: .*'b' is required, not among properties"
    ):
        plan_of(engine, PLAIN, response_format=guided.JsonSchema(inside))
    format = replace(PLAIN, tool_calls=replace(FORMAT.tool_calls, syntax=syntax))
    with pytest.raises(guided.ToolError, match=r"^tools.*required: 'b' is not among the properties"):
        plan_of(engine, format, tools=[_tool(schema)])


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["a"]},
        {"properties": {"a": {}}, "required": ["b"], "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "required": ["b"], "patternProperties": {"^b": {}}},
        {"properties": {"a": {}}, "required": ["b"], "allOf": [{"properties": {"b": {}}}]},
        {"properties": {"discriminator": {"type": "string"}, "propertyName": {"type": "string"}}},
    ],
)
def test_schemas_that_many_mean_are_not_named(engine: Engine, schema: dict[str, Any]) -> None:
    assert plan_of(engine, PLAIN, response_format=guided.JsonSchema({"type": "object", **schema})).notes == ()
