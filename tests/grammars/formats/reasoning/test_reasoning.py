"""Reasoning switches, openings, markers and ends are inferred correctly from made-up templates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.golden_texts import prompts
from grammars.formats.infer import Inference, completed, infer
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.values.format import PARTS, Format, Switch
from guided.hf.model.renderers import NO_NAMES, template_renderer
from guided.inspect.format_check import check_golden_texts, engine_for, verified
from guided.state.entry import Begin, begin_of
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts, families
from special_tokens.errors import TemplateError
from tests.grammars.formats.test_infer import inferred
from tests.made_up.reasoning_templates import ANSWERS, OPENED, SWITCHES, UNTELLABLE
from tests.made_up.templates import READABLE, REASONING, thinking, turns


def unchecked(template: str) -> tuple[Inference, SpecialTokens]:
    tokens = SpecialTokens(TokenizerFacts((), 0, named=NO_NAMES, chat_template=template))
    return infer(template_renderer(template), tokens, template=template), tokens


def begun(template: str, format: Format, **asked: Any) -> Begin:
    """Return where a plan begins after the prompt that the template renders with the plan's arguments."""
    engine = engine_for(format)
    plan = compose(Parts(**asked), tokens=engine.tokens, format=format)
    render = template_renderer(template)
    prompt = render([{"role": "user", "content": "Hi"}], add_generation_prompt=True, **dict(plan.template_kwargs))
    return begin_of(plan, engine.tokenize(prompt), engine)


# -- switches


@pytest.mark.parametrize("name", SWITCHES)
def test_what_opens_and_what_closes_is_read_off_the_prompt(name: str) -> None:
    template, switch, default_on = SWITCHES[name]
    found = inferred(template)
    form = found.format.reasoning
    assert (form.switch and (form.switch.name, form.switch.on, form.switch.off)) == switch
    assert form.default_on is default_on
    assert not any("cross-check" in note for note in found.notes)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_plan_begins_where_its_own_switch_leaves_the_prompt(name: str) -> None:
    template, switch, default_on = SWITCHES[name]
    format = inferred(template).format
    assert begun(template, format, thinking=True).entry in ("inside", "fresh")
    off = begun(template, format, thinking=False).entry
    assert off == "after" if switch is not None else off == "inside"
    assert (begun(template, format).entry in ("inside", "fresh")) or not default_on


def test_levels_of_a_template_s_own_take_the_place_of_the_usual_ones() -> None:
    template, *_ = SWITCHES["words of its own through two other names"]
    format = inferred(template).format
    assert format.reasoning.effort_switch.values == ("brief", "plain", "deep")
    engine = engine_for(format)
    given = {
        level: dict(compose(Parts(reasoning_effort=level), tokens=engine.tokens, format=format).template_kwargs)
        for level in ("none", "low", "medium", "high", "max")
    }
    assert [kwargs["reasoning_effort"] for kwargs in given.values()] == ["mute", "brief", "plain", "deep", "deep"]


def test_an_argument_that_only_tells_the_model_is_no_switch_where_the_prompt_opens_the_block_anyway() -> None:
    template = SWITCHES["nothing opens or closes the block"][0].replace(
        "{{ '' if muse_budget else '' }}", "{% if thinking_style == 'slow' %}Slowly.{% endif %}"
    )
    form = inferred(template).format.reasoning
    assert form.switch is None
    assert form.default_on


def test_a_negative_name_that_only_tells_the_model_is_read_in_its_sense() -> None:
    said = "{% if disable_thinking %}((system))Answer at once.((/)){% endif %}"
    template = said + thinking("{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}", "")
    form = inferred(template).format.reasoning
    assert form.switch == Switch("disable_thinking", False, True)
    assert form.default_on


# -- the check of switches


