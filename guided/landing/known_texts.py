"""The texts that a plan itself shows: what closes its parts and its rules, and the names of its JSON members."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from grammars.json_schema.document.string_formats import FORMATS
from grammars.plan.plan import Plan, ResponsePlan
from grammars.regular.syntax.ecma import language
from grammars.regular.terms import matches
from grammars.shortest.grammar_texts import grammar_texts
from grammars.shortest.instances import pattern_word
from grammars.shortest.plan_texts import response_text
from grammars.text_grammars.schemas import schemas_in
from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from guided.tracking.regions import symbols_of
from special_tokens.errors import GuidanceError

__all__ = [
    "closing_texts",
    "exit_ids",
    "member_names",
    "objects_in",
    "rule_rests",
    "string_texts",
    "value_ends",
]

#: The end of text that goes up to an end: to every heuristic by bytes it looks like more of that text.
_SUFFIX = re.compile(r'\[suffix=("(?:[^"\\]|\\.)*")')
_MOST_TEXTS = 64
_LONGEST = 64  # characters of a string for a pattern
_MOST_WORDS = 16
_MOST_SCHEMAS = 16  # of one tag or grammar
_KEPT_WORDS = 1_024
_MOST_NAMES = 2_000


def closing_texts(plan: Plan) -> tuple[bytes, ...]:
    """Return the texts that close free text under a plan: ends of its grammar and rules, and exits of its regions."""
    grammar = plan.grammar
    larks = (grammar.rules, *(text for _, text in grammar.subs))
    texts = [json.loads(found) for lark in larks for found in _SUFFIX.findall(lark)]
    texts += [piece for piece in _exits(plan) if isinstance(piece, str)]
    texts += [end for kind, source in _grammars(plan) for end in grammar_texts(kind, source).ends]
    return tuple(dict.fromkeys(text.encode() for text in texts if text))[:_MOST_TEXTS]


def value_ends(plan: Plan, markers: Markers) -> tuple[tuple[int, ...], ...]:
    """Return the symbols that end strings, in arguments and tags, of which the plan does not show where they begin."""
    form = plan.format.tool_calls
    ends = [end for node in _tag_nodes(plan) for end in _listed(node.get("end")) if isinstance(end, str)]
    if form is not None and plan.tools:
        found = syntax(form.syntax)
        ends += found.text_ends(form, plan.tools) if isinstance(found, ParameterList) else ('"',)
    return tuple(symbols_of(markers.pieces(end)) for end in [*dict.fromkeys(filter(None, ends))][:_MOST_TEXTS])


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def _tag_nodes(plan: Plan) -> Iterator[Any]:
    """The formats of a structural tag, and the objects in their schemas."""
    response = plan.response
    if response is not None and response.kind == "structural_tag":
        yield from objects_in(json.loads(response.source))


def rule_rests(plan: Plan) -> tuple[bytes, ...]:
    """Return what may be left of the rules of a plan's grammars in Lark and GBNF, where something of one is written."""
    found = [grammar_texts(kind, source).rests for kind, source in _grammars(plan)]
    return tuple(dict.fromkeys(text.encode() for rests in found for text in rests))


def response_texts(plan: Plan) -> tuple[bytes, ...]:
    """Return short texts of a plan's response, or of the JSON values in it, as far as its format shows them."""
    response = plan.response
    if response is None:
        return ()
    if response.kind in ("lark", "gbnf"):
        whole = grammar_texts(response.kind, response.source).whole
        return (whole.encode(),) if whole else ()
    schemas = schemas_in(response.kind, response.source)[:_MOST_SCHEMAS]
    parts = [ResponsePlan("json", schema, spelling=response.spelling) for schema in schemas] or [response]
    found: list[bytes] = []
    for part in parts:
        with suppress(GuidanceError):
            found += [text.encode()] if (text := response_text(part)) else []
    return tuple(found)


