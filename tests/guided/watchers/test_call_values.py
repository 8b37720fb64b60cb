"""Watchers of tool calls: JSON values in every call syntax are watched as a response is."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.plan import Plan
from grammars.plan.wire import MalformedPlan, decode_plan, encode_plan
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.constraints import JsonSchema
from grammars.values.format import Ends, Format
from grammars.values.tool import Call, Tool
from grammars.values.watchers import UniqueWatch
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import SchemaError, TokenRefused, ToolError
from tests.conftest import small_engine
from tests.judges.plans import END, plan_of, walk, write_to_the_end
from tests.made_up import wire_forms

UNIQUE = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
FREE = {"type": "object", "additionalProperties": {"type": "number"}}


def tool(name: str, **properties: Any) -> Tool:
    return Tool(name, parameters={"type": "object", "properties": properties})


TOOLS = {
    "tag": tool("tag", text={"type": "string"}, tags=UNIQUE, meta=FREE),
    "tag_more": tool("tag_more", tags={"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    "say": tool("say", text={"type": "string"}, meta={"type": "array", "items": {"type": "string"}}),
}
#: Forms whose values cannot be found: the name follows the arguments; strings in other quotes; no JSON at all.
UNWATCHED = {"tags around the client's own object", "pythonic", "gemma", "elements"}
WATCHED = [
    name for name, form in wire_forms.FORMS.items() if name not in UNWATCHED and form.option("quote_end") is None
]


@pytest.fixture(scope="module")
def wire_engine() -> Engine:
    return small_engine(wire_forms.MARKERS)


def plan_for(engine: Engine, form: str, **parts: Any) -> Plan:
    given = Format(form, tool_calls=wire_forms.FORMS[form], ends=Ends((END,)))
    parts = {"tools": list(TOOLS.values()), "tool_choice": "required", "parallel_tool_calls": True} | parts
    return plan_of(engine, given, **parts)


def rendered(form: str, *calls: Call) -> str:
    """The calls as the syntax writes them; in forms of one call the last one."""
    made = wire_forms.FORMS[form]
    kept = calls if made.max_calls is None else calls[-made.max_calls :]
    return syntax(made.syntax).render(made, kept, TOOLS)


def is_written(plan: Plan, engine: Engine, text: str) -> bool:
    return walk(plan, engine, text).is_whole


FIRST = Call("tag", {"text": "x", "tags": ["a", "b"], "meta": {"k": 1, "l": 2}})


@pytest.mark.parametrize("form", WATCHED)
@pytest.mark.parametrize(
    ("call", "good"),
    [
        (Call("tag", {"tags": ["a", "b"], "meta": {"k": 1, "l": 2}}), True),
        (Call("tag", {"tags": ["a", "a"]}), False),
        (Call("tag", {"text": "y", "tags": ["b", "a", "b"]}), False),
        (Call("tag_more", {"tags": [1, 2]}), True),
        (Call("tag_more", {"tags": [1, 1]}), False),
        (Call("say", {"text": '{"a": 1, "a": 1}', "meta": ["a", "a"]}), True),
    ],
)
def test_no_item_comes_twice_in_a_call_and_calls_do_not_know_each_other(
    wire_engine: Engine, form: str, call: Call, good: bool
) -> None:
    plan = plan_for(wire_engine, form)
    assert is_written(plan, wire_engine, rendered(form, FIRST, call)) is good


@pytest.mark.parametrize("form", WATCHED)
def test_no_key_comes_twice_in_a_call(wire_engine: Engine, form: str) -> None:
    plan = plan_for(wire_engine, form)
    text = rendered(form, FIRST, Call("tag", {"meta": {"key": 1, "kex": 2}}))
    assert is_written(plan, wire_engine, text)
    assert not is_written(plan, wire_engine, text.replace('"kex"', '"key"'))


@pytest.mark.parametrize("form", WATCHED)
def test_no_digits_and_no_exponents_without_end_in_a_call(wire_engine: Engine, form: str) -> None:
    plan = plan_for(wire_engine, form)
    text = rendered(form, FIRST, Call("tag", {"meta": {"key": 777}}))
    for number, good in (("7" * 20, True), ("7" * 21, False), ("1e308", True), ("1e309", False)):
        assert is_written(plan, wire_engine, text.replace("777", number)) is good, number


@pytest.mark.parametrize("form", WATCHED)
def test_text_that_looks_like_the_beginning_of_a_value_is_none(wire_engine: Engine, form: str) -> None:
    """Text before watched values that holds their opening in a string: no watcher may begin there."""
    plan = plan_for(wire_engine, form)
    triggers = [w.trigger[0] for s in plan.call_values for w in s.ways if isinstance(w.trigger[0], str)]
    written = 0
    for trigger in triggers:
        text = f'{trigger}["a", "a"] {{"k": 1, "k": 2}}'
        try:
            turn = rendered(form, FIRST, Call("tag", {"text": text, "tags": ["a", "b"]}))
        except ToolError:  # the syntax cannot carry this text
            continue
        written += 1
        assert is_written(plan, wire_engine, turn), trigger
    assert written or not triggers or form == "tags by name"


@pytest.mark.parametrize("form", sorted(UNWATCHED))
def test_where_values_cannot_be_found_the_report_says_so(wire_engine: Engine, form: str) -> None:
    plan = plan_for(wire_engine, form)
    assert plan.call_values == ()
    if form != "gemma":
        relaxed = {(row.pointer, row.keyword) for row in plan.tool_report.relaxed}
        assert ("/tools/tag/parameters/properties/tags", "uniqueItems") in relaxed


def test_the_report_and_the_strict_policy_know_of_the_watchers(wire_engine: Engine) -> None:
    (row,) = [
        row
        for row in plan_for(wire_engine, "tags", schema_policy="strict", tools=[TOOLS["tag"]]).tool_report.rows
        if row.keyword == "uniqueItems"
    ]
    assert (row.pointer, row.outcome) == ("/tools/tag/parameters/properties/tags", "exact")
    with pytest.raises(SchemaError, match="uniqueItems"):
        plan_for(wire_engine, "pythonic", schema_policy="strict", tools=[TOOLS["tag"]])


def test_tools_that_need_no_watcher_carry_no_table(wire_engine: Engine) -> None:
    assert plan_for(wire_engine, "xml", tools=[TOOLS["say"]]).call_values == ()


def test_text_in_front_of_calls_is_not_watched(wire_engine: Engine) -> None:
    plan = plan_for(wire_engine, "tags", tool_choice="auto")
    lead = '{"name": "tag", "arguments": {"tags": ["a", "a"], '
    good = rendered("tags", FIRST)
    assert is_written(plan, wire_engine, lead + "\n" + good)
    assert not is_written(plan, wire_engine, lead + "\n" + good.replace('"b"', '"a"'))


def test_a_response_and_calls_are_watched_in_one_plan(wire_engine: Engine) -> None:
    plan = plan_for(wire_engine, "tags", tool_choice="auto", response_format=JsonSchema(UNIQUE))
    for text, good in (
        ('["a", "b"]', True),
        ('["a", "a"]', False),
        (rendered("tags", FIRST), True),
        (rendered("tags", Call("tag", {"tags": ["a", "a"]})), False),
    ):
        assert is_written(plan, wire_engine, text) is good, text


def test_committing_a_repeat_in_a_call_is_refused(wire_engine: Engine) -> None:
    plan = plan_for(wire_engine, "xml")
    state = GuidanceState(plan, wire_engine)
    text = rendered("xml", Call("tag", {"tags": ["a", "a"]}))
    ids = wire_engine.tokenize(text[: text.index('"a"]') + 2])
    state.commit(ids)
    quote = wire_engine.tokenize('"')
    assert state.validate(quote) == 0
    with pytest.raises(TokenRefused, match="second time"):
        state.commit(quote)
    assert not is_allowed(state.mask(), quote[0])


@pytest.mark.parametrize("form", ["tags", "xml", "invoke with a flag", "name and number", "key tags, tight", "harmony"])
def test_the_table_travels_with_the_plan(wire_engine: Engine, form: str) -> None:
    plan = plan_for(wire_engine, form)
    again = decode_plan(encode_plan(plan))
    assert again == plan
    assert any(isinstance(w, UniqueWatch) for step in again.call_values for w in step.watchers)
    assert not is_written(again, wire_engine, rendered(form, Call("tag", {"tags": ["a", "a"]})))


def test_a_table_that_leads_nowhere_is_refused(wire_engine: Engine) -> None:
    plan = plan_for(wire_engine, "tags")
    broken = replace(plan, call_values=(replace(plan.call_values[0], to=99), *plan.call_values[1:]))
    with pytest.raises(MalformedPlan, match=r"call_values\[0\].to: there is no step 99"):
        decode_plan(encode_plan(broken))


@pytest.mark.parametrize("form", WATCHED)
def test_every_walk_through_watched_calls_ends(wire_engine: Engine, form: str) -> None:
    plan = plan_for(wire_engine, form)
    made = wire_forms.FORMS[form]
    closers = [
        '"',
        '"]',
        '"}',
        "}",
        "]",
        made.call_end,
        made.section_end,
        "</parameter>\n",
        "</arg_value>",
        "</text>\n",
        "</in>",
    ]
    for seed in range(3):
        assert write_to_the_end(plan, wire_engine, random.Random(seed), closers=[text for text in closers if text])
