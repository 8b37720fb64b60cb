"""Formats are inferred from renderings, checked, and refused where they do not stand the check."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.golden_texts import GoldenText
from grammars.formats.infer import DESCRIBED_CALLS, Inference, format_from_data, format_of_family, infer
from grammars.prompt.messages import messages_for
from grammars.values.format import Format
from grammars.values.tool import Call
from guided.hf.model.renderers import template_renderer
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import check_golden_texts, engine_for
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts, families, load_family
from special_tokens.errors import TemplateError
from tests.made_up.call_templates import COUNTED, EMPTY, RENAMED
from tests.made_up.templates import BROKEN, NO_TOOLS, READABLE, REASONING, UNREADABLE

ROOT = Path(__file__).resolve().parents[3]


def inferred(template: str) -> Inference:
    return inference_of_template(template)[0]


# -- made-up templates


@pytest.mark.parametrize("name", READABLE)
def test_a_template_of_no_family_is_read_and_stands_the_check(name: str) -> None:
    found = inferred(READABLE[name])
    assert dict(found.format.evidence)["tool_calls"] == "rendering"
    assert found.notes == ()
    with_calls = [golden for golden in found.golden_texts if golden.calls]
    assert with_calls, "nothing was checked"
    assert check_golden_texts(found.format, found.golden_texts, engine_for(found.format)) == ()


@pytest.mark.parametrize("name", READABLE)
def test_the_check_notices_a_format_that_is_a_little_wrong(name: str) -> None:
    """The check must be able to fail: one more character in what opens or closes a call."""
    found = inferred(READABLE[name])
    form = found.format.tool_calls
    for field in ("section_start", "call_start", "call_end", "section_end"):
        text = getattr(form, field)
        if text.strip():
            wrong = replace(found.format, tool_calls=replace(form, **{field: text.rstrip() + "?"}))
            assert check_golden_texts(wrong, found.golden_texts, engine_for(wrong)), field


FALLING_BACK = UNREADABLE | COUNTED | RENAMED | EMPTY


@pytest.mark.parametrize("name", FALLING_BACK)
def test_calls_that_no_syntax_writes_fall_back_and_say_why(name: str) -> None:
    template, why = FALLING_BACK[name]
    found = inferred(template)
    assert found.format.tool_calls == DESCRIBED_CALLS
    assert found.format.inputs.tools == found.format.inputs.tool_calls == "described"
    assert dict(found.format.evidence)["tool_calls"] == "fallback"
    assert re.search(why, " ".join(found.notes)), found.notes
    assert "tools are described in the prompt" in found.notes[-1]


@pytest.mark.parametrize("name", BROKEN)
def test_a_template_that_renders_nothing_is_an_error_with_its_own_words(name: str) -> None:
    template, words = BROKEN[name]
    with pytest.raises(TemplateError, match=words):
        inferred(template)


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_is_read_with_its_framing_switch_and_prompt(name: str) -> None:
    template, expected = REASONING[name]
    found = inferred(template)
    form = found.format.reasoning
    switch, effort = form.switch, form.effort_switch
    read = {
        **{field: getattr(form, field) for field in ("start", "end", "empty", "default_on", "prompt_on", "prompt_off")},
        "switch": (switch.name, switch.on, switch.off) if switch else None,
        "effort": (effort.name, effort.values) if effort else None,
        "content_start": found.format.content.start,
        "reasoning_as": found.format.inputs.reasoning_as,
    }
    assert {field: read[field] for field in expected} == expected
    assert found.notes[-1:] == ("tools are described in the prompt, and calls are JSON between <tool_call> tags",)


def test_a_template_of_parts_gets_its_messages_in_parts() -> None:
    format = inferred(READABLE["messages in parts only"]).format
    assert format.inputs.content_as == "parts"
    chat = [{"role": "user", "content": "Hi"}, {"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert messages_for(chat, format) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ]


def test_more_calls_than_a_turn_can_write_are_told_one_after_the_other() -> None:
    format = inferred(READABLE["one call only"]).format
    assert format.tool_calls.max_calls == 1
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(3)]
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": f"r{i}"} for i in (2, 0, 1)]
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So.", "tool_calls": calls}, *results]
    told = messages_for(chat, format)
    assert [(m["role"], len(m.get("tool_calls") or ())) for m in told[1:]] == [("assistant", 1), ("tool", 0)] * 3
    assert [m["content"] for m in told[2::2]] == ["r0", "r1", "r2"]
    assert "".join(m["content"] or "" for m in told[1::2]) == "So."


def test_a_switch_without_a_value_is_left_out_of_the_template_s_arguments() -> None:
    format = inferred(REASONING["off unless an effort is named"][0]).format
    engine = engine_for(format)
    off = compose(Parts(reasoning_effort="none"), tokens=engine.tokens, format=format)
    low = compose(Parts(reasoning_effort="low"), tokens=engine.tokens, format=format)
    assert dict(off.template_kwargs) == {}
    assert dict(low.template_kwargs) == {"reasoning_effort": "low"}


# -- the order of evidence


def test_the_vocabulary_knows_markers_that_the_template_does_not() -> None:
    added = (AddedToken(0, "<think>", False), AddedToken(1, "</think>", False))
    tokens = SpecialTokens(TokenizerFacts(added, 2, chat_template=NO_TOOLS))
    found = infer(template_renderer(NO_TOOLS), tokens, template=NO_TOOLS)
    assert not found.format.reasoning.default_on
    assert dict(found.format.evidence)["reasoning"] == "vocabulary"


def test_a_family_that_says_how_calls_are_written_leaves_nothing_to_warn_of() -> None:
    (smollm2,) = (family for family in families() if family.id == "smollm2")
    for match, noted in ((smollm2.signature, False), (smollm2.signature[:1], True)):
        added = tuple(AddedToken(i, text, True) for i, text in enumerate(match))
        tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=NO_TOOLS))
        found = infer(template_renderer(NO_TOOLS), tokens, template=NO_TOOLS)
        assert bool(found.call_notes) == noted


def test_an_inference_is_kept_by_template_and_tokens() -> None:
    first, _ = inference_of_template(READABLE["other keys"])
    again, _ = inference_of_template(READABLE["other keys"])
    assert again is first
    assert inference_of_template(READABLE["other keys"] + " ")[0] is not first


def test_a_format_survives_being_written_as_json() -> None:
    for name in READABLE:
        format = inferred(READABLE[name]).format
        assert format_from_data(json.loads(json.dumps(format.to_json()))) == format


# -- families are data

GOLDENS = sorted((ROOT / "tests" / "families").glob("*.json"))
NEW_FAMILY = """
id = "made_up"
ends = ["<|over|>"]
[match]
tokens = ["<|over|>", "<|ask|>"]
[format.tool_calls]
syntax = "name_then_json"
call_start = "<|ask|>"
call_end = "<|asked|>"
max_calls = 1
options = { call = "$name($arguments)" }
[format.ends]
content = ["<|over|>"]
"""
NEW_GOLDEN = {
    "text": 'Let me see.<|ask|>tool_qa8({"karg0": "x", "karg1": 1})<|asked|>',
    "content": "Let me see.",
    "calls": [["tool_qa8", {"karg0": "x", "karg1": 1}]],
}


def stands(format: Format, golden: dict[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with the golden text under this format."""
    calls = tuple(Call(name, arguments) for name, arguments in golden.get("calls", ()))
    golden = GoldenText(
        golden["text"], golden.get("entry", "fresh"), golden.get("reasoning", ""), golden.get("content", ""), calls
    )
    return check_golden_texts(format, [golden], engine_for(format))


