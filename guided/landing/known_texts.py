"""The texts that a plan itself shows: what closes its parts and its rules, and the names of its JSON members."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from grammars.json_schema.document.string_formats import FORMATS
from grammars.plan.plan import Plan
from grammars.regular.languages import shortest
from grammars.regular.syntax import ecma, rust
from grammars.regular.terms import Regular, chars, inter, matches, rep
from grammars.text_grammars.rests import grammar_texts
from grammars.text_grammars.schemas import schemas_in
from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from guided.tracking.regions import symbols_of

__all__ = [
    "closing_texts",
    "exit_ids",
    "grammars_in",
    "listed",
    "mapping",
    "member_names",
    "objects_in",
    "patterns_in",
    "response_text",
    "rule_rests",
    "schemas_of",
    "string_texts",
    "value_ends",
]

#: The end of text that goes up to an end: to every heuristic by bytes it looks like more of that text.
_SUFFIX = re.compile(r'\[suffix=("(?:[^"\\]|\\.)*")')
_MAX_TEXTS = 64
_MAX_WORD_LENGTH = 64  # characters of a string for a pattern
_MAX_WORDS = 16
_MAX_CACHED_WORDS = 1_024
_MAX_STATES, _MAX_PARTS = 3_000, 200_000  # of languages in the search for one word: some ms
_MAX_NAMES = 2_000
#: Words of printable ASCII without quotes and backslashes.
_PLAIN = rep(chars(((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))), 0, None)


def closing_texts(plan: Plan) -> tuple[bytes, ...]:
    """Return the texts that close free text under a plan: ends of its grammar and rules, and exits of its regions."""
    grammar = plan.grammar
    larks = (grammar.rules, *(text for _, text in grammar.subs))
    texts = [json.loads(suffix) for lark in larks for suffix in _SUFFIX.findall(lark)]
    texts += [piece for piece in _exits(plan) if isinstance(piece, str)]
    texts += [end for kind, source in grammars_in(plan) for end in grammar_texts(kind, source).ends]
    return tuple(dict.fromkeys(text.encode() for text in texts if text))[:_MAX_TEXTS]


def value_ends(plan: Plan, markers: Markers) -> tuple[tuple[int, ...], ...]:
    """Return the symbols that end strings, in arguments and tags, of which the plan does not show where they begin."""
    form = plan.format.tool_calls
    found = (node.get("end") for node in _tag_nodes(plan))
    ends = [end for some in found for end in (some if isinstance(some, list) else [some]) if isinstance(end, str)]
    if form is not None and plan.tools:
        tool_syntax = syntax(form.syntax)
        ends += tool_syntax.text_ends(form, plan.tools) if isinstance(tool_syntax, ParameterList) else ('"',)
    return tuple(symbols_of(markers.pieces(end)) for end in [*dict.fromkeys(filter(None, ends))][:_MAX_TEXTS])


def _tag_nodes(plan: Plan) -> Iterator[Any]:
    """The formats of a structural tag, and the objects in their schemas."""
    response = plan.response
    if response is not None and response.kind == "structural_tag":
        yield from objects_in(json.loads(response.source))


def rule_rests(plan: Plan) -> tuple[bytes, ...]:
    """Return what may be left of the rules of a plan's grammars in Lark and GBNF, where something of one is written."""
    rests_of_rules = [grammar_texts(kind, source).rests for kind, source in grammars_in(plan)]
    return tuple(dict.fromkeys(text.encode() for rests in rests_of_rules for text in rests))


def response_text(plan: Plan) -> bytes:
    """Return a short text of a plan's response, where it is a grammar in Lark or GBNF or a regex; else none."""
    response, whole = plan.response, None
    if response is not None and response.kind in ("lark", "gbnf"):
        whole = grammar_texts(response.kind, response.source).whole
    elif response is not None and response.pattern is not None:
        whole = _short_word(_regex_language(response.pattern))
    return (whole or "").encode()