def wrong(**changes: Any) -> tuple[Inference, SpecialTokens]:
    template = SWITCHES["the name says no, and the prompt opens otherwise"][0]
    found, tokens = unchecked(template)
    format = replace(found.format, reasoning=replace(found.format.reasoning, **changes))
    shown = tuple(prompts(Renderings(template_renderer(template)), Probe(), format))
    return replace(found, format=format, prompts=shown), tokens


@pytest.mark.parametrize(
    "changes",
    [
        {"switch": Switch("no_muse_think", True, False)},
        {"switch": Switch("some_other", True, False)},
        {"prompt_on": "<muse>"},
        {"prompt_off": ""},
    ],
    ids=["reversed", "without effect", "prompt on", "prompt off"],
)
def test_a_switch_whose_rendering_disagrees_is_dropped_and_said(changes: dict[str, Any]) -> None:
    found = verified(*wrong(**changes))
    form = found.format.reasoning
    assert form.switch is None
    assert form.prompt_off == ""
    assert form.default_on
    assert any("cross-check failed" in note and "switch" in note for note in found.notes)


def test_a_default_that_the_prompt_contradicts_is_corrected_and_said() -> None:
    found = verified(*wrong(default_on=False))
    form = found.format.reasoning
    assert form.default_on
    assert form.switch == Switch("no_muse_think", False, True)
    assert any("cross-check failed" in note and "default" in note for note in found.notes)


# -- a prompt that opens the block with more than its marker


@pytest.mark.parametrize("name", OPENED)
def test_a_block_that_the_prompt_opens_with_an_attribute_is_known_as_open(name: str) -> None:
    template, pattern = OPENED[name]
    found = inferred(template)
    form = found.format.reasoning
    assert form.opened_by == pattern
    assert form.default_on
    assert form.switch is None
    for asked in ({}, {"thinking": True}, {"reasoning_effort": "none"}, {"reasoning_effort": "high"}):
        assert begun(template, found.format, **asked).entry == "inside", asked
    assert check_golden_texts(found.format, found.golden_texts, engine_for(found.format)) == ()


def test_an_attribute_that_only_an_argument_asks_for_is_a_switch_and_an_opening() -> None:
    opening = '{% if muse_budget and muse_budget > 0 %}<muse budget="{{ muse_budget }}">\n{% endif %}'
    template = OPENED["an attribute that never changes"][0].replace('<muse kind="long">\n', opening)
    format = inferred(template).format
    assert format.reasoning.opened_by == '<muse budget="$value">'
    assert format.reasoning.switch == Switch("muse_budget", 512, None)
    assert begun(template, format, thinking=True).entry == "inside"
    assert begun(template, format, thinking=False).entry == "fresh"


def test_an_attribute_with_another_value_is_still_the_opening() -> None:
    template, _ = OPENED["an attribute that an argument fills"]
    format = inferred(template).format
    engine = engine_for(format)
    plan = compose(Parts(), tokens=engine.tokens, format=format)
    user = [{"role": "user", "content": 'What is <muse budget="7">?'}]
    prompt = template_renderer(template)(user, add_generation_prompt=True, thinking_budget=77777)
    assert begin_of(plan, engine.tokenize(prompt), engine) == Begin("inside", ends_at_marker=False)
    assert begin_of(plan, engine.tokenize(prompt.rstrip("\n")), engine) == Begin("inside", ends_at_marker=True)
    assert begin_of(plan, engine.tokenize(prompt + "\n</muse>\n"), engine).entry == "after"
    assert begin_of(plan, engine.tokenize(prompt.split("((assistant))")[0] + "((assistant))"), engine).entry == "fresh"


# -- parts that do not stand the check


@pytest.mark.parametrize("name", UNTELLABLE)
def test_reasoning_whose_end_cannot_be_told_gives_way_to_the_next_evidence(name: str) -> None:
    template, start = UNTELLABLE[name]
    found = inferred(template)
    assert found.format.reasoning is None
    assert found.format.content.start == start
    assert found.format.ends.content == ("<|over|>",)
    assert check_golden_texts(found.format, found.golden_texts, engine_for(found.format)) == ()


