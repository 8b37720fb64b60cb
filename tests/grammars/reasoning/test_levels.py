"""R1 to R14: levels, presets, templates, prompts that opened or closed the block; every level ends."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.plan import Plan
from grammars.prompt.describe import describe_plan
from grammars.reasoning.levels import ALIASES, LEVELS, NATIVE_BUDGETS
from grammars.reasoning.template import SHIPPED
from grammars.values.constraints import Choice, Lark
from grammars.values.format import EffortSwitch, Ends, Format, ReasoningFormat, Switch
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.rows.answer import read_answer
from guided.state.entry import begin_of
from guided.state.state import GuidanceState
from special_tokens.errors import GrammarError, RequestError
from tests.cases import seeds
from tests.conftest import small_engine
from tests.grammars.compose.test_matrix import CLOSERS, PHASES, TEXT_CLOSERS
from tests.judges.plans import END, FORMAT, THINKING, accepts, plan_of, walk, write_to_the_end

THINK, ANSWER = "<think>\n", "\n</think>\n\nok" + END


def structured(engine: Engine, effort: str, format: Format = FORMAT, **parts: Any) -> Plan:
    return plan_of(engine, format, reasoning_effort=effort, reasoning_preset="structured", **parts)


def next_texts(engine: Engine, plan: Plan, text: str) -> set[bytes]:
    """The bytes of every token allowed after ``text``."""
    state = GuidanceState(plan, engine)
    state.commit(engine.tokenize(text))
    mask = allocate_bitmask(1, engine.vocab_size)
    state.fill_bitmask(mask)
    return {engine.token_bytes(i) for i in allowed_ids(mask[0])}


# -- R1: the field


@pytest.mark.parametrize("level", [*LEVELS, *ALIASES])
@pytest.mark.parametrize("spell", [str, str.upper, str.title, lambda s: f" {s} "])
def test_R1_every_level_in_every_case(engine: Engine, level: str, spell: Any):
    plan = plan_of(engine, reasoning_effort=spell(level))
    assert plan.reasoning.effort == ALIASES.get(level, level)
    assert plan.reasoning.applied == (level != "none")


UNKNOWN = "reasoning_effort: unknown level .*; expected none, minimal, low, medium"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        *(({"reasoning_effort": level}, UNKNOWN) for level in ("lots", "", "lowest", "custom", "hi gh")),
        ({"reasoning_effort": 5}, "5 is not a level"),
        *(({"reasoning_preset": name}, "unknown preset .*; expected native or structured") for name in ("loose", "")),
    ],
    ids=str,
)
def test_R1_an_unknown_level_or_preset_names_the_known_ones(engine: Engine, parts: dict[str, Any], message: str):
    with pytest.raises(RequestError, match=message):
        plan_of(engine, **parts)


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "chain_of_thought"])
def test_R1_native_levels_are_budgets(engine: Engine, level: str):
    plan = plan_of(engine, reasoning_effort=level)
    budget = NATIVE_BUDGETS[level]
    assert [b.max_tokens for b in plan.budgets] == ([] if budget in (0, None) else [budget])
    assert not plan_of(engine, reasoning_effort=level, max_tokens=1 + (budget or 0)).notes


# -- R2 to R5: the levels


@pytest.mark.parametrize(("level", "most"), [("minimal", 75), ("low", 150)])
def test_R2_low_is_one_line_of_150_characters_and_minimal_of_half_of_it(engine: Engine, level: str, most: int):
    plan = structured(engine, level)
    assert accepts(plan, engine, THINK + "x" * most + ANSWER)
    assert accepts(plan, engine, THINK + "x" + ANSWER)
    assert next_texts(engine, plan, THINK + "好" * most) == {b"\n"}
    assert not accepts(plan, engine, THINK + "好" * (most + 1) + ANSWER)
    assert not accepts(plan, engine, THINK + "two\nlines" + ANSWER)
    assert not accepts(plan, engine, THINK.rstrip() + "</think>\n\nok" + END)


@pytest.mark.parametrize("mark", [".", "!", "?", "…", "。", "！", "？", "।", "؟", "۔", "։", "።", "។", "။"])
def test_R3_medium_is_sentences_that_end_in_every_script(engine: Engine, mark: str):
    plan = structured(engine, "medium")
    assert accepts(plan, engine, f"{THINK}Eins zwei{mark}{ANSWER}")
    assert accepts(plan, engine, f"{THINK}一{mark}二{mark}{mark}{mark} 三{mark}{ANSWER}")
    assert not accepts(plan, engine, f"{THINK}Eins zwei{mark} drei{ANSWER}")
    assert not accepts(plan, engine, f"{THINK}{mark}{ANSWER}")


def test_R3_a_model_that_never_stops_is_made_to(engine: Engine):
    plan = structured(engine, "medium")
    ends = set(".!?")
    assert {t.decode()[:1] for t in next_texts(engine, plan, THINK + "x" * 200) if t.isascii()} <= ends
    assert next_texts(engine, plan, THINK + ("x" * 200 + ".") * 8) <= {b"\n", b".", b"!", b"?", *NON_ASCII_STARTS}
    assert not accepts(plan, engine, THINK + "x." * 9 + ANSWER)
    assert accepts(plan, engine, THINK + ("x" * 200 + "...") * 8 + ANSWER)


NON_ASCII_STARTS = {bytes([b]) for b in range(0xC2, 0xF5)}


def test_R4_high_has_its_phases_once_each_in_order_and_closed(engine: Engine):
    plan = structured(engine, "high")
    assert accepts(plan, engine, THINK + PHASES["high"] + ANSWER)
    assert next_texts(engine, plan, THINK) == {b"<"}
    for skipped in (
        "<ANALYZE>\nx\n</ANALYZE>\n<STRUCTUREDANSWER>", "<CRITIQUE>\n", "<ANALYZE>\nx\n</ANALYZE>\n</think>",
        "<ANALYZE>\nx</think>", "<ANALYZE>\n\n</ANALYZE>\n", "<ANALYZE>\nx <CRITIQUE> y", "<ANALYZE>\n</CRITIQUE>",
        "<ANALYZE>\na <ANALYZE>",
    ):  # fmt: skip
        assert walk(plan, engine, THINK + skipped).refused_at is not None, skipped
    assert accepts(plan, engine, THINK + PHASES["high"].replace("Really.", "</p> <analyze> x < y </b>") + ANSWER)


@pytest.mark.parametrize(("level", "most"), [("high", 2400), ("xhigh", 4800), ("max", 4800)])
def test_R4_limits_are_characters(engine: Engine, level: str, most: int):
    plan = structured(engine, level)
    long = PHASES["high"].replace("Really.", "é" * (most - len("It is <b>bold</b>.\n\n")))
    assert accepts(plan, engine, THINK + long + ANSWER)
    assert not accepts(plan, engine, THINK + long.replace("éé", "ééé", 1) + ANSWER)


def test_R5_chain_of_thought_has_its_phases_in_order(engine: Engine):
    for preset in ("native", "structured"):
        plan = plan_of(engine, reasoning_effort="cot", reasoning_preset=preset)
        assert accepts(plan, engine, THINK + PHASES["chain_of_thought"] + ANSWER)
        for wrong in (
            "<VERIFY>", "<DRAFT>\nx\n</DRAFT>\n<CRITIQUE>", "<DRAFT>\nx\n</DRAFT>\n<VERIFY>\nA: y",
            "<DRAFT>\nx\n</DRAFT>\n<VERIFY>\n</VERIFY>", "<DRAFT>\nx\n</DRAFT>\n<VERIFY>\nQ: a\n</VERIFY>",
        ):  # fmt: skip
            assert walk(plan, engine, THINK + wrong).refused_at is not None, wrong


# -- R6: custom templates


CUSTOM = r'custom:start: $START_ID "\n" thought{1,3} $END_ID "\n"' + "\n" + r'thought: "- " /[^\n]{1,40}/ "\n"'


def test_R6_a_custom_template_uses_the_real_markers(engine: Engine):
    plan = plan_of(engine, reasoning_effort=CUSTOM)
    start, end = engine.tokens.id_of("<think>"), engine.tokens.id_of("</think>")
    assert f"<[{start}]>" in plan.lark
    assert f"<[{end}]>" in plan.lark
    assert accepts(plan, engine, "<think>\n- 一\n- two\n</think>\nok" + END)
    assert not accepts(plan, engine, "<think>\n</think>\nok" + END)
    assert accepts(plan, engine, "- one\n</think>\nok" + END, "inside")
    assert accepts(plan, engine, "\n- one\n</think>\nok" + END, "inside")
    assert accepts(plan, engine, "ok" + END, "after")
    assert plan.reasoning.effort == CUSTOM


def test_R6_the_case_of_a_template_is_kept(engine: Engine):
    template = 'CUSTOM:reasoning_block: <[$START_ID]> "ABC" XYZ{2} <[$END_ID]>\nXYZ: "Xyz"'
    plan = plan_of(engine, reasoning_effort=template)
    assert accepts(plan, engine, "<think>ABCXyzXyz</think>ok" + END)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "the grammar is empty"),
        ('start: $START_ID "a" $END_ID\nfoo bar', "line 2, column 5: unexpected 'bar'; expected ':'"),
        ("start: $START_ID 'a' $END_ID", 'line 1, column 18: unexpected "\'"'),
        ('start: $START_ID "a" $STOP_ID', r"line 1, column 22: there is no role \$STOP_ID; expected \$END_ID"),
        ('start: $START_ID x $END_ID\nx: "a" x', "line 2, column 1: the rule 'x' can never end"),
        ('start: $START_ID x $END_ID\nx: /(?s:.*)/ "!"', "line 2, column 4: .* can never end"),
        ('start: "a" $END_ID', "line 1, column 1: a template begins with the opening marker"),
        ('start: $START_ID "a"', "line 1, column 1: a template ends with the closing marker"),
        ('start: $START_ID "a" | "b" $END_ID', "a template begins with the opening marker"),
        ("start: $START_ID $END_ID", "there is nothing between the markers"),
        ('start: $START_ID a $END_ID\na: "x" $END_ID', r"line 2, column 8: \$END_ID occurs inside the block"),
        ('start: $START_ID <|im_start|> "a" $END_ID', r"line 1, column 18: <\|im_start\|> writes a token"),
        ('start: $START_ID @other $END_ID', "line 1, column 18: @other references another grammar"),
        ('start: $START_ID b $END_ID', "line 1, column 18: 'b' is not defined"),
        ('begin: $START_ID "a" $END_ID', "there is no rule called start"),
    ],
)  # fmt: skip
def test_R6_a_bad_template_is_refused_with_its_place(engine: Engine, template: str, message: str):
    with pytest.raises(GrammarError, match=f"reasoning_effort.*{message}"):
        plan_of(engine, reasoning_effort=f"custom:{template}")


def test_R6_a_template_that_cannot_end_is_named_in_its_own_words_where_markers_are_text(plain_engine: Engine):
    format = replace(FORMAT, tool_calls=None)
    template = 'custom:start: $START_ID x $END_ID\nx: /(?s:.*)/ "!"'
    with pytest.raises(GrammarError, match=r"reasoning_effort line 2, column 4: /.*/ can never end"):
        plan_of(plain_engine, format, reasoning_effort=template)


# -- R7, R8: every level ends, in every script


FRAMINGS = [
    ReasoningFormat("<think>\n", "\n</think>\n\n"),
    ReasoningFormat("<think>", "</think>"),
    ReasoningFormat("[THINK]", "[/THINK]"),
    ReasoningFormat("<|channel>thought\n", "\n<channel|>"),
    ReasoningFormat("Here are my steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
]


@pytest.mark.parametrize("form", FRAMINGS, ids=lambda form: form.start.strip())
@pytest.mark.parametrize("as_tokens", [True, False], ids=["tokens", "text"])
@pytest.mark.parametrize("seed", seeds(2, default=1))
def test_R7_every_level_ends_under_every_framing(form: ReasoningFormat, as_tokens: bool, seed: int):
    words = (form.start.strip(), form.end.strip())
    markers = (END, *(w for w in words if as_tokens and " " not in w))
    engine = small_engine(markers, special=markers)
    format = Format("framed", form, ends=Ends((END,)))
    closers = (*TEXT_CLOSERS, form.end, form.end.strip())
    for level in [*SHIPPED, CUSTOM]:
        plan = structured(engine, level, format, response_format=Choice(["x"]))
        rng = random.Random(f"{level} {seed}")
        written = write_to_the_end(plan, engine, rng, wander=rng.choice([5, 80]), closers=closers)
        text = b"".join(map(engine.token_bytes, written)).decode("utf-8", "replace")
        assert text.count(words[1]) == 1, text
        assert read_answer(written, plan, engine).content == "x", text


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("gemma3", "deepseek_v4", "mistral")]


@pytest.mark.parametrize("name", ["qwen3", *SLOW])
def test_R7_every_level_ends_on_real_tokenizers(real_engine: Any, name: str):
    engine = real_engine(name)
    pair = ("[THINK]", "[/THINK]") if name == "mistral" else ("<think>", "</think>")
    form = ReasoningFormat(f"{pair[0]}\n", f"\n{pair[1]}\n\n")
    format = Format(name, form, ends=Ends(tuple(end.text for end in engine.tokens.ends)))
    for level in ("low", "medium", "high", "chain_of_thought"):
        plan = structured(engine, level, format, response_format=Choice(["x"]))
        rng = random.Random(f"{name} {level}")
        closers = (*CLOSERS, f"\n{pair[1]}")
        written = write_to_the_end(plan, engine, rng, wander=8, closers=closers, most=400)
        assert written[-1] in plan.end_ids()


SCRIPTS = {
    "Latin": "Der schnelle Fuchs",
    "Chinese": "我们先想一想这个问题",
    "Japanese": "まず考えます",
    "Korean": "생각해 봅시다",
    "Arabic": "دعنا نفكر",
    "Hebrew": "בוא נחשוב",
    "Hindi": "आइए सोचें",
    "Tamil": "யோசிப்போம்",
    "Thai": "ลองคิดดู",
    "Russian": "Подумаем",
    "Greek": "Ας σκεφτούμε",
    "Georgian": "მოდი ვიფიქროთ",
    "Amharic": "እስቲ እናስብ",
    "Emoji": "🤔👩\u200d👩\u200d👧\u200d👦🇩🇪",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_R8_every_script_thinks_under_every_level(engine: Engine, script: str):
    thought = SCRIPTS[script]
    for level, phases in {
        "low": thought, "medium": f"{thought}. {thought}。", "high": PHASES["high"].replace("Really.", thought),
        "chain_of_thought": PHASES["chain_of_thought"].replace("Sure?", thought),
    }.items():  # fmt: skip
        plan = structured(engine, level)
        assert accepts(plan, engine, THINK + phases + ANSWER), level
        native = plan_of(engine, reasoning_effort=level)
        assert accepts(native, engine, THINK + phases + ANSWER) or level == "chain_of_thought"


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("level", ["minimal", "low", "medium", "high"])
def test_R8_a_thought_of_any_script_can_be_ended_wherever_it_stands(engine: Engine, script: str, level: str):
    """From every place inside a thought, characters cut in the middle included, some way leads to the end."""
    plan = structured(engine, level, response_format=Choice(["x"]))
    opening = THINK + ("<ANALYZE>\n" if level == "high" else "")
    state = GuidanceState(plan, engine)
    state.commit(engine.tokenize(opening))
    for token in engine.tokenize(SCRIPTS[script]):
        state.commit([token])
        finish(state.fork(), engine, level)


def finish(state: GuidanceState, engine: Engine, level: str) -> None:
    """Ends the thought at once: the rest of a character, a sentence end, the phases, the marker, the answer."""
    mask = allocate_bitmask(1, engine.vocab_size)
    for _ in range(4):
        state.fill_bitmask(mask)
        rest = [i for i in allowed_ids(mask[0]) if 0x80 <= engine.token_bytes(i)[0] < 0xC0]
        if not rest:
            break
        state.commit(rest[:1])
    phases = "\n</ANALYZE>\n<CRITIQUE>\nx\n</CRITIQUE>\n<STRUCTUREDANSWER>\nx\n</STRUCTUREDANSWER>"
    end = {"medium": ".", "high": phases}.get(level, "")
    for token in engine.tokenize(f"{end}\n</think>\n\nx{END}"):
        state.fill_bitmask(mask)
        assert token in allowed_ids(mask[0]), engine.token_bytes(token)
        state.commit([token])
    assert state.is_stopped


# -- R9: models without markers; R10 is the style "text" of the matrix


def test_R9_without_markers_the_answer_is_still_constrained(plain_engine: Engine):
    format = Format("llama-like", ends=Ends((END,)))
    plan = plan_of(plain_engine, format, reasoning_effort="high", response_format=Choice(["a", "b"]))
    assert not plan.reasoning.applied
    assert len(plan.notes) == 1
    assert "reasoning_effort='high' has no effect" in plan.notes[0]
    assert accepts(plan, plain_engine, "a" + END)
    assert not accepts(plan, plain_engine, "c" + END)
    assert "<[0]>" not in plan.lark


# -- R11, R12: the prompt and the template's switch


@pytest.mark.parametrize("preset", ["native", "structured"])
@pytest.mark.parametrize(
    ("prompt", "entry", "answer"),
    [
        ("<|im_start|>assistant\n", "fresh", THINK + "One line." + ANSWER),
        ("<|im_start|>assistant\n<think>\n", "inside", "One line." + ANSWER),
        ("<|im_start|>assistant\n<think>", "inside", "\nOne line." + ANSWER),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "after", "ok" + END),
        ("<think>\nolder\n</think>\n\nx<|im_end|>\n<|im_start|>assistant\n", "fresh", THINK + "One line." + ANSWER),
    ],
)
def test_R11_the_block_is_not_opened_twice(engine: Engine, preset: str, prompt: str, entry: str, answer: str):
    plan = plan_of(engine, reasoning_effort="low", reasoning_preset=preset)
    begin = begin_of(plan, engine.tokenize(prompt), engine)
    assert begin.entry == entry
    assert accepts(plan, engine, answer, entry)
    text = prompt.rsplit("<|im_start|>", 1)[-1] + answer
    assert text.count("<think>") == 1
    if entry != "fresh":
        assert not accepts(plan, engine, THINK + "One line." + ANSWER, entry)


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max", "chain_of_thought", CUSTOM])
def test_R12_an_effort_turns_the_templates_switch_on(engine: Engine, effort: str):
    for preset in ("native", "structured"):
        plan = plan_of(engine, reasoning_effort=effort, reasoning_preset=preset)
        assert dict(plan.template_kwargs) == {"enable_thinking": True}


def test_R12_explicit_thinking_wins(engine: Engine):
    off = plan_of(engine, reasoning_effort="high", thinking=False)
    assert dict(off.template_kwargs) == {"enable_thinking": False}
    assert not accepts(off, engine, THINK + "x" + ANSWER)
    on = plan_of(engine, reasoning_effort="none", thinking=True)
    assert dict(on.template_kwargs) == {"enable_thinking": True}
    assert accepts(on, engine, THINK + "x" + ANSWER)
    assert dict(plan_of(engine, reasoning_effort="none").template_kwargs) == {"enable_thinking": False}
    assert plan_of(engine).template_kwargs == ()


@pytest.mark.parametrize(
    ("effort", "expected"),
    [("low", "low"), ("minimal", "low"), ("max", "high"), ("xhigh", "high"), ("cot", "high"), ("medium", "medium")],
)
def test_R12_a_templates_effort_argument_gets_its_nearest_value(engine: Engine, effort: str, expected: str):
    switch = EffortSwitch("reasoning_effort", ("low", "medium", "high"))
    form = replace(THINKING, switch=Switch("thinking"), effort_switch=switch)
    plan = plan_of(engine, replace(FORMAT, reasoning=form), reasoning_effort=effort)
    assert dict(plan.template_kwargs) == {"thinking": True, "reasoning_effort": expected}


# -- R13, R14: the reply


@pytest.mark.parametrize("level", ["native", "low", "medium", "high", "chain_of_thought"])
def test_R13_reasoning_is_read_back_apart_from_the_answer(engine: Engine, level: str):
    plan = plan_of(engine, reasoning_effort="high") if level == "native" else structured(engine, level)
    ids = engine.tokenize(THINK + PHASES[level] + ANSWER)
    message = read_answer(ids, plan, engine)
    assert (message.reasoning, message.content) == (PHASES[level], "ok")
    assert message.usage.reasoning_tokens == ids.index(engine.tokens.id_of("</think>")) - 1


@pytest.mark.parametrize("effort", ["low", "high", "cot"])
@pytest.mark.parametrize("preset", ["native", "structured"])
def test_R14_an_answer_must_follow_the_block(engine: Engine, effort: str, preset: str):
    plan = plan_of(engine, reasoning_effort=effort, reasoning_preset=preset)
    thoughts = THINK + PHASES["chain_of_thought" if effort == "cot" else effort]
    for empty in ("", "\n", " \n\t "):
        assert not accepts(plan, engine, thoughts + "\n</think>\n\n" + empty + END)
    assert accepts(plan, engine, thoughts + "\n</think>\n\n x " + END)


def test_the_model_is_told_of_a_grammar_and_of_reasoning(engine: Engine):
    plan = plan_of(engine, response_format=Lark('start: "a"'), reasoning_effort="low")
    assert 'Lark grammar and nothing else:\nstart: "a"' in describe_plan(plan)
