"""The law of fits: an answer that ends within its budget is the model's own, whatever the budget."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any, NamedTuple

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Format
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from guided.inspect.format_check import engine_for
from guided.landing.row_landing import row_landing
from guided.rows.sequence import RowSequence
from guided.state.entry import Begin
from special_tokens.errors import GuidedError
from tests.made_up.tokenizers import small_tokenizer, small_tokens
from tests.shared_templates import shared_inference, template_names

TEXT = {"type": "string"}
EMAIL, TIME, UUID = ({"type": "string", "format": name} for name in ("email", "date-time", "uuid"))


def shape(**members: Any) -> dict[str, Any]:
    """An object; members whose names end with ``_`` are optional."""
    required = [name for name in members if not name.endswith("_")]
    properties = {name.strip("_"): schema for name, schema in members.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def kind(name: str, **members: Any) -> dict[str, Any]:
    return shape(kind={"const": name}, **members)


STEPS = {"anyOf": [kind("click", x={"type": "integer"}, y={"type": "integer"}), kind("type", text=TEXT, at=TIME),
                   kind("wait", until=TIME, id=UUID)]}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {
    "search_web": shape(q=TEXT),
    "read_file": shape(path=TEXT, limit_={"type": "integer", "minimum": 1}),
    "send_email": shape(to=EMAIL, subject=TEXT, body=TEXT, cc_={"type": "array", "items": EMAIL}),
    "book_room": shape(where=TEXT, begin=TIME, end_=TIME, id_=UUID),
    "set_mode": shape(mode={"enum": ["off", "slow and careful", "fast"]}, level={"type": "number"}),
    "do_steps": shape(steps={"type": "array", "items": STEPS, "minItems": 1}),
    "get_user": shape(id=UUID, fields_={"type": "array", "items": {"enum": ["name", "email", "created_at"]}}),
    "draw": shape(at={"anyOf": [shape(x={"type": "integer"}, y={"type": "integer"}), shape(name=TEXT, near=TEXT)]},
                  color_={"type": "string", "pattern": "^#[0-9a-f]{6}$"}),
}  # fmt: skip
#: Words, and runs of marks, as the tokens of real vocabularies are.
PIECES = (
    " the", " a", " is", " to", " and", " at", " with", " about", " ok", "ing", "tion", "ent", "ed", "er", "on",
    "al", "st", "true", "false", "null", '{"', '":', ' "', '",', '"}', '"}}', ' {"', " [", "}}", "\n\n", "think",
    "name", "arguments", " meeting", " tide", " tables", "meeting", "example", ".org", ".com", "tool", "_call",
    "function", "parameter", "</", ">\n", "search", "_web", "send", "_email", "email", "read", "_file", "book",
    "_room", "set", "_mode", "do", "_steps", "get", "_user", "draw", "off", "slow", "careful", "fast", "kind",
    "steps", "click", "type", "wait", "until", "subject", "body", "where", "begin", "end", "text", "path", "limit",
    "fields", "created", "_at", "color", "near", "level", "mode", "answer", "yes", "no", "who", "aa", "aaaa",
    "aaaaaaaa",
)  # fmt: skip
WORDS_OF_TEXT = ("a", "meeting", "with Ada", "about the tide tables", "naïve", "x < y", "at 9:30", "2026", "ok.")


def value(schema: Any, chance: random.Random) -> Any:
    """A random value of a schema, as a model would write one."""
    if "anyOf" in schema:
        return value(chance.choice(schema["anyOf"]), chance)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else chance.choice(schema["enum"])
    if schema["type"] == "object":
        needed = schema["required"]
        some = [name for name in schema["properties"] if name in needed or chance.random() < 0.6]
        return {name: value(schema["properties"][name], chance) for name in some}
    if schema["type"] == "array":
        return [value(schema["items"], chance) for _ in range(chance.randint(schema.get("minItems", 0), 3))]
    if schema["type"] == "integer":
        return chance.choice([1, 7, 40, 1200])
    if schema["type"] == "number":
        return chance.choice([0.5, 3, 12.25])
    match schema.get("format"):
        case "email":
            return chance.choice(["ada@example.org", "b.c@example.com", "grace.hopper@navy.example.org"])
        case "date-time":
            return chance.choice(["2026-03-01T09:30:00Z", "2026-11-27T23:59:59.125+02:00"])
        case "uuid":
            return chance.choice(["0b6f3f6e-8c2e-4f4e-9f6a-3a1d5c7e9b10", "a3bb189e-8bf9-3888-9912-ace4e6543002"])
    if "pattern" in schema:
        return f"#{chance.randrange(1 << 24):06x}"
    return " ".join(chance.sample(WORDS_OF_TEXT, chance.randint(1, 3)))


class OwnAnswer(NamedTuple):
    plan: Plan
    engine: Engine
    begin: Begin
    tokens: list[int]
    reasons: bool  #: whether a part of the answer is reasoning


@lru_cache
def engine_of(name: str, as_text: bool) -> tuple[Format, Engine]:
    """A format and an engine whose markers are tokens, or ``as_text``: all but the ends are text."""
    format = shared_inference(name).format
    ends = (*format.ends.content, *format.ends.calls)
    added = () if as_text else (token.text for token in engine_for(format).tokens.facts.added)
    markers = tuple(dict.fromkeys((*added, *ends)))
    text = small_tokenizer(markers, words=PIECES, special=markers)
    return format, Engine(text, small_tokens(text, eos=ends))


def case(name: str, as_text: bool, mode: str, chance: random.Random) -> OwnAnswer | None:
    """A random plan of a template and an answer under it; None if no text is the plan's."""
    format, engine = engine_of(name, as_text)
    calling, reasoning = format.tool_calls, format.reasoning
    if calling is None or (mode == "reason" and reasoning is None):
        return None
    some = chance.sample(list(SCHEMAS), 3)
    tools = {tool: Tool(tool, parameters=SCHEMAS[tool]) for tool in some}
    chosen = chance.choice(some)
    thinking = mode == "reason" if reasoning is not None else None
    asked: dict[str, Any] = {"tools": list(tools.values()), "tool_choice": "required", "thinking": thinking}
    match mode:
        case "named":
            asked["tool_choice"] = {"type": "function", "function": {"name": chosen}}
        case "auto" | "text":
            asked["tool_choice"] = "auto"
        case "format":
            asked |= {"tool_choice": "auto", "response_format": shape(answer={"enum": ["yes", "no"]}, who=EMAIL)}
        case "json":
            asked = {"thinking": thinking, "response_format": SCHEMAS[chosen]}
    try:
        plan = compose(Parts(**asked), tokens=engine.tokens, format=format)
    except GuidedError:
        return None
    calls = [Call(chosen, value(SCHEMAS[chosen], chance), "call00001")]
    if mode == "auto" and calling.max_calls != 1 and chance.random() < 0.4:
        other = chance.choice(some)
        calls.append(Call(other, value(SCHEMAS[other], chance), "call00002"))
    if mode in ("json", "text"):
        text = json.dumps(calls[0].arguments, ensure_ascii=False)
        text = text if mode == "json" else " ".join(chance.choices(WORDS_OF_TEXT, k=8))
        written = [format.content.start + text + format.content.end, text]
    else:
        try:
            text = syntax(calling.syntax).render(calling, calls, tools)
        except GuidedError:  # a syntax that cannot write the value
            return None
        # from bare to framed: one of these the plan lets the model write
        leads = ("", calling.gap_without_text, format.content.opening, format.content.start)
        written = [lead + text for lead in leads]
    if reasoning is not None and mode == "reason":
        thought = " ".join(chance.choices(WORDS_OF_TEXT, k=10))
        written = [begun + thought + reasoning.end + text for text in written for begun in (reasoning.start, "")]
    elif reasoning is not None:
        written = [*written, *(reasoning.empty + text for text in written)]
    for text in written:
        for end in (*format.ends.calls, *format.ends.content):
            for entry in plan.entries:
                begin = Begin(entry.name)
                tokens = [*engine.tokenize(text), *engine.tokenize(end)]
                row = RowSequence(plan, engine, begin=begin)
                row.extend(tokens)
                if row.error is None and row.is_done and row.num_tokens == len(tokens):
                    return OwnAnswer(plan, engine, begin, tokens, mode == "reason")
    return None


