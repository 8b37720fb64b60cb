#!/usr/bin/env python3
"""Benchmark: guidance must not change a valid answer that a real model writes without guidance.

    python benchmarks/harmless_model.py                     # embedded model, five minutes on two idle cores
    python benchmarks/harmless_model.py --limit 24          # at most 24 requests of each kind
    python benchmarks/harmless_model.py --model NAME_OR_FOLDER --json out.json

Each request is answered twice by greedy search from the same prompt: freely, by plain ``generate``, and under its plan.
A free answer is *valid* if it ended and independent judges (``json``, ``jsonschema``) accept it.

Kinds
  plain text            a plan without a format; every answer is valid
  extraction            a sentence, two examples in the chat, a schema
  extraction, indented  the same with examples in indented JSON, which our masks do not allow
  function call, auto   ``bfcl-eval`` if it is installed; text is as valid an answer as a call
  function call, must   the same with ``tool_choice="required"``
  call, examples        the same with other numbers, after two requests that were answered by calls of another function
                        and of this one: a small model makes no calls without examples; ``auto`` and ``required``

Columns
  valid        free answers that are valid
  calls        of these, answers that call a function
  unchanged    of the valid ones, answers that are the same under guidance, token by token; the others are listed
  overridden   steps of the guided answers at which the model's first choice was masked, and their share
  causes       the cause of the first mask that forbids each free answer, valid or not

The exit code is 1 if a valid answer changes for a cause that is not in `EXPLAINED`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import guided  # noqa: E402
from guided.bitmask import allowed_ids  # noqa: E402
from guided.hf.generate.call import generate_kwargs, read_messages  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.rows.answer import read_answer  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402

if TYPE_CHECKING:
    from tool_calls import CallCase

__all__ = ["EXPLAINED", "ModelAnswer", "ModelRequest", "answer", "requests"]

#: Cause -> why guidance changes an answer that a judge accepts.
EXPLAINED = {
    "code fence": "the answer is the JSON text itself, so that `content` parses; a fence is text around it",
    "prose before the answer": "as a code fence",
    "text before the answer": "the answer ends with its value",
    "white space": "one spelling of white space, the one models were trained on; `schema_policy` has the wide one",
}

PLAIN = (
    "Why is the sky blue?", "Write a short poem about the sea.", "Name three rivers of Europe.",
    "What is the capital of France?", "How do I boil an egg?", "Tell me a joke.", "What is 12 plus 30?",
    "Write a Python function that reverses a string.", "Translate 'good morning' into Spanish.",
    "Give me a list of five fruits.", "Who wrote Hamlet?", "Explain gravity to a child.",
    "Write an email that declines an invitation.", "What does HTML stand for? Show a small example.",
    "Summarize the story of Cinderella.", "Is a tomato a fruit?", "Write a haiku about snow.",
    "What is the largest planet?", "Show me a JSON example.", "How many legs has a spider?",
    "Make a Markdown table of two cats.", "What is 2**10?", "Say hello in three languages.", "What is a prime number?",
)  # fmt: skip
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "price": {"type": "number"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
EXTRACTION = (
    *((PERSON, text) for text in (
        "Alice is 31 years old.", "Bob turned 45 last week.", "My name is Carol and I am 27.", "Dan, aged 62, is here.",
        "Eva will be 19 in May; she is 18 now.", "Frank is a baker. He is 50.", "Grace (33) won the race.",
        "Hugo is 8 and likes trains.", "Ida, who is 90, lives alone.", "Jon is 22.", "Kim just had her 40th birthday.",
        "The pilot, Lara, is 36 years old.",
    )),
    *((TRIP, text) for text in (
        "Three days in Rome for 450 euros.", "We spent 7 days in Oslo.", "A week in Lima costs 899.99.",
        "Two days in Bern, 120 francs.", "Ten days in Kyoto for 2300 dollars.", "One day in Pisa.",
        "Five days in Cairo, 610 in total.", "Madrid, 4 days, 380 euros.", "A trip of 6 days to Athens.",
        "Stay 14 days in Bali for 1500.", "Paris for 2 days.", "9 days in Quebec, 1,240.50 dollars.",
    )),
)  # fmt: skip


#: The examples before the question of an extraction.
PERSONS = (("Mia is 12.", {"name": "Mia", "age": 12}), ("Here comes Otto, 71.", {"name": "Otto", "age": 71}))
TRIPS = (
    ("Eight days in Wien for 640.", {"city": "Wien", "days": 8, "price": 640}),
    ("Split, 3 days.", {"city": "Split", "days": 3}),
)


@dataclass(frozen=True)
class ModelRequest:
    """One request: the messages, the plan's parts, and what a judge checks in the answer."""

    kind: str
    chat: Any
    parts: dict[str, Any]
    schema: dict[str, Any] | None = None


