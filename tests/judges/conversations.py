"""Conversations rendered by a template are allowed by the masks of the format inferred from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.prompt.messages import messages_for
from grammars.values.format import Format
from guided.bitmask import allocate_bitmask, is_allowed
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.inspect.format_check import engine_for
from guided.rows.answer import read_answer
from guided.state.entry import Begin
from guided.state.state import GuidanceState
from tests.made_up.schemas import closed

__all__ = ["CONVERSATIONS", "TOOLS", "troubles"]

_OPTIONS = closed({"unit": {"type": "string"}, "ks": {"type": "array", "items": {"type": "integer"}}})
_PROPERTIES = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "share": {"type": "number"},
    "ok": {"type": "boolean"},
    "opts": _OPTIONS,
}
TOOLS: Sequence[Mapping[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}
    for name, parameters in (
        ("get_weather", {"type": "object", "properties": _PROPERTIES, "required": ["city"]}),
        ("zap_2", {"type": "object", "properties": {}}),
    )
]
_FULL = {"city": 'Oz "P"\nrow 1 < 2 & é', "days": 3, "share": 0.5, "ok": True, "opts": {"unit": "C", "ks": [1, 2]}}

#: what the assistant is given to say -> its calls and its text
CONVERSATIONS: Mapping[str, tuple[list[tuple[str, dict[str, Any]]], str]] = {
    "one call": ([("get_weather", {"city": "Oslo"})], ""),
    "all types": ([("get_weather", _FULL)], ""),
    "a whole number for any": ([("get_weather", {"city": "A", "share": 2})], ""),
    "no arguments": ([("zap_2", {})], ""),
    "two calls": ([("get_weather", {"city": "Oslo"}), ("zap_2", {})], ""),
    "the other way round": ([("zap_2", {}), ("get_weather", {"city": "Oslo", "days": 1})], ""),
    "three calls": (
        [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome", "days": 2}), ("zap_2", {})],
        "",
    ),
    "text": ([("get_weather", {"city": "Oslo"})], "Let me look."),
    "an answer": ([], "Hello there."),
}


def troubles(template: str, format: Format, names: Sequence[str] = tuple(CONVERSATIONS)) -> list[str]:
    """Return what the masks refuse of the template's own text, or the parser reads differently; empty if nothing."""
    engine = engine_for(format)
    plan = compose(Parts(tools=[dict(tool) for tool in TOOLS]), tokens=engine.tokens, format=format)
    render = template_renderer(template)
    tools = {"tools": TOOLS} if format.inputs.tools == "native" else {}
    out = []
    for name in names:
        calls, said = CONVERSATIONS[name]
        own = _own_text(render, format, calls, said, tools)
        wrong = _trouble(plan, engine, own, calls, said) if own is not None else ""
        out += [f"{name}: {wrong}"] if wrong else []
    return out


def _own_text(
    render: Any, format: Format, calls: list[tuple[str, dict[str, Any]]], text: str, tools: Mapping[str, Any]
) -> str | None:
    """The assistant's own text, as it is rendered; None where several calls follow one another in messages."""
    made = [
        {"id": f"abcDEF{i:03d}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)
    ]
    user: dict[str, Any] = {"role": "user", "content": "Q?"}
    answer: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    prompt = render(messages_for([user], format), add_generation_prompt=True, **tools)
    told = messages_for([user, answer], format)
    if len(told) != 2:
        return None
    whole: str = render(told, **tools)
    assert whole.startswith(prompt), (prompt, whole)
    return whole[len(prompt) :]


def _trouble(plan: Plan, engine: Engine, own: str, calls: Sequence[tuple[str, dict[str, Any]]], text: str) -> str:
    ids = engine.tokenize(own)
    state, mask, taken = GuidanceState(plan, engine, entry="fresh"), allocate_bitmask(1, engine.vocab_size), 0
    for token in ids:
        if state.is_stopped:
            break
        state.fill_bitmask(mask)
        if not is_allowed(mask[0], token):
            break
        state.commit([token])
        taken += 1
    rest = b"".join(map(engine.token_bytes, ids[taken:])).decode()
    if rest.strip() or not (state.is_stopped or state.is_accepting):
        return f"{own!r}: refused at {rest[:60]!r}"
    message = read_answer(ids[:taken], plan, engine, begin=Begin(plan.entry("fresh").name))
    got = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    said = (message.content or "").strip()
    return "" if (said, got) == (text, list(calls)) else f"{own!r} reads back as {(said, got)!r}"