def test_every_family_has_a_golden_file_and_the_other_way_round() -> None:
    assert [path.stem for path in GOLDENS] == sorted(family.id for family in families())


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_a_family_s_own_data_write_and_read_its_golden_texts(path: Path) -> None:
    family = next(family for family in families() if family.id == path.stem)
    format = format_of_family(family)
    if format.tool_calls is None:
        format = replace(format, tool_calls=DESCRIBED_CALLS)
    for golden in json.loads(path.read_text(encoding="utf-8")):
        if "ends" in golden:
            assert sorted({*format.ends.content, *format.ends.calls}) == sorted(golden["ends"])
        else:
            assert stands(format, golden) == ()


def test_adding_a_family_takes_a_data_file_and_a_golden_text() -> None:
    format = format_of_family(load_family(NEW_FAMILY, place="made_up.toml"))
    assert stands(format, NEW_GOLDEN) == ()
    assert stands(format, NEW_GOLDEN | {"text": NEW_GOLDEN["text"] + "x"})
    added = tuple(AddedToken(i, text, True) for i, text in enumerate(("<|over|>", "<|ask|>", "<|asked|>")))
    plan = compose(Parts(tools=[{"name": "f"}]), tokens=SpecialTokens(TokenizerFacts(added, 3)), format=format)
    assert "<[1]>" in plan.lark


def test_no_code_names_a_family() -> None:
    """Names of families and vendors stand in data files alone (docstrings may mention them)."""
    names = re.compile(
        r"(?i)qwen|llama|mistral|gemma|deepseek|kimi|glm|cohere|granite|hermes|nemotron|phi-?\d|harmony|gpt"
    )
    allowed = {"gemma", "harmony", "Gemma", "Harmony"}  # two syntaxes
    for room in ("grammars/formats", "grammars/tool_calls", "guided"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not names.search(text):
                continue
            tree = ast.parse(text)
            docs = {id(node.body[0].value) for node in ast.walk(tree) if _has_doc(node)}  # type: ignore[attr-defined]
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                    assert not names.search(node.value) or node.value in allowed, (path, node.value)


def _has_doc(node: ast.AST) -> bool:
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
        return False
    return isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str)