def _grammars(plan: Plan) -> Iterator[tuple[str, str]]:
    """The kinds and texts of the grammars in Lark and GBNF."""
    found = [tool.grammar for tool in plan.tools if tool.grammar is not None]
    response = plan.response
    if response is not None and response.source:
        found.append((response.kind, response.source))
    for kind, source in found:
        if kind in ("lark", "gbnf"):
            yield kind, source
        elif kind == "llguidance":
            is_list = source.lstrip().startswith("{")
            entries = json.loads(source)["grammars"] if is_list else [{"lark_grammar": source}]
            yield from (("lark", entry["lark_grammar"]) for entry in entries if "lark_grammar" in entry)
    texts = (node.get("grammar") for node in _tag_nodes(plan) if node.get("type") == "grammar")
    yield from (("gbnf", text) for text in texts if isinstance(text, str))


def string_texts(plan: Plan) -> tuple[str, ...]:
    """Return short strings, one for each format and pattern of a plan's schemas, tags and tools."""
    patterns = dict.fromkeys(pattern for schema in _schemas(plan) for pattern in reversed([*_patterns(schema)]))
    others = [node.get("pattern") for node in _tag_nodes(plan) if node.get("type") == "regex"]
    others += [tool.grammar[1] for tool in plan.tools if tool.grammar is not None and tool.grammar[0] == "regex"]
    patterns |= dict.fromkeys(pattern for pattern in others if isinstance(pattern, str))
    words = (_word(pattern) for pattern in list(patterns)[:_MOST_WORDS])
    return tuple(dict.fromkeys(word for word in words if word is not None and len(word) <= _LONGEST))


@lru_cache(_KEPT_WORDS)
def _word(pattern: str) -> str | None:
    """A short string of a pattern, of letters ``a`` as far as it goes: a run of them has fewer tokens than digits."""
    word = pattern_word(pattern)
    if word is None or len(word) > _LONGEST:
        return None
    whole = language(pattern)
    for at in range(len(word)):
        if matches(whole, other := f"{word[:at]}a{word[at + 1 :]}"):
            word = other
    return word


def exit_ids(plan: Plan) -> frozenset[int]:
    """Return the markers that lead out of a region of a plan."""
    return frozenset(piece for piece in _exits(plan) if isinstance(piece, int))


def _exits(plan: Plan) -> Iterator[int | str]:
    """The pieces of the markers that lead out of regions."""
    yield from (piece for region in plan.regions for way in region.exits for piece in way.trigger)
    yield from (piece for budget in plan.budgets for piece in budget.close)


def member_names(plan: Plan) -> tuple[tuple[bytes, bool], ...]:
    """Return the JSON texts of the member names in a plan's schemas, in their order, and whether one is required."""
    names: dict[str, bool] = {}
    for schema in _schemas(plan):
        for name, is_required in _names(schema):
            names[name] = names.get(name, False) or is_required
    found = [(json.dumps(name, ensure_ascii=False).encode(), is_required) for name, is_required in names.items()]
    return tuple(found[:_MOST_NAMES])


def _schemas(plan: Plan) -> Iterator[Any]:
    response = plan.response
    if response is not None:
        yield from (response.schema, *response.documents.values())
        yield from schemas_in(response.kind, response.source)
    yield from (tool.parameters for tool in plan.tools)


def _patterns(schema: Any) -> Iterator[str]:
    """The patterns of strings and keys anywhere in a schema, and those of formats."""
    for node in objects_in(schema):
        if isinstance(name := node.get("format"), str) and name in FORMATS:
            yield f"^(?:{FORMATS[name].pattern})$"
        keys = node.get("patternProperties")
        some = (node.get("pattern"), *(keys if isinstance(keys, Mapping) else ()))
        yield from (pattern for pattern in some if isinstance(pattern, str))


def _names(schema: Any) -> Iterator[tuple[str, bool]]:
    """The names that objects anywhere in a schema list or require, and constants."""
    for node in objects_in(schema):
        for key in ("properties", "required"):
            listed = node.get(key)
            if isinstance(listed, Mapping | list | tuple):
                yield from ((name, key == "required") for name in listed if isinstance(name, str))
        if isinstance(node.get("const"), str):
            yield node["const"], False  # it may be a name


def objects_in(value: Any) -> Iterator[Any]:
    """Yield all objects in a JSON value in their order; without recursion, because schemas may be deep."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, Mapping):
            yield value
            todo += reversed(list(value.values()))
        elif isinstance(value, list | tuple):
            todo += reversed(value)
