"""C4, C5, C7: names, ends, free text with calls, and a plan that keeps what it was made of."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark
from grammars.values.format import Ends, Format, ReasoningFormat
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import GrammarError
from tests.judges.plans import END, FORMAT, accepts, plan_of
from tests.made_up.schemas import closed
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

YES_NO = Choice(["yes", "no"])
F = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
G = {"name": "g", "parameters": {"type": "object", "properties": {}}}
CALL_F = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
CALL_G = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
THOUGHT = "<think>\nWell.\n</think>\n\n"
#: A model that does not think unless it is asked to.
QUIET = Format("quiet", ReasoningFormat("<think>\n", "\n</think>\n\n"), tool_calls=FORMAT.tool_calls, ends=Ends((END,)))


def test_C4_equal_names_of_parts_keep_their_own_meaning(engine: Engine):
    """`text`, `value`, `start` and `content` of a client's grammar, of tools and of ours are different rules."""
    mine = 'start: text value content\ntext: "T"\nvalue: "V"\ncontent: "C" calls\ncalls: "!"'
    value = {"name": "value", "parameters": closed({"text": {"const": "t"}})}
    text = {"name": "text", "parameters": closed({"value": {"enum": [1]}})}
    plan = plan_of(engine, response_format=Lark(mine), tools=[value, text], reasoning_effort="low",
                   reasoning_preset="structured")  # fmt: skip
    for answer in ("TVC!", '<tool_call>\n{"name": "value", "arguments": {"text": "t"}}\n</tool_call>',
                   '<tool_call>\n{"name": "text", "arguments": {"value": 1}}\n</tool_call>'):  # fmt: skip
        assert accepts(plan, engine, THOUGHT + answer + END), answer
    for answer in ("T", "t", "TV", '<tool_call>\n{"name": "text", "arguments": {"text": "t"}}\n</tool_call>'):
        assert not accepts(plan, engine, THOUGHT + answer + END), answer


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


def test_required_with_a_broken_format_is_still_refused(engine: Engine):
    with pytest.raises(GrammarError, match="there is no rule called root"):
        plan_of(engine, response_format=Gbnf('a ::= "x"'), tools=[F], tool_choice="required")


def test_the_plan_holds_the_schema_as_it_was(engine: Engine) -> None:
    schema: dict[str, Any] = {
        "type": ["object"],
        "properties": {"a": {"enum": ["x"]}, "b": {"type": ["boolean"]}},
        "required": ["a"],
    }
    before = deepcopy(schema)
    plan = plan_of(engine, response_format=JsonSchema(schema))
    schema["required"].append("b")
    schema["type"][0] = "string"
    schema["properties"]["a"]["enum"][0] = "yy"
    schema["properties"]["b"]["type"][0] = "null"
    assert plan.response.schema == before
    assert plan == plan_of(engine, response_format=JsonSchema(before))