def test_a_framing_that_the_check_refuses_is_dropped_and_the_rest_kept() -> None:
    template = turns(
        "{% for c in m.tool_calls or [] %}<do>{{ c.function.name }}:{{ c.function.arguments | tojson }}</do>"
        "{% endfor %}"
    ).replace(
        "[[assistant]]{{ m.content or '' }}",
        "[[assistant]]{% if m.reasoning_content %}<r>{{ m.reasoning_content | upper }}{{ m.reasoning_content }}"
        "</r>{% elif m.content %}<r>-{% endif %}{{ m.content or '' }}",
    )
    found = inferred(template)
    assert found.format.reasoning is None or found.format.reasoning.start != "<r>"
    assert dict(found.format.evidence)["tool_calls"] == "rendering"
    assert any("cross-check failed" in note for note in found.notes)
    assert any("reasoning" in note for note in found.notes)


@pytest.mark.parametrize("name", ANSWERS)
def test_frames_of_answers_and_ends_of_turns_are_read(name: str) -> None:
    template, frame, ends, ends_of_calls = ANSWERS[name]
    found = inferred(template)
    content = found.format.content
    assert (content.start, content.end, content.lead_start, content.lead_end) == frame
    assert found.format.ends.content == ends
    assert found.format.ends.calls == ends_of_calls
    assert not any("cross-check" in note for note in found.notes)
    assert check_golden_texts(found.format, found.golden_texts, engine_for(found.format)) == ()
    if "tool_calls" in template:
        assert dict(found.format.evidence)["tool_calls"] == "rendering"
        assert found.notes == ()
        assert any(golden.calls and (golden.content or not frame[2]) for golden in found.golden_texts)


def test_a_frame_read_next_to_calls_that_fall_back_goes_with_them() -> None:
    template, *_ = ANSWERS["the call has a key in front of the name"]
    found = inferred(template.replace("arguments | tojson", "arguments | tojson | replace('null', 'nil')"))
    assert dict(found.format.evidence)["tool_calls"] == "fallback"
    assert found.format.content.start == "<say>\n"
    assert found.format.content.lead_start == found.format.content.lead_end == ""


# -- what is said


def test_the_place_of_an_error_is_named_once() -> None:
    with pytest.raises(TemplateError) as caught:
        inferred("{{ raise_exception('not today') }}")
    assert str(caught.value).count("chat_template") == 1


# -- evidence, part by part


@pytest.mark.parametrize(
    "template", [*READABLE.values(), *(row[0] for row in (*ANSWERS.values(), *REASONING.values()))]
)
def test_every_part_that_says_something_has_its_evidence(template: str) -> None:
    found = inferred(template).format
    known = dict(found.evidence)
    plain = Format("inferred")
    for part in PARTS:
        assert bool(known.get(part)) or getattr(found, part) == getattr(plain, part), part


def test_evidence_names_what_showed_a_part() -> None:
    template, *_ = SWITCHES["the name says no, and the prompt opens otherwise"]
    known = dict(inferred(template).format.evidence)
    assert known == {
        "inputs": "rendering, fallback",
        "reasoning": "rendering",
        "ends": "rendering",
        "tool_calls": "fallback",
    }
    other = dict(inferred(READABLE["other keys"]).format.evidence)
    assert other == {"inputs": "rendering", "tool_calls": "rendering", "ends": "rendering"}


def test_a_part_that_family_data_complete_names_both() -> None:
    template = READABLE["other keys"]
    format = replace(inferred(template).format, tool_calls=None)
    (kimi,) = (family for family in families() if family.id == "kimi_k2_thinking")
    added = tuple(AddedToken(i, text, True) for i, text in enumerate(kimi.signature))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template="".join(kimi.template_has)))
    known = dict(completed(format, tokens).format.evidence)
    assert known["ends"] == "rendering, family kimi_k2_thinking"
    assert known["reasoning"] == "family kimi_k2_thinking"
