"""Response formats, in every form that callers bring them, to grammar nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grammars.constraints import Choice, JsonSchema, Lark, Regex, StructuralTag
from grammars.json_schema import DEFAULT_SPELLING, Policy, Spelling, build
from grammars.json_schema.closed import closed
from grammars.json_schema.python_types import is_python_type, schema_of_type
from grammars.plan import ResponsePlan
from grammars.tree import Node, Pattern, Sub, Text, alt
from special_tokens.errors import GrammarError, RequestError

__all__ = ["ResponsePart", "response_part"]

_TYPES = "text, json_object or json_schema"


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """A response format ready for composition.  ``python_type`` is what ``message.parsed`` becomes."""

    node: Node
    plan: ResponsePlan
    python_type: Any = None


def response_part(
    response_format: Any, *, spelling: Spelling = DEFAULT_SPELLING, policy: Policy = "warn"
) -> ResponsePart | None:
    """The part for ``response_format``; None for plain text.

    Takes a pydantic model, dataclass, TypedDict or other Python type, a JSON schema as a dict, OpenAI's
    ``{"type": ...}`` objects, and the values of `grammars.constraints`.  Raises `RequestError` otherwise.
    """
    match response_format:
        case None:
            return None
        case Regex(pattern=pattern):
            return _regex(pattern)
        case Choice(options=options):
            return _choice(tuple(options))
        case Lark(grammar=grammar):
            return ResponsePart(Sub("lark", grammar), ResponsePlan("lark"))
        case StructuralTag():
            raise RequestError("structural tags are not composed yet", place="response_format")
        case JsonSchema(schema=schema, name=name, strict=strict):
            return _schema(schema, spelling, "strict" if strict else policy, name=name)
        case Mapping():
            return _mapping(response_format, spelling, policy)
        case str():
            raise RequestError(
                f"{response_format!r} is not a response format",
                place="response_format",
                expected="a type, a JSON schema, guided.Regex, guided.Choice or guided.Lark",
                hint='{"type": "json_object"} asks for any JSON object',
            )
    if is_python_type(response_format):
        schema = closed(schema_of_type(response_format))
        part = _schema(schema, spelling, policy, name=getattr(response_format, "__name__", ""))
        return ResponsePart(part.node, part.plan, response_format)
    raise RequestError(
        f"cannot read a response format from {type(response_format).__name__}",
        place="response_format",
        expected="a type, a JSON schema, an OpenAI response_format, guided.Regex, guided.Choice or guided.Lark",
    )


def _mapping(body: Mapping[str, Any], spelling: Spelling, policy: Policy) -> ResponsePart | None:
    kind = body.get("type")
    if kind == "text" and set(body) == {"type"}:
        return None
    if kind == "json_object" and set(body) <= {"type", "schema"}:
        return _schema(body.get("schema", {"type": "object"}), spelling, policy)
    if kind == "json_schema":
        wrapper = body.get("json_schema", body)  # Responses puts name, schema and strict beside the type
        if not isinstance(wrapper, Mapping) or "schema" not in wrapper:
            raise RequestError(
                "there is no schema", place="response_format.json_schema", expected='{"name": ..., "schema": {...}}'
            )
        strict: Policy = "strict" if wrapper.get("strict") else policy
        return _schema(wrapper["schema"], spelling, strict, name=str(wrapper.get("name", "")))
    if isinstance(kind, str) and kind not in _JSON_TYPES:
        raise RequestError(f"unknown type {kind!r}", place="response_format.type", expected=_TYPES)
    return _schema(body, spelling, policy)


_JSON_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def _schema(schema: Any, spelling: Spelling, policy: Policy, *, name: str = "") -> ResponsePart:
    built = build(schema, spelling=spelling, policy=policy)
    plan = ResponsePlan(
        "json", schema=schema, report=built.report, name=name, shortest=getattr(built, "shortest", None)
    )
    return ResponsePart(built.node, plan)


def _regex(pattern: Any) -> ResponsePart:
    if not isinstance(pattern, str) or not pattern:
        raise GrammarError("the pattern is empty", place="response_format.regex", expected="a regular expression")
    if re.search(r"\(\?(?:<?[=!])", pattern):
        raise GrammarError("look-around is not supported", place="response_format.regex", hint="rewrite it without (?=")
    return ResponsePart(Pattern(pattern), ResponsePlan("regex", pattern=pattern))


def _choice(options: tuple[Any, ...]) -> ResponsePart:
    if not options:
        raise GrammarError("there is nothing to choose from", place="response_format.choice", expected="some texts")
    for i, option in enumerate(options):
        if not isinstance(option, str) or not option:
            raise GrammarError(
                f"{json.dumps(option, default=repr)} is not a text that can be written",
                place=f"response_format.choice[{i}]",
                expected="a text of at least one character",
            )
    unique = tuple(dict.fromkeys(options))
    shortest = min(unique, key=lambda text: (len(text.encode()), text))
    return ResponsePart(alt(*map(Text, unique)), ResponsePlan("choice", choices=unique, shortest=shortest))
