"""C2 to C5, C7: the eleven permutations by name, precedence, names, ends, free text with calls."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Choice, Gbnf, Lark
from grammars.values.format import Ends, Format, ReasoningFormat
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import GrammarError
from tests.conftest import small_engine
from tests.judges.plans import END, FORMAT, accepts, plan_of, walk
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

YES_NO = Choice(["yes", "no"])
F = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
G = {"name": "g", "parameters": {"type": "object", "properties": {}}}
CALL_F = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
CALL_G = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
THOUGHT = "<think>\nWell.\n</think>\n\n"
NO_MARKERS = Format("plain", None, tool_calls=FORMAT.tool_calls, ends=Ends((END,)))
#: A model that does not think unless it is asked to: the permutations mention blocks only where effort is given.
QUIET = Format("quiet", ReasoningFormat("<think>\n", "\n</think>\n\n"), tool_calls=FORMAT.tool_calls, ends=Ends((END,)))

#: number -> request parts, texts that must be accepted, texts that must be refused (ends are added)
PERMUTATIONS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "1 plain text": ({}, ["Hi <b>!", ""], [CALL_F]),
    "2 optional tools": ({"tools": [F, G]}, ["Hi", CALL_F, f"{CALL_F}\n{CALL_G}", f"Text.\n{CALL_F}"], ["<tool_call>"]),
    "3 required tools": ({"tools": [F, G], "tool_choice": "required"}, [CALL_F, CALL_G], ["Hi", ""]),
    "4 constraint": ({"response_format": YES_NO}, ["yes", "no"], ["maybe", CALL_F, ""]),
    "5 constraint or optional tools": (
        {"response_format": YES_NO, "tools": [F]}, ["yes", "no", CALL_F], ["maybe", f"yes\n{CALL_F}"]
    ),
    "6 constraint and required tools: tools only": (
        {"response_format": YES_NO, "tools": [F, G], "tool_choice": "required"}, [CALL_F, CALL_G], ["yes", "no"]
    ),
    "7 constraint and a named tool: that tool only": (
        {"response_format": YES_NO, "tools": [F, G], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        [CALL_G], ["yes", CALL_F],
    ),
    "8 effort none": ({"reasoning_effort": "none"}, ["Hi", ""], [THOUGHT + "Hi"]),
    "9 effort low, optional tools": (
        {"reasoning_effort": "low", "tools": [F]}, [THOUGHT + "Hi", THOUGHT + CALL_F], ["Hi", CALL_F, THOUGHT]
    ),
    "10 effort high, constraint, optional tools": (
        {"reasoning_effort": "high", "response_format": YES_NO, "tools": [F]},
        [THOUGHT + "no", THOUGHT + CALL_F], ["no", CALL_F, THOUGHT + "maybe"],
    ),
    "11 effort high without reasoning tokens": ({"reasoning_effort": "high"}, ["Hi", ""], [THOUGHT + "Hi"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_C2_permutation(engine: Engine, name: str):
    parts, accepted, refused = PERMUTATIONS[name]
    format = NO_MARKERS if name.startswith("11") else QUIET
    plan = plan_of(engine, format, **parts)
    for text in accepted:
        assert accepts(plan, engine, text + END), (text, walk(plan, engine, text + END))
    for text in refused:
        assert not accepts(plan, engine, text + END), text


def test_C2_11_without_reasoning_tokens_there_is_one_note_and_no_token_zero(engine: Engine):
    plan = plan_of(engine, NO_MARKERS, reasoning_effort="high")
    assert len(plan.notes) == 1
    assert "has no effect" in plan.notes[0]
    assert not plan.reasoning.applied
    assert "<[0]>" not in plan.lark


def test_C3_a_choice_after_reasoning_stays_after_it(engine: Engine):
    plan = plan_of(engine, response_format=Choice(["a", "b", "c"]), reasoning_effort="low")
    for option in "abc":
        assert accepts(plan, engine, THOUGHT + option + END)
        assert not accepts(plan, engine, option + END)
        assert not accepts(plan, engine, THOUGHT + option + "a" + END)
    assert not accepts(plan, engine, THOUGHT + END)


def test_C4_equal_names_of_parts_keep_their_own_meaning(engine: Engine):
    """`text`, `value`, `start` and `content` of a client's grammar, of tools and of ours are different rules."""
    mine = 'start: text value content\ntext: "T"\nvalue: "V"\ncontent: "C" calls\ncalls: "!"'
    value = {"name": "value", "parameters": {"type": "object", "properties": {"text": {"const": "t"}},
                                             "required": ["text"]}}  # fmt: skip
    text = {"name": "text", "parameters": {"type": "object", "properties": {"value": {"enum": [1]}},
                                           "required": ["value"]}}  # fmt: skip
    plan = plan_of(engine, response_format=Lark(mine), tools=[value, text], reasoning_effort="low",
                   reasoning_preset="structured")  # fmt: skip
    for answer in ("TVC!", '<tool_call>\n{"name": "value", "arguments": {"text": "t"}}\n</tool_call>',
                   '<tool_call>\n{"name": "text", "arguments": {"value": 1}}\n</tool_call>'):  # fmt: skip
        assert accepts(plan, engine, THOUGHT + answer + END), answer
    for answer in ("T", "t", "TV", '<tool_call>\n{"name": "text", "arguments": {"text": "t"}}\n</tool_call>'):
        assert not accepts(plan, engine, THOUGHT + answer + END), answer