def grammars_in(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the kinds and texts of the grammars of a plan in Lark and GBNF."""
    grammars = [tool.grammar for tool in plan.tools if tool.grammar is not None]
    response = plan.response
    if response is not None and response.source:
        grammars.append((response.kind, response.source))
    for kind, source in grammars:
        if kind in ("lark", "gbnf"):
            yield kind, source
        elif kind == "llguidance":
            is_list = source.lstrip().startswith("{")
            entries = json.loads(source)["grammars"] if is_list else [{"lark_grammar": source}]
            yield from (("lark", entry.get("lark_grammar", "")) for entry in entries)
    texts = (node.get("grammar") for node in _tag_nodes(plan) if node.get("type") == "grammar")
    yield from (("gbnf", text) for text in texts if isinstance(text, str))


def patterns_in(plan: Plan) -> Iterator[str]:
    """Yield the regexes of a plan's response, tags and tools."""
    tools = (tool.grammar for tool in plan.tools if tool.grammar is not None)
    patterns: list[Any] = [source for kind, source in tools if kind == "regex"]
    patterns += [node.get("pattern") for node in _tag_nodes(plan) if node.get("type") == "regex"]
    patterns.append(plan.response.pattern if plan.response is not None else None)
    yield from (pattern for pattern in patterns if isinstance(pattern, str))


def string_texts(plan: Plan) -> tuple[str, ...]:
    """Return short strings, one for each format and pattern of a plan's schemas, tags and tools, and what is contained.

    A string for several patterns of one schema matches them all.
    """
    patterns = dict.fromkeys(joint for schema in schemas_of(plan) for joint in reversed([*_patterns(schema)]))
    patterns |= dict.fromkeys((pattern,) for pattern in patterns_in(plan))
    words = [_word(*joint) for joint in list(patterns)[:_MAX_WORDS]]
    words += islice((word for schema in schemas_of(plan) for word in _contained(schema)), _MAX_WORDS)
    return tuple(dict.fromkeys(word for word in words if word is not None and len(word) <= _MAX_WORD_LENGTH))


@lru_cache(_MAX_CACHED_WORDS)
def _word(*patterns: str) -> str | None:
    """A short string of patterns, of letters ``a`` as far as it goes: a run of them has fewer tokens than digits."""
    try:
        whole = inter(*map(ecma.language, patterns))
    except (ecma.InvalidPattern, ecma.NotRegular):
        return None
    word = _short_word(whole)
    if word is None or len(word) > _MAX_WORD_LENGTH:
        return None
    for at in range(len(word)):
        if matches(whole, other := f"{word[:at]}a{word[at + 1 :]}"):
            word = other
    return word


def _regex_language(pattern: str) -> Regular | None:
    """The language of a regex, which is of the engine's syntax or, with look-around, of JSON schemas' patterns."""
    with suppress(rust.InvalidRegex, rust.NotTranslated):
        return rust.language(pattern)
    with suppress(ecma.InvalidPattern, ecma.NotRegular):
        return ecma.language(f"^(?:{pattern})$")
    return None


def _short_word(whole: Regular | None) -> str | None:
    """A shortest word of a language, if possible without characters that JSON escapes; None if it is too long."""
    for candidate in () if whole is None else (inter(whole, _PLAIN), whole):
        word = shortest(candidate, _MAX_STATES, _MAX_PARTS)
        if isinstance(word, str):
            return word
    return None


def exit_ids(plan: Plan) -> frozenset[int]:
    """Return the markers that lead out of a region of a plan."""
    return frozenset(piece for piece in _exits(plan) if isinstance(piece, int))


def _exits(plan: Plan) -> Iterator[int | str]:
    """The pieces of the markers that lead out of regions."""
    yield from (piece for region in plan.regions for region_exit in region.exits for piece in region_exit.trigger)
    yield from (piece for budget in plan.budgets for piece in budget.close)


def member_names(plan: Plan) -> tuple[tuple[bytes, bool], ...]:
    """Return the JSON texts of the member names in a plan's schemas, in their order, and whether one is required."""
    names: dict[str, bool] = {}
    for schema in schemas_of(plan):
        for name, is_required in _names(schema):
            names[name] = names.get(name, False) or is_required
    members = [(json.dumps(name, ensure_ascii=False).encode(), is_required) for name, is_required in names.items()]
    return tuple(members[:_MAX_NAMES])


def schemas_of(plan: Plan) -> Iterator[Any]:
    """Yield the JSON schemas of a plan's response and tools."""
    response = plan.response
    if response is not None:
        yield from (response.schema, *response.documents.values())
        yield from schemas_in(response.kind, response.source)
    yield from (tool.parameters for tool in plan.tools)


def _contained(schema: Any) -> Iterator[str]:
    """The constant strings that arrays anywhere in a schema must contain."""
    for node in objects_in([node["contains"] for node in objects_in(schema) if "contains" in node]):
        yield from (value for value in (node.get("const"), *listed(node, "enum")) if isinstance(value, str))


def _patterns(schema: Any) -> Iterator[tuple[str, ...]]:
    """The patterns of strings and keys anywhere in a schema, and those of formats; several that one string matches."""
    for node in objects_in(schema):
        if isinstance(name := node.get("format"), str) and name in FORMATS:
            yield (f"^(?:{FORMATS[name].pattern})$",)
        some = (node.get("pattern"), *mapping(node, "patternProperties"))
        yield from ((pattern,) for pattern in some if isinstance(pattern, str))
        parts = [node, *(part for part in listed(node, "allOf") if isinstance(part, Mapping))]
        joint = [part["pattern"] for part in parts if isinstance(part.get("pattern"), str)]
        if len(joint) > 1:
            sizes = (part.get("minLength") for part in parts)
            least = max((size for size in sizes if isinstance(size, int)), default=0)
            yield (*joint, f"^[^]{{{least},}}$")
        named = [part["propertyNames"] for part in objects_in(node.get("allOf")) if "propertyNames" in part]
        keys = [part["pattern"] for part in objects_in(named) if isinstance(part.get("pattern"), str)]
        if len(keys) > 1:
            yield tuple(keys)  # one key may have to match them all


def _names(schema: Any) -> Iterator[tuple[str, bool]]:
    """The names that objects anywhere in a schema list or require, and constants."""
    for node in objects_in(schema):
        for key in ("properties", "required"):
            names = node.get(key)
            if isinstance(names, Mapping | list | tuple):
                yield from ((name, key == "required") for name in names if isinstance(name, str))
        if isinstance(node.get("const"), str):
            yield node["const"], False  # it may be a name


def mapping(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key of a schema, empty where there is none; `listed` returns the array."""
    value = node.get(key)
    return value if isinstance(value, Mapping) else {}


def listed(node: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = node.get(key)
    return value if isinstance(value, list | tuple) else ()


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
