"""C1: every combination compiles, accepts its golden text, refuses mutants and ends.

Every golden text is put together here by hand, from the wire format and the constraint's own meaning; none comes
from the grammar under test.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jsonschema
import pytest

from grammars.plan.plan import Plan
from grammars.values.constraints import Choice, Gbnf, Lark, Llguidance, Regex, StructuralTag
from guided.engine.engine import Engine
from tests.conftest import SPECIAL
from tests.judges.plans import FORMAT, accepts, plan_of, walk, write_to_the_end
from tests.made_up.schemas import closed
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens
from tests.made_up.wire_forms import FORMS

SCHEMA = closed({"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}})
LARK = 'start: greeting "!"\ngreeting: "hi" | "hello" " " NAME\nNAME: /[a-z]{1,8}/'
GBNF = 'root ::= "(" root ")" | [0-9]{1,3}'


def _is_gbnf(text: str) -> bool:
    while text[:1] == "(" and text[-1:] == ")":
        text = text[1:-1]
    return re.fullmatch(r"[0-9]{1,3}", text) is not None


def _is_json(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(value) and text == json.dumps(value, ensure_ascii=False)


IS_TAGGED = re.compile(r"<v>-?(?:0|[1-9][0-9]{0,63})</v>").fullmatch


@dataclass(frozen=True)
class Constraint:
    """A response format, a text of it, and an independent judge of texts."""

    response_format: Any
    golden: str
    judge: Any


OPTIONS = ["yes", "no", 'maybe "so"']
GRAMMARS = [{"lark_grammar": 'start: "<v>" %json {"type": "integer"} "</v>"'}]
CONSTRAINTS = {
    "none": Constraint(None, "Hello <b>, 你好 {\"a\"}", lambda text: True),
    "choice": Constraint(Choice(OPTIONS), OPTIONS[2], OPTIONS.__contains__),
    "regex": Constraint(Regex(r"[A-Z]{2}-[0-9]{3}"), "QX-042", re.compile(r"[A-Z]{2}-[0-9]{3}").fullmatch),
    "json": Constraint(SCHEMA, '{"name": "Zoë \\"Q\\"", "age": 41}', _is_json),
    "lark": Constraint(Lark(LARK), "hello ann!", re.compile("(?:hi|hello [a-z]{1,8})!").fullmatch),
    "gbnf": Constraint(Gbnf(GBNF), "((042))", _is_gbnf),
    "structural_tag": Constraint(StructuralTag({"tag": "v", "schema": {"type": "integer"}}), "<v>-12</v>", IS_TAGGED),
    "llguidance": Constraint(Llguidance({"grammars": GRAMMARS}), "<v>7</v>", IS_TAGGED),
}  # fmt: skip

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"],
    }}},
    {"type": "function", "function": {"name": "stop_it", "parameters": {"type": "object", "properties": {}}}},
]  # fmt: skip
WEATHER = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "東京", "days": 2}}\n</tool_call>'
STOP_IT = '<tool_call>\n{"name": "stop_it", "arguments": {}}\n</tool_call>'
#: The same calls in the syntax that writes arguments one by one.
XML = {
    WEATHER: "<tool_call>\n<function=get_weather>\n<parameter=city>\n東京\n</parameter>\n<parameter=days>\n2\n"
    "</parameter>\n</function>\n</tool_call>",
    STOP_IT: "<tool_call>\n<function=stop_it>\n</function>\n</tool_call>",
}

#: name -> request parts, the calls that may be written, may an answer be written instead
CHOICES: dict[str, tuple[dict[str, Any], tuple[str, ...], bool]] = {
    "no tools": ({}, (), True),
    "optional": ({"tools": TOOLS}, (WEATHER, STOP_IT, f"{WEATHER}\n{STOP_IT}"), True),
    "required": ({"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": True},
                 (WEATHER, f"{STOP_IT}\n{WEATHER}"), False),
    "forced": (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "stop_it"}}}, (STOP_IT,), False
    ),
    "single": ({"tools": TOOLS, "parallel_tool_calls": False}, (WEATHER,), True),
}  # fmt: skip

PHASES = {
    "native": "The user said 你好.\n\nA <b> & a {brace}?",
    "low": "One line, 一行 with <b>.",
    "medium": "First a sentence. 然后是第二句。 And?!",
    "high": (
        "<ANALYZE>\nIt is <b>bold</b>.\n\nReally.\n</ANALYZE>\n<CRITIQUE>\n也许不是\n</CRITIQUE>\n"
        "<STRUCTUREDANSWER>\n1. yes\n</STRUCTUREDANSWER>"
    ),
    "chain_of_thought": (
        "<DRAFT>\nA draft 草稿.\n</DRAFT>\n<VERIFY>\nQ: Is it so?\nA: 是的\nQ: Sure?\nA: Yes.\n</VERIFY>\n"
        "<CRITIQUE>\nNone.\n</CRITIQUE>\n<FINAL_ANSWER>\nIt is.\n</FINAL_ANSWER>"
    ),
}
CLOSERS = (
    "\n", ".", "\n</ANALYZE>\n", "\n</CRITIQUE>\n", "\n</STRUCTUREDANSWER>", "\n</DRAFT>\n", "\n</FINAL_ANSWER>",
    "Q: a\nA: b\n", "</VERIFY>\n", "</v>", '"', "1", "\n</parameter>\n",
)  # fmt: skip
#: Where markers are text, these leave text as well.
TEXT_CLOSERS = (*CLOSERS, "</think>", "\n</think>\n\n", "</tool_call>")

#: (effort, preset, golden thoughts); None: no block is written, or an empty one
EFFORTS = [
    (None, "native", PHASES["native"]),
    ("none", "native", None),
    *((level, "native", PHASES["native"]) for level in ("low", "medium", "high")),
    *((level, "structured", PHASES[level]) for level in ("low", "medium", "high", "chain_of_thought")),
]
TAILS = ("fresh", "inside", "after")
ENDS = (("<|im_end|>",), ("<|im_end|>", "<|endoftext|>"))
#: Markers as tokens or as text, calls as JSON or as XML.
STYLES = ("json", "text", "xml")
FORMATS = {
    "json": FORMAT,
    "text": FORMAT,
    "xml": replace(FORMAT, tool_calls=replace(FORMS["xml"], gap="\n")),
}


@dataclass(frozen=True)
class Variant:
    constraint: str
    choice: str
    effort: tuple[str | None, str, str | None]
    tail: str
    ends: tuple[str, ...]
    style: str = "json"

    def __str__(self) -> str:
        effort, preset, _ = self.effort
        how = f"{effort or 'absent'} {preset}"
        return f"{self.constraint}, {self.choice}, {how}, {self.tail}, {len(self.ends)} ends, {self.style}"


ALL = [Variant(*parts) for parts in itertools.product(CONSTRAINTS, CHOICES, EFFORTS, TAILS, ENDS, STYLES)]
#: Every constraint with every choice and every effort; the other styles with what they can change.  Tails and numbers
#: of ends take turns.
SOME = [
    Variant(constraint, choice, effort, TAILS[i % 3], ENDS[(i // 3) % 2], style)
    for i, (constraint, choice, effort, style) in (
        *enumerate(itertools.product(CONSTRAINTS, CHOICES, EFFORTS, ("json",))),
        *enumerate(itertools.product(("none", "json"), CHOICES, EFFORTS[::4], ("text", "xml"))),
    )
]


@cache
def engine_with(ends: tuple[str, ...], *, markers_are_tokens: bool) -> Engine:
    text = small_tokenizer(MARKERS if markers_are_tokens else SPECIAL, special=SPECIAL)
    return Engine(text, small_tokens(text, eos=ends))


def opening_of(variant: Variant) -> str:
    """Return the text before the answer, given how the prompt ended."""
    thoughts = variant.effort[2]
    if variant.tail == "after":
        return ""
    block = f"<think>\n{thoughts}\n</think>\n\n" if thoughts is not None else "<think>\n\n</think>\n\n"
    return block if variant.tail == "fresh" else block.removeprefix("<think>\n")


def check(variant: Variant, *, num_mutants: int) -> None:
    """Check one variant with at most ``num_mutants`` changed answers of each kind."""
    engine = engine_with(variant.ends, markers_are_tokens=variant.style != "text")
    constraint = CONSTRAINTS[variant.constraint]
    choice, calls, may_answer = CHOICES[variant.choice]
    effort, preset, _ = variant.effort
    plan = plan_of(
        engine,
        FORMATS[variant.style],
        response_format=constraint.response_format,
        reasoning_effort=effort,
        reasoning_preset=preset,
        **choice,
    )
    if variant.style == "xml":
        calls = tuple(call.replace(WEATHER, XML[WEATHER]).replace(STOP_IT, XML[STOP_IT]) for call in calls)
    assert plan.entry(variant.tail).name == variant.tail
    rng = random.Random(str(variant))
    opening = opening_of(variant)
    answers = [*calls, *([constraint.golden] if may_answer else [])]
    for answer in answers:
        for end in variant.ends:
            found = walk(plan, engine, opening + answer + end, variant.tail)
            assert found.is_whole, (str(variant), answer, found)
        refuse_mutants(plan, engine, variant, opening, answer, rng, num_mutants)
    if not may_answer:
        assert not accepts(plan, engine, opening + constraint.golden + variant.ends[0], variant.tail)
    closers = TEXT_CLOSERS if variant.style == "text" else CLOSERS
    written = write_to_the_end(plan, engine, rng, entry=variant.tail, closers=closers)
    assert written[-1] in plan.end_ids()


def refuse_mutants(
    plan: Plan, engine: Engine, variant: Variant, opening: str, answer: str, rng: random.Random, most: int
) -> None:
    """One unit changed: a control token in each region, a wrong end, an end too early, a wrong character."""
    ids = engine.tokenize(opening + answer + variant.ends[0])
    control = engine.tokens.id_of("<|im_start|>")
    assert control is not None
    in_opening = len(engine.tokenize(opening))
    places = {0, rng.randrange(len(ids)), in_opening, len(ids) - 2, len(ids) - 1}
    places |= {rng.randrange(in_opening)} if in_opening else set()
    for place in rng.sample(sorted(places), min(most, len(places))):
        mutant = [*ids[:place], control, *ids[place + 1 :]]
        assert not accepts(plan, engine, mutant, variant.tail), ("control token", place)
    if variant.tail == "fresh" and variant.effort[0] is not None and opening:
        assert not accepts(plan, engine, answer + variant.ends[0], variant.tail), "the block was skipped"
    if opening and variant.effort[0] is not None:
        cut = opening.removesuffix("</think>\n\n")
        assert not accepts(plan, engine, cut + answer + variant.ends[0], variant.tail), "the block was not closed"
        assert not accepts(plan, engine, cut + variant.ends[0], variant.tail), "ended inside the block"
        if variant.effort[2] is not None:
            assert not accepts(plan, engine, opening + variant.ends[0], variant.tail), "nothing after the block"
    mutants = mutants_of(variant, answer, rng)
    for mutant in rng.sample(mutants, min(most, len(mutants))):
        assert not accepts(plan, engine, opening + mutant + variant.ends[0], variant.tail), mutant


def mutants_of(variant: Variant, answer: str, rng: random.Random) -> list[str]:
    """Answers with one character changed, dropped or doubled that an independent judge calls wrong."""
    constraint = CONSTRAINTS[variant.constraint]
    if answer in (WEATHER, STOP_IT):
        wrong = ["get_weather", "stop_it", '"arguments"', '"name"', "{}", '"city"']
        found = [answer.replace(word, word[:-2] + "zz" + word[-1:], 1) for word in wrong if word in answer]
        return [*found, answer.removesuffix("</tool_call>"), answer.replace("}\n", "\n")]
    if answer != constraint.golden or variant.constraint == "none":
        return []
    out = []
    for _ in range(6):
        at = rng.randrange(len(answer))
        changed = rng.choice([
            answer[:at] + rng.choice('xQ7"{ ') + answer[at + 1 :], answer[:at] + answer[at + 1 :],
            answer[: at + 1] + answer[at:],
        ])  # fmt: skip
        if not constraint.judge(changed):
            out.append(changed)
    return out


def test_C1_there_are_enough_variants():
    assert len(SOME) >= 348
    assert len({str(variant) for variant in ALL}) == len(ALL) == 6480


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "whole"])
def test_C1_C3_R10_matrix(constraint: str, choice: str, whole: bool):
    for variant in ALL if whole else SOME:
        if (variant.constraint, variant.choice) == (constraint, choice):
            check(variant, num_mutants=10 if whole else 2)