@pytest.mark.parametrize(
    "names", [("my-tool", "my_tool"), ("工具", "工具2"), ("a b", "a-b"), ("A", "a"), ("x" * 60, "x" * 61)]
)
def test_C4_tools_whose_names_are_alike_stay_apart(engine: Engine, names: tuple[str, str]):
    tools = [
        {"name": name, "parameters": {"type": "object", "properties": {"n": {"const": i}}, "required": ["n"]}}
        for i, name in enumerate(names)
    ]
    plan = plan_of(engine, tools=tools, tool_choice="required", reasoning_effort="none")
    for (i, name), n in itertools.product(enumerate(names), (0, 1)):
        call = f'<tool_call>\n{{"name": "{name}", "arguments": {{"n": {n}}}}}\n</tool_call>'
        assert accepts(plan, engine, "<think>\n\n</think>\n\n" + call + END) == (i == n)


@pytest.mark.parametrize("ends", [("<|im_end|>",), ("<|im_end|>", "<|endoftext|>"), (*MARKERS[:2], "<|endoftext|>")])
@pytest.mark.parametrize("response_format", [None, YES_NO, {"type": "integer"}])
def test_C5_every_end_of_the_set_ends_and_nothing_else_does(ends: tuple[str, ...], response_format: Any):
    text = small_tokenizer((*MARKERS, "<|vision_end|>"), special=(*MARKERS, "<|vision_end|>"))
    engine = Engine(text, small_tokens(text, eos=ends))
    plan = compose(Parts(response_format=response_format), tokens=engine.tokens, format=Format("plain"))
    state = GuidanceState(plan, engine)
    mask = allocate_bitmask(1, engine.vocab_size)
    answer = "yes" if response_format is YES_NO else "7"
    for token in engine.tokenize(answer):
        state.fill_bitmask(mask)
        assert response_format is None or not set(plan.end_ids()) & set(allowed_ids(mask[0]))
        state.commit([token])
    state.fill_bitmask(mask)
    markers = set(allowed_ids(mask[0])) & engine.tokens.marker_ids
    assert markers == {engine.tokens.id_of(text) for text in ends}
    for end in sorted(markers):
        again = state.fork()
        again.commit([end])
        assert again.is_stopped
        assert again.stop_reason.token_id == end
    assert plan.lark.count("<[") == len(plan.ends)  # a sentinel for each region, no end written out


def test_C5_an_end_added_to_the_registry_ends_only_its_own_plans(engine: Engine):
    more = engine.tokens.add_end("<|endoftext|>")
    ours = compose(Parts(), tokens=more, format=QUIET)
    theirs = compose(Parts(), tokens=engine.tokens, format=QUIET)
    assert accepts(ours, engine, "Hi<|endoftext|>")
    assert not accepts(theirs, engine, "Hi<|endoftext|>")
    assert accepts(theirs, engine, "Hi<|im_end|>")


def test_C7_free_text_beside_calls_before_and_after():
    form = FORMAT.tool_calls
    engine = small_engine()
    format = replace(QUIET, tool_calls=replace(form, text_after=True))
    plan = plan_of(engine, format, tools=[F, G])
    for answer in ("Text.", CALL_F, f"Text.\n{CALL_F}", f"{CALL_F}\n{CALL_G}", f"{CALL_F} and then {CALL_G} done"):
        assert accepts(plan, engine, answer + END), answer
    for token in ("<|im_start|>", "</tool_call>", "<think>", "<|endoftext|>"):
        assert not accepts(plan, engine, f"Text {token}")
        assert not accepts(plan, engine, f"{CALL_F} text {token}")


def test_required_with_a_broken_format_is_still_refused(engine: Engine):
    with pytest.raises(GrammarError, match="there is no rule called root"):
        plan_of(engine, response_format=Gbnf('a ::= "x"'), tools=[F], tool_choice="required")