@dataclass
class ModelAnswer:
    """The answers to one request, free and under guidance."""

    request: ModelRequest
    free: str
    is_valid: bool
    is_unchanged: bool
    is_call: bool = False
    cause: str = ""  #: of the first mask that forbids the free answer; "" if none does
    place: str = ""
    steps: int = 0
    overridden: int = 0


@dataclass
class KindCounts:
    """One line of the table."""

    kind: str
    requests: int = 0
    valid: int = 0
    calls: int = 0
    unchanged: int = 0
    steps: int = 0
    overridden: int = 0
    causes: Counter[str] = field(default_factory=Counter)


def requests(limit: int) -> Iterator[ModelRequest]:
    """Return at most ``limit`` requests of each kind."""
    for chat in PLAIN[:limit]:
        yield ModelRequest("plain text", chat, {})
    for kind, indent in (("extraction", None), ("extraction, indented", 2)):
        for schema, text in EXTRACTION[:: max(1, len(EXTRACTION) // limit)][:limit]:
            yield ModelRequest(kind, _with_examples(schema, text, indent), {"response_format": schema}, schema)
    if importlib.util.find_spec("bfcl_eval") is None:
        print("bfcl-eval is not installed: function calls are left out", file=sys.stderr)
        return
    from tool_calls import load_cases

    for kind, choice in (("function call, auto", "auto"), ("function call, must", "required")):
        for case in load_cases("simple_python", limit):
            yield ModelRequest(kind, case.messages, {"tools": [case.tool], "tool_choice": choice})
    for kind, choice in (("call, examples, auto", "auto"), ("call, examples, must", "required")):
        yield from islice(_with_calls(load_cases("simple_python", 2 * limit + 20), kind, choice), limit)


def _with_calls(cases: Sequence[CallCase], kind: str, choice: str) -> Iterator[ModelRequest]:
    """Return requests after two that were answered by the right calls, of another function and of this one."""
    for other, case in pairwise(cases):
        tools = [other.tool, case.tool]
        if other.tool["function"]["name"] != case.tool["function"]["name"]:
            chat = [*other.messages, _called(other), *case.messages, _called(case), *_varied(case.messages)]
            yield ModelRequest(kind, chat, {"tools": tools, "tool_choice": choice})


def _varied(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same question with other numbers."""
    digits = re.compile(r"\d+")
    return [m | {"content": digits.sub(lambda found: str(int(found.group()) + 1), m["content"])} for m in messages]


def _called(case: CallCase) -> dict[str, Any]:
    """Return the data set's answer to a case as the assistant's message."""
    ((name, arguments),) = case.answer.items()
    given = {key: values[0] for key, values in arguments.items() if values and values[0] != ""}
    function = {"name": name, "arguments": json.dumps(given)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }


def _with_examples(schema: dict[str, Any], text: str, indent: int | None) -> list[dict[str, str]]:
    """Return a chat with two example answers in the desired JSON layout, and the question."""
    known = PERSONS if schema is PERSON else TRIPS
    chat = []
    for question, value in known:
        spelled = json.dumps(value, indent=indent)
        chat += [{"role": "user", "content": question}, {"role": "assistant", "content": spelled}]
    return [*chat, {"role": "user", "content": text}]


def answer(guide: guided.Guide, batch: Sequence[ModelRequest], max_tokens: int) -> list[ModelAnswer]:
    """Return both answers to every request of a batch."""
    plans = [guide.plan(**request.parts) for request in batch]
    describe = "tools" in batch[0].parts  # extraction has examples, which the schema's text would outweigh
    inputs = checked_inputs(guide.context, [request.chat for request in batch], plans, describe=describe)
    options = {"max_new_tokens": max_tokens, "do_sample": False}
    free = inputs.generated(guide.model.generate(**inputs, **options))
    out = guide.model.generate(**inputs, **options, **generate_kwargs(guide.context, inputs, plans))
    results = []
    for r, message in enumerate(read_messages(guide.context, out, inputs, plans)):
        alone = read_answer(free[r], plans[r], guide.engine, begin=inputs.begins[r])
        tokens = alone.token_ids
        cause, place = first_override(guide, plans[r], inputs.begins[r].entry, tokens)
        results.append(
            ModelAnswer(
                batch[r],
                guide.tokenizer.decode(tokens, skip_special_tokens=True),
                _is_valid(batch[r], alone),
                tokens == message.token_ids,
                bool(alone.tool_calls),
                cause,
                place,
                message.guidance.masks,
                message.guidance.overridden,
            )
        )
    return results


def _is_valid(request: ModelRequest, message: guided.Message) -> bool:
    """Whether `json` and `jsonschema` accept the free answer."""
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.parts.get("tools", ())}
    asked = [(message.content or "", request.schema or True)]
    if tools:
        asked = [(call.arguments, tools.get(call.name, False)) for call in message.tool_calls]
    if request.kind == "plain text" or (not asked and request.parts["tool_choice"] == "auto"):
        return True
    if message.finish_reason == "length" or not asked:
        return False
    try:
        for text, schema in asked:
            jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def first_override(guide: guided.Guide, plan: Any, entry: str, tokens: Sequence[int]) -> tuple[str, str]:
    """Return the cause and the position of the first mask that forbids ``tokens``; ("", "") if none does."""
    state = GuidanceState(plan, guide.engine, entry=entry)
    for i, token in enumerate(tokens):
        if state.is_stopped:
            break
        if not state.allows(token):
            before, text, ahead = (
                b"".join(map(guide.engine.token_bytes, part)).decode("utf-8", "replace")
                for part in (tokens[:i], [token], tokens[i + 1 :])
            )
            if token in guide.tokens.end_ids:
                return "ended too early", f"before {before[-30:]!r}"
            return _cause(guide, state, text, before, ahead), f"{text + ahead[:12]!r} before {before[-30:]!r}"
        state.commit([token])
    return "", ""


def _cause(guide: guided.Guide, state: GuidanceState, text: str, before: str, ahead: str) -> str:
    """Return the kind of an override of ``text``, which was written between ``before`` and ``ahead``."""
    ids = allowed_ids(state.mask())
    if set(ids) <= set(state.plan.end_ids()):
        return "text before the answer"
    begins = {guide.engine.token_bytes(i)[:1] for i in ids}
    if text.encode()[:1] in begins:  # the right beginning, split or continued otherwise
        return "white space" if (text + ahead)[1:2].isspace() else "token across a border"
    if not before.strip():
        return "code fence" if text.strip().startswith("`") else "prose before the answer"
    if text[:1].isspace():
        return "white space"
    if begins <= {bytes([byte]) for byte in b"-0123456789"}:
        return "no number where one belongs"
    return "another key" if before.endswith(('{"', ', "')) else "another value"


def table(results: Sequence[ModelAnswer]) -> list[KindCounts]:
    rows: dict[str, KindCounts] = {}
    for result in results:
        row = rows.setdefault(result.request.kind, KindCounts(result.request.kind))
        row.requests += 1
        row.valid += result.is_valid
        row.calls += result.is_valid and result.is_call
        row.unchanged += result.is_valid and result.is_unchanged
        row.steps += result.steps
        row.overridden += result.overridden
        row.causes[result.cause or "none"] += 1
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--max-tokens", type=int, default=56)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.Guide.from_pretrained(options.model) if options.model else guided.demo()
    asked = list(requests(options.limit))
    results: list[ModelAnswer] = []
    for kind in dict.fromkeys(request.kind for request in asked):
        of_kind = [request for request in asked if request.kind == kind]
        for at in range(0, len(of_kind), options.batch):
            results += answer(guide, of_kind[at : at + options.batch], options.max_tokens)
    rows = table(results)
    print(
        "| kind | requests | valid | of these calls | unchanged | overridden | causes |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        causes = ", ".join(f"{cause} {count}" for cause, count in row.causes.most_common())
        share = f"{row.overridden} of {row.steps} ({100 * row.overridden / max(1, row.steps):.1f} %)"
        print(f"| {row.kind} | {row.requests} | {row.valid} | {row.calls} | {row.unchanged} | {share} | {causes} |")
    changed = [result for result in results if result.is_valid and not result.is_unchanged]
    for cause in dict.fromkeys(result.cause for result in changed):
        places = [result.place for result in changed if result.cause == cause]
        print(f"\n{len(places)} valid answers changed, {cause}: {places[0]}\n  {EXPLAINED.get(cause, 'NOT EXPLAINED')}")
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    sys.exit(any(result.cause not in EXPLAINED for result in changed))


if __name__ == "__main__":
    main()