def reserve_of(found: OwnAnswer) -> int:
    """The most that reasoning leaves for the values after it."""
    control = row_landing(found.plan, found.engine, found.begin, 100_000).control
    return control.reserve if control is not None else 0


def refused(found: OwnAnswer, most: int) -> int | None:
    """The index of the first token of the answer that landing refuses under a budget; None if there is none."""
    row = RowSequence(
        found.plan, found.engine, begin=found.begin, landing=row_landing(found.plan, found.engine, found.begin, most)
    )
    for at, token in enumerate(found.tokens):
        if row.is_landing():
            assert row.landing is not None
            if not row.lands(token, row.landing.step_effort()):
                return at
        row.extend([token])
    return None


MODES = ("required", "auto", "named", "format", "reason", "json", "text")


#: The default run takes each template once, in turn with markers as tokens and as text, and every second mode; all are
#: 27,440 answers.
CASES = [
    pytest.param(name, as_text, seed, marks=pytest.mark.slow if seed or (number % 2 == 1) != as_text else ())
    for number, name in enumerate(template_names())
    for as_text in (False, True)
    for seed in range(7)
]


@pytest.mark.parametrize(("name", "as_text", "seed"), CASES)
def test_an_answer_that_fits_is_the_models_own(name: str, as_text: bool, seed: int) -> None:
    chance = random.Random(f"{name} {as_text} {seed}")
    num = 0
    for mode in MODES if seed else MODES[template_names().index(name) % 2 :: 2]:
        found = case(name, as_text, mode, chance)
        if found is None:
            continue
        size = len(found.tokens)
        for most in (*(size + extra for extra in (0, 1, 2, 5, 20)), 2 * size, 3 * size, 5 * size):
            at = refused(found, most + (reserve_of(found) if found.reasons else 0))
            if at is not None:
                text = b"".join(map(found.engine.token_bytes, found.tokens))
                pytest.fail(f"{mode}: {most - size} more than {size} tokens: token {at} of {text!r} is refused")
            num += 1
    assert num
