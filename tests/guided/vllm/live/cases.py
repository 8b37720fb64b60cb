"""Forty requests of every kind, which a server answers as `guide.complete` does."""

from __future__ import annotations

from typing import Any

from tests.made_up.schemas import closed

__all__ = ["LANDED", "REQUESTS"]

PERSON = closed({"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0}})
IF_THEN = {
    **closed({"kind": {"enum": ["count", "word"]}, "n": {"type": "integer", "minimum": -5, "maximum": 99}}),
    "if": {"properties": {"kind": {"const": "count"}}},
    "then": {"properties": {"n": {"minimum": 1}}},
}
COLOURS = {"enum": ["red", "green", "blue"]}
UNIQUE = {"type": "array", "items": COLOURS, "uniqueItems": True, "minItems": 2, "maxItems": 3}


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": closed(properties)}
    return {"type": "function", "function": function}


_TIMES = {"type": "integer", "minimum": 1, "maximum": 9}
LOOK = _tool("look", "Looks at a place.", {"place": {"enum": ["sea", "sky"]}, "times": _TIMES})
SAY = _tool("say", "Says a word.", {"word": {"type": "string", "maxLength": 8}})
_LARK = 'start: "I see " COLOR " and " COLOR "."\nCOLOR: "red" | "green" | "blue"\n'


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": schema}}}


#: What is asked for, by kind; a request of each kind is made of each of two messages.
KINDS: dict[str, dict[str, Any]] = {
    "schema": _schema(PERSON),
    "if/then": _schema(IF_THEN),
    "uniqueItems": _schema(UNIQUE),
    "json_object": {"response_format": {"type": "json_object"}, "max_tokens": 90},
    "regex": {"structured_outputs": {"regex": "[A-Z][a-z]{2,6}, [0-9]{2}"}},
    "choice": {"structured_outputs": {"choice": ["yes", "no", "maybe"]}},
    "lark": {"structured_outputs": {"grammar": _LARK}},
    "guided_json": {"guided_json": PERSON},
    "required": {"tools": [LOOK, SAY], "tool_choice": "required"},
    "named": {"tools": [LOOK, SAY], "tool_choice": {"type": "function", "function": {"name": "say"}}},
    "auto": {"tools": [LOOK], "max_tokens": 40},
    "effort": {"reasoning_effort": "minimal", "max_tokens": 200, **_schema(PERSON)},
    "structured effort": {
        "reasoning_effort": "minimal",
        "reasoning_preset": "structured",
        "max_tokens": 200,
        **_schema(PERSON),
    },
    "effort and a tool": {"reasoning_effort": "minimal", "max_tokens": 200, "tools": [LOOK], "tool_choice": "required"},
    "stop": {"stop": [".", "\n\n"]},
    "stop kept": {"stop": ["the"], "include_stop_str_in_output": True, "max_tokens": 40},
    "penalties": {"presence_penalty": 0.8, "frequency_penalty": 0.5, "repetition_penalty": 1.2, "max_tokens": 30},
    "logit_bias": {"logit_bias": {"28": -20, "260": 3}, **_schema(PERSON)},
    "free": {"max_tokens": 24},
    "landed": {"max_tokens": 12, **_schema(PERSON)},
}
_TEXTS = ("Ann Miller is 31 and looks at the sea. What do you see?", "Tell me about Bob, who counts 7 red stars.")

REQUESTS: dict[str, dict[str, Any]] = {
    f"{kind} {i}": {
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 80,
        **asked,
    }
    for kind, asked in KINDS.items()
    for i, text in enumerate(_TEXTS)
}
#: Those whose budget ends them: by scores in our own loop, by masks alone in an engine, so their values may differ.
LANDED = frozenset(name for name in REQUESTS if name.startswith("landed"))
