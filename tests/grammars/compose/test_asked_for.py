"""Whatever a model likes to write, it writes what was asked for: random walks, judged by a table written by hand."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.constraints import Choice, Lark, Regex
from grammars.values.format import Ends, Format
from guided.engine.engine import Engine
from guided.inspect.format_check import engine_for
from guided.output.message import Message
from guided.output.parser import ContentDelta, OutputParser, ToolCallEnd, ToolCallStart
from guided.rows.answer import read_answer
from guided.rows.sequence import RowSequence
from guided.state.entry import Begin
from tests.guided.output.test_cut_answers import REAL
from tests.judges.plans import THINKING, write_to_the_end
from tests.made_up.schemas import closed
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference, template_names

#: Walks of each row of the table: in the default run, and in the slow one for templates and for made-up formats.
FEW, MANY, SOME_MORE = 1, 50, 20


@dataclass(frozen=True)
class RequestedAnswer:
    """The answers that a request allows: ``content`` is free text, an instance of the format or nothing; calls, and of
    which tools.

    ``both``: content and calls may stand in one answer.  ``called`` is the finish reason of calls.
    """

    content: str
    calls: range
    tools: tuple[str, ...] = ("get_weather", "now")
    both: bool = False
    called: str = "tool_calls"


SOME = range(1, 100)
#: (tool_choice, response format asked for) -> what any answer is
TABLE: dict[tuple[str, bool], RequestedAnswer] = {
    ("none", False): RequestedAnswer("text", range(1)),
    ("none", True): RequestedAnswer("format", range(1)),
    ("auto", False): RequestedAnswer("text", range(100), both=True),
    ("auto", True): RequestedAnswer("format", range(100)),
    ("required", False): RequestedAnswer("nothing", SOME),
    ("required", True): RequestedAnswer("nothing", SOME),
    ("get_weather", False): RequestedAnswer("nothing", SOME, ("get_weather",), called="stop"),
    ("now", True): RequestedAnswer("nothing", SOME, ("now",), called="stop"),
    ("auto of get_weather", False): RequestedAnswer("text", range(100), ("get_weather",), both=True),
    ("required of now", True): RequestedAnswer("nothing", SOME, ("now",)),
}
#: what a request may ask for as a format -> the pattern of what it allows; "" for a JSON schema, which is its own judge
FORMATS: list[tuple[Any, str]] = [
    (Regex("[0-9]{1,3}"), "[0-9]{1,3}"),
    (Choice(["yes", "{no}", "<no>"]), "yes|[{]no[}]|<no>"),
    (Lark('start: "a" start | "b"'), "a*b"),
]

CITY = closed(
    {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}}, optional=["days"]
)
NONE: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [{"name": "get_weather", "parameters": CITY}, {"name": "now", "parameters": NONE}]
SCHEMAS = {"get_weather": CITY, "now": NONE}
ANSWER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def parts_of(choice: str, has_format: bool, rng: random.Random) -> tuple[dict[str, Any], str]:
    """The drawn parts of a request, and the pattern of its format if that is not a JSON schema."""
    mode, _, name = choice.rpartition(" of ")
    named = {"type": "function", "function": {"name": name}}
    tool_choice: Any = named if name in SCHEMAS else choice
    if mode:
        tool_choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named]}}
    response_format, pattern = rng.choice([*FORMATS, (ANSWER, "")]) if has_format else (None, "")
    return {
        "tools": TOOLS,
        "tool_choice": tool_choice,
        "response_format": response_format,
        "reasoning_effort": rng.choice([None, "none", "minimal", "low", "medium", "max"]),
        "parallel_tool_calls": rng.random() < 0.7,
    }, pattern


def troubles(
    format: Format, row: tuple[str, bool], walks: int, seed: int, engine: Engine | None = None
) -> Iterator[str]:
    """Yield what random answers do against the table."""
    rng, engine, asked = random.Random(f"{seed} {row}"), engine or engine_for(format), TABLE[row]
    for number in range(walks):
        parts, pattern = parts_of(*row, rng)
        plan = compose(Parts(**parts), tokens=engine.tokens, format=format)
        openers = syntax(format.tool_calls.syntax).triggers(format.tool_calls, plan.tools) if plan.tools else ()
        closers = [format.reasoning.end.strip()] if format.reasoning is not None else []
        closers += [part.strip() for part in (format.content.lead_end, format.content.end) if part.strip()]
        entry = rng.choice(plan.entries).name
        ids = write_to_the_end(plan, engine, rng, entry=entry, wander=40, closers=closers, openers=openers)
        for wrong in _wrong(plan, engine, ids, entry, asked, parts, pattern):
            text = b"".join(map(engine.token_bytes, ids)).decode("utf-8", "replace")
            yield f"walk {number} of {parts}: {wrong}: {text!r}"


def _wrong(
    plan: Plan, engine: Engine, ids: list[int], entry: str, asked: RequestedAnswer, parts: dict[str, Any], pattern: str
) -> Iterator[str]:
    begin, row = Begin(entry), RowSequence(plan, engine, begin=Begin(entry))
    row.extend(ids)
    message = read_answer(ids, plan, engine, begin=begin, sequence=row)
    alone = read_answer(ids, plan, engine, begin=begin)
    if (alone.content, len(alone.tool_calls)) != (message.content, len(message.tool_calls)):
        yield f"without its row it reads as {alone.content!r} and {len(alone.tool_calls)} calls"
    content = message.content or ""
    if message.error is not None or message.unfinished is not None or message.violations:
        yield f"{message.error} {message.unfinished} {message.violations}"
    if len(message.tool_calls) not in asked.calls:
        yield f"{len(message.tool_calls)} calls"
    if len(message.tool_calls) > 1 and not parts["parallel_tool_calls"]:
        yield "calls at once"
    for call in message.tool_calls:
        if call.name not in asked.tools or not _is_valid(call.parsed, SCHEMAS[call.name]):
            yield f"the call {call.name} {call.arguments}"
    if message.finish_reason != (asked.called if message.tool_calls else "stop"):
        yield f"finish_reason={message.finish_reason}"
    if content.strip() and message.tool_calls and not asked.both:
        yield "content next to calls"
    if content.strip() and asked.content == "nothing":
        yield "content"
    if asked.content == "format" and not message.tool_calls and not _is_answer(content, pattern):
        yield "not the format"
    yield from _order(plan, engine, ids, entry)
    written = b"".join(map(engine.token_bytes, ids)).decode("utf-8", "replace")
    yield from _thought(plan, message, written, entry, parts["reasoning_effort"])


def _is_valid(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def _is_answer(content: str, pattern: str) -> bool:
    if pattern:
        return re.fullmatch(pattern, content) is not None
    try:
        return _is_valid(json.loads(content), ANSWER)
    except ValueError:
        return False


def _order(plan: Plan, engine: Engine, ids: list[int], entry: str) -> Iterator[str]:
    """Text after calls only where the family writes it."""
    parser, begun = OutputParser(plan, engine, entry=entry), 0
    body = ids[:-1] if ids and ids[-1] in plan.end_ids() else ids
    form = plan.format.tool_calls
    for event in [*parser.feed(body), *parser.finish()]:
        begun += isinstance(event, ToolCallStart | ToolCallEnd)
        said = isinstance(event, ContentDelta) and event.text.strip()
        if said and begun and not (form is not None and form.text_after):
            yield "text after calls"


def _thought(plan: Plan, message: Message, written: str, entry: str, effort: str | None) -> Iterator[str]:
    """Reasoning where effort asks for it, none where it asks for none; a prompt may have opened the block."""
    form = plan.format.reasoning
    if form is None or entry != "fresh":
        return
    if effort == "none" and (message.reasoning or "").strip() not in form.empty:  # a family's own text for it
        yield f"reasoning {message.reasoning!r}"
    if effort not in (None, "none") and not written.lstrip().startswith(form.start.strip()):
        yield "no reasoning"


def rows_of(name: str, walks: int) -> list[tuple[str, bool]]:
    """The rows of the table, in the default run half of them, at random."""
    return random.Random(name).sample(list(TABLE), len(TABLE) if walks > FEW else len(TABLE) // 2)


@pytest.mark.parametrize("walks", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", template_names())
def test_C2_T1_a_random_model_of_a_family_writes_only_what_is_asked(name: str, walks: int) -> None:
    format = shared_inference(name).format
    assert [wrong for row in rows_of(name, walks) for wrong in troubles(format, row, walks, walks)][:3] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_C2_T1_with_the_real_tokenizer(real_engine: Callable[[str], Engine], name: str) -> None:
    format, engine = shared_inference(name).format, real_engine(REAL[name])
    assert [wrong for row in TABLE for wrong in troubles(format, row, 5, 1, engine)][:3] == []


@pytest.mark.parametrize("walks", [FEW, pytest.param(SOME_MORE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMS)
def test_C2_T1_a_random_model_of_a_made_up_format_writes_only_what_is_asked(name: str, walks: int) -> None:
    format = Format("made up", THINKING, tool_calls=FORMS[name], ends=Ends(("<|im_end|>",)))
    assert [wrong for row in rows_of(name, walks) for wrong in troubles(format, row, walks, walks)][:3] == []
