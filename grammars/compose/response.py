"""Response formats, in every form that callers bring them, to grammar nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Llguidance, Regex, StructuralTag
from grammars.gbnf import gbnf_grammar
from grammars.values.json_copy import json_copy
from grammars.json_schema import DEFAULT_SPELLING, Built, Policy, Spelling, Watcher, build
from grammars.json_schema.document.closed_objects import closed
from grammars.json_schema.python_types import is_python_type, schema_of_type
from grammars.regular.languages import UNKNOWN, shortest
from grammars.text_grammars.lark.convert import client_grammar
from grammars.text_grammars.lark.sizes import check_pattern
from grammars.text_grammars.llguidance_json import llguidance_part
from grammars.tree.markers import Markers
from grammars.plan.plan import ResponsePlan, when_asked
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language
from grammars.shortest.node_texts import shortest_text
from grammars.text_grammars.structural_tag.convert import structural_tag_part
from grammars.tree.nodes import Json, Lexeme, Node, Pattern, Sub, Text, alt
from special_tokens.errors import GrammarError, RequestError, SchemaError, shown

__all__ = ["KINDS", "MAX_CHOICES", "ResponsePart", "choice_part", "regex_node", "response_part"]

#: The kinds of response format, as `ResponsePlan.kind` names them, and what each is.
KINDS: Mapping[str, str] = {
    "json": "one JSON value under a JSON schema, a pydantic model or another Python type",
    "regex": "text that a regular expression matches as a whole",
    "choice": "exactly one of several texts",
    "lark": "text of a Lark grammar in llguidance's dialect",
    "gbnf": "text of a GBNF grammar, as llama.cpp takes them",
    "llguidance": "text of a list of grammars in llguidance's own form",
    "structural_tag": "free text with tagged parts that obey their own formats",
}
MAX_CHOICES = 20_000
_MAX_TEXT = 1_000_000  # characters of all choices
_TYPES = "text, structural_tag, json_object or json_schema"
_PLACE = "response_format"


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """A response format ready for composition.

    ``python_type`` is what ``message.parsed`` becomes; ``watchers`` follow the JSON value while it is written.
    """

    node: Node
    plan: ResponsePlan
    python_type: Any = None
    watchers: tuple[Watcher, ...] = ()


def response_part(
    response_format: Any,
    *,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
    markers: Markers | None = None,
    place: str = _PLACE,
) -> ResponsePart | None:
    """The part for ``response_format``; None for plain text.

    Takes a pydantic model, dataclass, TypedDict or other Python type, a JSON schema as a dict, OpenAI's
    ``{"type": ...}`` objects, and the values of `grammars.values.constraints`.  ``markers`` are needed by trusted
    structural tags only; ``place`` is where the request has it.  Raises `RequestError` otherwise.
    """
    match response_format:
        case None:
            return None
        case JsonSchema(schema=schema, name=name, strict=strict, documents=documents):
            return _schema(schema, spelling, "strict" if strict else policy, name=name, documents=documents)
        case Regex(pattern=pattern):
            return _regex(pattern, _at(place, "regex"))
        case Choice(options=options):
            return choice_part(tuple(options), _at(place, "choice"))
        case Lark(grammar=grammar, trusted=trusted):
            found = client_grammar(
                grammar, place=_at(place, "grammar"), trusted=trusted, spelling=spelling, policy=policy
            )
            return ResponsePart(Sub("lark", found.lark), ResponsePlan("lark", report=found.report, source=grammar))
        case Gbnf(grammar=grammar):
            text = gbnf_grammar(grammar, place=_at(place, "grammar")).lark
            return ResponsePart(Sub("gbnf", text), ResponsePlan("gbnf", source=grammar))
        case Llguidance(grammar=grammar, trusted=trusted):
            node, report = llguidance_part(
                grammar, place=_at(place, "grammar"), trusted=trusted, spelling=spelling, policy=policy
            )
            return ResponsePart(node, ResponsePlan("llguidance", report=report, source=_source(grammar)))
        case StructuralTag(spec=spec, trusted=trusted):
            return _structural_tag(spec, spelling, policy, markers, _at(place, "structural_tag"), trusted=trusted)
        case Mapping():
            return _mapping(response_format, spelling, policy, markers, place)
        case str():
            raise RequestError(
                f"{shown(response_format)} is not a response format",
                place=place,
                expected="a type, a JSON schema, guided.Regex, guided.Choice or guided.Lark",
                hint='{"type": "json_object"} asks for any JSON object',
            )
    if is_python_type(response_format):
        schema = closed(schema_of_type(response_format))
        part = _schema(schema, spelling, policy, name=getattr(response_format, "__name__", ""))
        return ResponsePart(part.node, part.plan, response_format, part.watchers)
    raise RequestError(
        f"cannot read a response format from {type(response_format).__name__}",
        place=place,
        expected="a type, a JSON schema, an OpenAI response_format, guided.Regex, guided.Choice or guided.Lark",
    )


# -- OpenAI's objects


def _mapping(
    body: Mapping[str, Any], spelling: Spelling, policy: Policy, markers: Markers | None, place: str
) -> ResponsePart | None:
    kind = body.get("type")
    if not isinstance(kind, str) or kind in _JSON_TYPES:
        return _schema(body, spelling, policy)
    reader: Callable[[], ResponsePart | None] | None = {
        "text": lambda: _plain(body, place),
        "json_object": lambda: _json_object(body, spelling, policy, place),
        "json_schema": lambda: _json_schema(body, spelling, policy, place),
        "structural_tag": lambda: _structural_tag(body, spelling, policy, markers, place, trusted=False),
    }.get(kind)
    if reader is None:
        raise RequestError(f"unknown type {shown(kind)}", place=f"{place}.type", expected=_TYPES)
    return reader()


_JSON_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def _plain(body: Mapping[str, Any], place: str) -> None:
    _only(body, {"type"}, place)


def _json_object(body: Mapping[str, Any], spelling: Spelling, policy: Policy, place: str) -> ResponsePart:
    _only(body, {"type", "schema"}, place)
    return _schema(body.get("schema", {"type": "object"}), spelling, policy)


def _json_schema(body: Mapping[str, Any], spelling: Spelling, policy: Policy, place: str) -> ResponsePart:
    """Chat completions wrap name, schema and strict; the Responses API puts them beside the type."""
    wrapper = body.get("json_schema", body)
    outer, place = place, f"{place}.json_schema" if wrapper is not body or place == _PLACE else place
    if not isinstance(wrapper, Mapping) or "schema" not in wrapper:
        raise RequestError("there is no schema", place=place, expected='{"name": ..., "schema": {...}}')
    if wrapper is not body:
        _only(body, {"type", "json_schema"}, outer)
    _only(wrapper, {"type", "name", "description", "schema", "strict"}, place)
    strict = wrapper.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise RequestError(f"{shown(strict)} is not true or false", place=f"{place}.strict")
    return _schema(wrapper["schema"], spelling, "strict" if strict else policy, name=str(wrapper.get("name") or ""))


def _only(body: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(set(body) - known)
    if unknown:
        raise RequestError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(known)))


# -- the kinds


def _schema(
    schema: Any, spelling: Spelling, policy: Policy, *, name: str = "", documents: Mapping[str, Any] | None = None
) -> ResponsePart:
    built = build(schema, spelling=spelling, policy=policy, documents=documents, watch=True)
    schema, documents = json_copy(schema), json_copy(dict(documents)) if documents else {}
    known = None if isinstance(built.node, Json) else shortest_text(built.node, built.watchers, hasty=True)
    find = partial(_shortest, built if isinstance(built.node, Json) else None, schema, spelling, documents)
    plan = ResponsePlan(
        "json",
        schema=schema,
        report=built.report,
        name=name,
        shortest=when_asked(find) if known is None else known,
        documents=documents,
    )
    return ResponsePart(built.node, plan, watchers=built.watchers)


def _shortest(built: Built | None, schema: Any, spelling: Spelling, documents: Mapping[str, Any] | None) -> str | None:
    """A shortest text of a schema, searched with patience.

    What the engine compiles as it is, is worked out where that alone tells none; other trees are too large to keep,
    and are built anew.
    """
    found = None if built is None else shortest_text(built.node, built.watchers, patient=True)
    if found is None:
        with suppress(SchemaError):
            full = build(schema, spelling=spelling, documents=documents, watch=True, in_full=True)
            found = shortest_text(full.node, full.watchers, patient=True)
    if found is None and built is not None:
        found = shortest_text(built.node, built.watchers, patient=True, loose=True)
    return found


def _structural_tag(
    spec: Any, spelling: Spelling, policy: Policy, markers: Markers | None, place: str, *, trusted: bool
) -> ResponsePart:
    part = structural_tag_part(spec, place=place, markers=markers, trusted=trusted, spelling=spelling, policy=policy)
    return ResponsePart(part.node, ResponsePlan("structural_tag", report=part.report, source=_source(spec)))


def _regex(pattern: Any, place: str) -> ResponsePart:
    node, short = regex_node(pattern, place)
    return ResponsePart(node, ResponsePlan("regex", pattern=pattern, shortest=short))


def regex_node(pattern: Any, place: str) -> tuple[Node, str | None]:
    """The lexeme of a client's pattern and a shortest text of it, where one is known.

    Raises `GrammarError` with the column for what is no regular expression or matches no text at all.
    """
    if not isinstance(pattern, str):
        raise GrammarError(f"{type(pattern).__name__} is no pattern", place=place, expected="a regular expression")
    if not pattern:
        raise GrammarError("the pattern is empty", place=place, expected="a regular expression")
    try:
        check_pattern(pattern, place=place)
        short = shortest(language(pattern))
    except NotTranslated:
        return Pattern(pattern), None  # the engine decides
    except InvalidRegex as error:
        hint = "rewrite it without (?=" if "look-around" in str(error) else ""
        raise GrammarError(str(error), line=1, column=error.at + 1, place=place, hint=hint) from None
    if short is None:
        raise GrammarError("no text matches this pattern", place=place)
    return Pattern(pattern), None if short is UNKNOWN else str(short)


def choice_part(options: tuple[Any, ...], place: str = f"{_PLACE}.choice") -> ResponsePart:
    """Exactly one of some texts, byte for byte; raises `GrammarError` naming the option that is none."""
    if not options:
        raise GrammarError("there is nothing to choose from", place=place, expected="some texts")
    for i, option in enumerate(options):
        if not isinstance(option, str) or not option:
            raise GrammarError(
                f"{json.dumps(option, default=repr)} is not a text that can be written",
                place=f"{place}[{i}]",
                expected="a text of at least one character",
            )
        if any("\ud800" <= char <= "\udfff" for char in option):
            raise GrammarError("the text holds a lone surrogate", place=f"{place}[{i}]", expected="text")
    unique = tuple(dict.fromkeys(options))
    if len(unique) > MAX_CHOICES or sum(map(len, unique)) > _MAX_TEXT:
        raise GrammarError(f"{len(unique)} choices are too many", place=place, expected=f"at most {MAX_CHOICES}")
    short = min(unique, key=lambda text: (len(text.encode()), text))
    # One lexeme: as alternatives of a rule a few thousand texts are more than the engine's parser takes.
    node = Lexeme("CHOICE", alt(*map(Text, unique)))
    return ResponsePart(node, ResponsePlan("choice", choices=unique, shortest=short))


def _at(place: str, kind: str) -> str:
    """``response_format`` has the kinds under it; every other place names its kind already."""
    return f"{place}.{kind}" if place == _PLACE else place


def _source(spec: Any) -> str:
    return spec if isinstance(spec, str) else json.dumps(spec, ensure_ascii=False, default=repr)
