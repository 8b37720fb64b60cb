"""Response formats, in every form that callers may pass, to grammar nodes."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from grammars.compose.response_format import RESPONSE_FORMAT, read_response_format
from grammars.json_schema.build import Policy, build
from grammars.json_schema.document.closed_objects import close_objects, map_subschemas
from grammars.plan.plan import ResponsePlan
from grammars.python_types.adapter import is_python_type, schema_of_type
from grammars.regular.languages import shortest
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.python import language
from grammars.regular.syntax.write import raw_node, written
from grammars.text_grammars.gbnf.convert import gbnf_grammar
from grammars.text_grammars.lark.check import check_length
from grammars.text_grammars.lark.convert import client_grammar
from grammars.text_grammars.llguidance_json import llguidance_part
from grammars.text_grammars.structural_tag.convert import structural_tag_part
from grammars.tree.markers import Markers
from grammars.tree.nodes import Lexeme, Node, Pattern, Sub, Text, alt
from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Llguidance, Regex, StructuralTag
from grammars.values.json_copy import json_copy
from grammars.values.report import ReportRow
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from grammars.values.watchers import Watcher
from special_tokens.errors import GrammarError, RequestError, SchemaError, shown

__all__ = ["KINDS", "MAX_CHOICES", "ResponsePart", "response_part"]

#: The kinds of response format, as `ResponsePlan.kind` names them, with a description.
KINDS: Mapping[str, str] = {
    "json": "one JSON value under a JSON schema, a pydantic model or another Python type",
    "regex": "text that a regular expression matches as a whole",
    "choice": "exactly one of several texts",
    "lark": "text of a Lark grammar in llguidance's dialect",
    "gbnf": "text of a GBNF grammar, as llama.cpp takes them",
    "llguidance": "text of a grammar in llguidance's own form",
    "structural_tag": "free text with tagged parts that obey their own formats",
}
MAX_CHOICES = 20_000
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_MAX_TEXT = 1_000_000  # characters of all choices


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
    place: str = RESPONSE_FORMAT,
) -> ResponsePart | None:
    """Return the part for ``response_format``; None for plain text.

    Takes a pydantic model, dataclass, TypedDict or other Python type, a JSON schema as a dict, OpenAI's
    ``{"type": ...}`` objects, a list of texts (a choice), a compiled regular expression, and the values of
    `grammars.values.constraints`.  ``markers`` are needed by trusted structural tags only; ``place`` is where the
    request has it.  Raises `RequestError` for other values.
    """
    match response_format:
        case None:
            return None
        case JsonSchema():
            return _json(response_format, spelling, policy, place)
        case Regex(pattern=pattern, unicode=unicode):
            return _regex(pattern, _at(place, "regex"), unicode=unicode)
        case Choice(options=options):
            return _choice(tuple(options), _at(place, "choice"))
        case Lark(grammar=grammar, trusted=trusted):
            client_part = client_grammar(
                grammar, place=_at(place, "grammar"), trusted=trusted, spelling=spelling, policy=policy
            )
            plan = ResponsePlan("lark", report=client_part.report, source=grammar, spelling=spelling)
            return ResponsePart(Sub("lark", client_part.lark), plan)
        case Gbnf(grammar=grammar):
            client_part = gbnf_grammar(grammar, place=_at(place, "grammar"))
            plan = ResponsePlan("gbnf", report=client_part.report, source=grammar)
            return ResponsePart(Sub("gbnf", client_part.lark), plan)
        case Llguidance(grammar=grammar, trusted=trusted):
            node, report = llguidance_part(
                grammar, place=_at(place, "grammar"), trusted=trusted, spelling=spelling, policy=policy
            )
            plan = ResponsePlan("llguidance", report=report, source=_source(grammar), spelling=spelling)
            return ResponsePart(node, plan)
        case StructuralTag(spec=spec, trusted=trusted):
            is_whole = isinstance(spec, Mapping) and spec.get("type") == "structural_tag"  # OpenAI's object
            at = place if is_whole else _at(place, "structural_tag")
            return _structural_tag(spec, spelling, policy, markers, at, trusted=trusted)
        case list() | tuple():
            return _choice(tuple(response_format), _at(place, "choice"))
        case re.Pattern(pattern=pattern, flags=flags):
            letters = "".join(letter for letter, flag in _FLAGS.items() if flags & flag)
            return _regex(f"(?{letters}){pattern}" if letters else pattern, _at(place, "regex"))
        case Mapping():
            read = read_response_format(response_format, place)
            return response_part(read, spelling=spelling, policy=policy, markers=markers, place=place)
        case str():
            raise RequestError(
                f"{shown(response_format)} is not a response format",
                place=place,
                expected="a type, a JSON schema, guided.Regex, guided.Choice or guided.Lark",
                hint='{"type": "json_object"} asks for any JSON object',
            )
    if is_python_type(response_format):
        return _json(JsonSchema(response_format), spelling, policy, place)
    raise RequestError(
        f"cannot read a response format from {type(response_format).__name__}",
        place=place,
        expected="a type, a JSON schema, an OpenAI response_format, guided.Regex, guided.Choice or guided.Lark",
    )


# -- the kinds


def _json(wanted: JsonSchema, spelling: Spelling, policy: Policy, place: str) -> ResponsePart:
    """The part for a schema or a Python type."""
    schema, name, python_type = wanted.schema, wanted.name, None
    rows: tuple[ReportRow, ...] = ()
    if is_python_type(schema):
        python_type, name = schema, name or getattr(schema, "__name__", "")
        schema, rows = schema_of_type(schema)
        schema = close_objects(schema)
    elif isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise SchemaError(f"not JSON: {error}", place=RESPONSE_FORMAT, expected="a JSON schema") from None
    schema, spelling = _in_order(schema, spelling, wanted)
    try:
        built = build(
            schema,
            spelling=spelling,
            policy="strict" if wanted.strict else policy,
            documents=wanted.documents,
            watch=True,
            rows=rows,
            of_python=python_type is not None,
        )
    except SchemaError as error:
        error.place = place + error.place.removeprefix("schema")
        raise
    plan = ResponsePlan(
        "json",
        schema=json_copy(schema),
        report=built.report,
        name=name,
        documents=json_copy(dict(wanted.documents)) if wanted.documents else {},
        spelling=spelling,
    )
    return ResponsePart(built.node, plan, python_type, built.watchers)


def _structural_tag(
    spec: Any, spelling: Spelling, policy: Policy, markers: Markers | None, place: str, *, trusted: bool
) -> ResponsePart:
    part = structural_tag_part(spec, place=place, markers=markers, trusted=trusted, spelling=spelling, policy=policy)
    plan = ResponsePlan("structural_tag", report=part.report, source=_source(spec), spelling=spelling)
    return ResponsePart(part.node, plan)


def _regex(pattern: Any, place: str, *, unicode: bool = False) -> ResponsePart:
    r"""The part for the texts that the whole pattern matches.

    ``\d``, ``\w``, ``\s``, ``\b`` and what ``(?i)k`` matches are ASCII unless ``unicode``.  The plan shows a pattern
    that the engine reads as ``re`` does, or, with look-around, the pattern itself.  Raises `GrammarError` with the
    column for a text that is not a regular expression or matches nothing.
    """
    if not isinstance(pattern, str):
        hint = "what re.compile gives is a response format itself" if hasattr(pattern, "pattern") else ""
        raise GrammarError(f"{type(pattern).__name__} is not a pattern's text", place=place,
                           expected="a regular expression", hint=hint)  # fmt: skip
    if not pattern:
        raise GrammarError("the pattern is empty", place=place, expected="a regular expression")
    try:
        term = language(pattern, plain_classes=not unicode)
    except InvalidRegex as error:
        expected = "a regular expression of Python's re"
        raise GrammarError(str(error), line=1, column=error.at + 1, place=place, expected=expected) from None
    if shortest(term) is None:
        hint = "anchors and look-around see only the text that the pattern itself matches"
        raise GrammarError("no text matches this pattern", place=place, hint=hint)
    node, shown_pattern = raw_node(term), pattern
    if term.plain:
        check_length(term, "the pattern", place=place)
        shown_pattern = written(term, named=unicode)
        node = Pattern(shown_pattern)
    return ResponsePart(node, ResponsePlan("regex", pattern=shown_pattern))


def _choice(options: tuple[Any, ...], place: str) -> ResponsePart:
    """The part for exactly one of some texts; raises `GrammarError` naming an option that is not a text."""
    if not options:
        raise GrammarError("there is nothing to choose from", place=place, expected="some texts")
    for i, option in enumerate(options):
        if not isinstance(option, str) or not option:
            raise GrammarError(
                f"{json.dumps(option, default=repr)} is not a text that can be written",
                place=f"{place}[{i}]",
                expected="a text of at least one character",
                hint="" if isinstance(option, str) else "of other values take a type, Literal[1, 2]",
            )
        if any("\ud800" <= char <= "\udfff" for char in option):
            raise GrammarError("the text holds a lone surrogate", place=f"{place}[{i}]", expected="text")
    unique = tuple(dict.fromkeys(options))
    if len(unique) > MAX_CHOICES or sum(map(len, unique)) > _MAX_TEXT:
        raise GrammarError(f"{len(unique)} choices are too many", place=place, expected=f"at most {MAX_CHOICES}")
    # One lexeme: as alternatives of a rule a few thousand texts exceed the limits of the engine's parser.
    node = Lexeme("CHOICE", alt(*map(Text, unique)))
    return ResponsePart(node, ResponsePlan("choice", choices=unique))


def _at(place: str, kind: str) -> str:
    """The place of one kind: under ``response_format``, while every other place names its kind already."""
    return f"{place}.{kind}" if place == RESPONSE_FORMAT else place


def _source(spec: Any) -> str:
    return spec if isinstance(spec, str) else json.dumps(spec, ensure_ascii=False, default=repr)


#: Keywords with subschemas whose objects may list keys.
_SUBSCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "anyOf", "oneOf", "allOf",
               "prefixItems", "items", "additionalProperties", "if", "then", "else")  # fmt: skip


def _in_order(schema: Any, spelling: Spelling, constraint: JsonSchema) -> tuple[Any, Spelling]:
    """Return the schema with its keys reordered, and ``spelling`` (the JSON formatting) with other separators.

    ``constraint`` asks for both.  The separators "family" are those of ``spelling``, as the model's family writes.
    With ``any_order`` the model may write the keys of each object in any order.  Raises `RequestError` for a wrong
    order, for wrong separators, and for a key that no object of the schema lists.
    """
    if constraint.separators == "compact":
        spelling = replace(spelling, item_separator=",", key_separator=":", max_whitespace=0)
    elif constraint.separators != "family":
        raise RequestError(
            f"{shown(constraint.separators)} is not a choice", place=f"{RESPONSE_FORMAT}.separators",
            expected="family or compact",
        )  # fmt: skip
    order = constraint.key_order
    if isinstance(order, str) and order in ("schema", "any"):
        return schema, replace(spelling, any_order=order == "any")
    if isinstance(order, str) or not isinstance(order, Sequence) or not all(isinstance(key, str) for key in order):
        raise RequestError(
            f"{shown(order)} is not an order of keys", place=f"{RESPONSE_FORMAT}.key_order",
            expected="schema, any, or a list of the keys that come first",
        )  # fmt: skip
    listed: set[str] = set()
    ordered = _ordered(schema, tuple(dict.fromkeys(order)), listed)
    for i, key in enumerate(order):
        if key not in listed:
            near = difflib.get_close_matches(key, listed, 1)
            raise RequestError(
                f"no object lists the key {shown(key)}", place=f"{RESPONSE_FORMAT}.key_order[{i}]",
                expected="a key of the schema", hint=f"is it {shown(near[0])}?" if near else "",
            )  # fmt: skip
    return ordered, spelling


def _ordered(schema: Any, first: tuple[str, ...], listed: set[str]) -> Any:
    """The schema with the keys ``first`` before the other properties of each object; adds all keys to ``listed``."""
    if not isinstance(schema, Mapping):
        return schema
    out = map_subschemas(schema, _SUBSCHEMAS, partial(_ordered, first=first, listed=listed))
    if isinstance(out.get("properties"), dict):
        properties = out["properties"]
        listed.update(properties)
        out["properties"] = {key: properties[key] for key in (*(k for k in first if k in properties), *properties)}
    return out
