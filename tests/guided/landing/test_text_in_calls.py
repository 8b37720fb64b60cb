"""Strings in calls, with JSON's quotes or without: lengths and patterns have a least, calls are whole and valid."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jsonschema
import pytest

from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.rows.answer import read_answer
from tests.cases import seeds
from tests.guided.landing.test_control import BUDGETS, landed
from tests.judges.plans import FORMAT, plan_of
from tests.made_up.wire_forms import FORMS, TOOLS

#: Forms that write strings as text, or in quotes of their own.
TEXT = [name for name, form in FORMS.items() if form.option("strings") != "json"
        and form.syntax in ("xml_equals", "invoke", "key_tags", "gemma", "pythonic")]  # fmt: skip
STRINGS: list[dict[str, Any]] = [
    {}, {"minLength": 1}, {"minLength": 60}, {"maxLength": 2_000}, {"minLength": 5, "maxLength": 30},
    {"pattern": "TODO|DONE"}, {"pattern": r"^.+@.+\.[a-z]{2,}$"}, {"pattern": "^[A-Z]{2}[0-9]{4}$"},
    {"enum": ["red", "green", "a rather long value"]},
    {"pattern": r"^\d+\s+[A-Za-z]+\s+Street$"},
]  # fmt: skip


def _tool(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": members, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": "send", "parameters": parameters}}


#: By default each form takes half of the strings in turn; forms with JSON's, whose frames alone differ, a third.
LIMITED = [
    pytest.param(name, string, marks=pytest.mark.slow if (i + j) % (2 if name in TEXT else 3) else ())
    for i, name in enumerate(FORMS)
    for j, string in enumerate(STRINGS)
]


@lru_cache(maxsize=len(FORMS))
def _least(engine: Engine, name: str, text: str) -> int:
    """The least number of tokens of a call whose argument has this schema, as JSON."""
    tools = [_tool({"text": json.loads(text)}, ["text"])]
    plan = plan_of(engine, replace(FORMAT, tool_calls=FORMS[name]), tools=tools, tool_choice="required")
    return min_tokens(plan, engine)


@pytest.mark.parametrize(("name", "string"), LIMITED)
def test_a_limit_on_a_text_makes_the_least_hardly_longer(engine: Engine, name: str, string: dict[str, Any]) -> None:
    size = string.get("minLength", 12 if "pattern" in string else 20 if "enum" in string else 0)
    least = _least(engine, name, '{"type": "string"}')
    assert _least(engine, name, json.dumps({"type": "string"} | string)) <= least + size + 4


@pytest.mark.parametrize("seed", seeds(30, default=1))
@pytest.mark.parametrize("name", TEXT)
def test_calls_with_texts_are_whole_and_valid(engine: Engine, name: str, seed: int) -> None:
    _check_calls(engine, name, seed)


def test_a_number_with_all_its_digits_gets_no_more_of_them(engine: Engine) -> None:
    """Found by these seeds: the known way went on with a digit, which a watcher forbade."""
    _check_calls(engine, "whole numbers stated", 18)


def _check_calls(engine: Engine, name: str, seed: int) -> None:
    chance = random.Random(f"{name} {seed}")
    kinds = [*STRINGS, {"type": "integer", "minimum": 100}, {"type": ["string", "null"], "minLength": 3}]
    members = {key: {"type": "string"} | chance.choice(kinds) for key in ("to", "subject", "body", "note")}
    tools = [_tool(members, chance.sample([*members], chance.randint(1, 4)))]
    plan = plan_of(engine, replace(FORMAT, tool_calls=FORMS[name]), tools=tools, tool_choice="required")
    is_exact = not plan.tool_report.relaxed
    # ECMA's \s takes U+FEFF, Python's does not
    judged = json.loads(json.dumps(tools[0]["function"]["parameters"]).replace(r"\\s", r"[\\s\ufeff]"))
    for _, tokens in landed(plan, engine, chance, chance.sample([*BUDGETS, 300], 3 if seed else 2)):
        for call in read_answer(tokens, plan, engine).tool_calls:
            if is_exact:
                jsonschema.validate(json.loads(call.arguments), judged)


def test_a_tool_next_to_another_takes_no_way_away(engine: Engine) -> None:
    """Values between delimiters, which no table locates: the search went from one tool's numbers to the other's."""
    point = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    members = {"kind": {"const": "poly"}, "points": {"type": "array", "items": point, "minItems": 3}}
    other = {"kind": {"const": "rect"}, "width": {"type": "number"}, "height": {"type": "number"}}
    kinds = [{"type": "object", "properties": found, "required": [*found]} for found in (members, other)]
    shape = _tool({"shapes": {"type": "array", "items": {"anyOf": kinds}, "minItems": 1}}, ["shapes"])
    pay = _tool({"cents": {"type": "integer", "minimum": 100_000}, "iban": {"pattern": "^[A-Z]{2}[0-9]{13,}$"}}, [])
    shape["function"]["name"], pay["function"]["parameters"]["required"] = "draw", ["cents", "iban"]
    form = replace(FORMAT, tool_calls=FORMS["character data"])
    least = [min_tokens(plan_of(engine, form, tools=tools, tool_choice="required"), engine)
             for tools in ([shape], [pay], [shape, pay])]  # fmt: skip
    assert least[2] <= min(least[:2])


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.syntax == "pythonic"])
def test_optional_arguments_make_the_least_hardly_longer(engine: Engine, name: str) -> None:
    """Found in Python syntax: the end of all calls filled the text, as letters do, and was taken for its end."""
    others = {"page": {"type": "integer", "minimum": 1}, "tags": {"type": "array"}, "meta": {"type": "object"}}
    text = {"text": {"type": "string", "minLength": 2}}
    found = []
    for members in (text, text | others):
        tools = [_tool(members, ["text"])]
        plan = plan_of(engine, replace(FORMAT, tool_calls=FORMS[name]), tools=tools, tool_choice="required")
        found.append(min_tokens(plan, engine))
    assert found[1] <= found[0] + 2


@pytest.mark.parametrize("name", FORMS)
def test_the_least_of_several_tools_is_that_of_the_shortest_call(engine: Engine, name: str) -> None:
    """Found in JSON of several lines: a required argument dropped the other tools from the search."""

    def least(tools: list[Any]) -> int:
        form = replace(FORMAT, tool_calls=FORMS[name])
        return min_tokens(plan_of(engine, form, tools=tools, tool_choice="required", thinking=False), engine)

    tools = [tool.to_openai() for tool in TOOLS.values()]
    assert least(tools) <= min(least([tool]) for tool in tools) + 2
