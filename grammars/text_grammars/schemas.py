"""The JSON schemas in structural tags and clients' Lark, each with the text after which its value begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from grammars.text_grammars.lark.ast import (
    AltExpr,
    Definition,
    Expr,
    GrammarRef,
    JsonExpr,
    Literal,
    Name,
    Regexp,
    Repeated,
    SeqExpr,
    WhenExpr,
)
from grammars.text_grammars.lark.parser import parse
from grammars.text_grammars.structural_tag.forms import normalise_form
from grammars.text_grammars.structural_tag.table import FORMATS
from special_tokens.errors import GrammarError

__all__ = ["PlacedSchema", "placed_schemas", "schemas_in"]


#: The constant text at the end of a regex, and what is escaped in it; escapes and classes; escapes that are not read.
_TAIL = re.compile(r"(?<!\\)(?:[^\\()\[\]{}*+?.|^$]|\\\W|\\[ntr])+$")
_GROUP = re.compile(r"\([^()]*\)")
_CHARACTER = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_BY_NUMBER = re.compile(r"\\[0-9xuUpPcC]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LONGEST = 64  # characters of a regex that are looked at
_BLANKS = {"n": "\n", "t": "\t", "r": "\r"}
#: Places of a source that are read.
_MAX_VALUES = 20_000


class PlacedSchema(NamedTuple):
    """A schema; ``opening`` is the text right before its value, "" where the answer or another value is.

    It is None where what comes before is not a constant text.
    """

    opening: str | None
    schema: Any


@lru_cache(maxsize=16)
def placed_schemas(kind: str, source: str) -> tuple[PlacedSchema, ...]:
    """Return the schemas in the source of a response of a kind; none where the source cannot be read."""
    if kind == "structural_tag":
        tree, _ = normalise_form(json.loads(source), "", FORMATS)
        return _unique(_in_format(tree, "", set()))
    if kind not in ("lark", "llguidance") or ("%json" not in source and "json_schema" not in source):
        return ()
    entries = [{"lark_grammar": source}]
    if kind == "llguidance" and source.lstrip().startswith("{"):
        entries = json.loads(source)["grammars"]
    try:
        return _unique(_GrammarSchemas(entries).of("", ""))
    except (GrammarError, RecursionError):  # the engine alone reads some trusted texts; or rules are nested deeply
        return ()


def schemas_in(kind: str, source: str) -> list[Any]:
    """Return each of the `placed_schemas` once."""
    return [*{id(placed.schema): placed.schema for placed in placed_schemas(kind, source)}.values()]


def _unique(schemas: Iterator[PlacedSchema]) -> tuple[PlacedSchema, ...]:
    return tuple({(part.opening, id(part.schema)): part for part in schemas}.values())


def _in_format(
    spec: Mapping[str, Any], before: str | None, seen: set[tuple[int, str | None]]
) -> Iterator[PlacedSchema]:
    """The schemas in a format of a structural tag that follows the text ``before``, if that is known."""
    if (id(spec), before) in seen:
        return
    seen.add((id(spec), before))
    match spec:
        case {"json_schema": schema}:
            yield PlacedSchema(before, schema)
        case {"begin": begin, "content": content}:
            yield from _in_format(content, begin if isinstance(begin, str) else None, seen)
        case {"tags": tags}:
            for tag in tags:
                yield from _in_format(tag, None, seen)
        case {"rules": rules}:
            for pattern, content in rules:
                yield from _in_format(content, pattern if isinstance(pattern, str) else None, seen)
        case {"type": "or", "elements": options}:
            for option in options:
                yield from _in_format(option, before, seen)
        case {"elements": elements}:
            for element in elements:
                yield from _in_format(element, before, seen)
                before = _last_text(element)
        case {"content": content}:
            for text in dict.fromkeys((before, _last_text(content))):  # it may be repeated
                yield from _in_format(content, text, seen)


def _last_text(spec: Mapping[str, Any]) -> str | None:
    """The constant text that a format ends with, if it ends with one, and "" for a value."""
    match spec:
        case {"json_schema": _}:
            return ""
        case {"value": str(text)} | {"end": str(text) | [str(text)]}:
            return text
        case {"type": "sequence", "elements": [*_, last]}:
            return _last_text(last)
    return None


class _GrammarSchemas:
    """The schemas of a list of grammars; each place in them is read once for each text before it."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        named = {entry.get("name") or (f"grammar_{i}" if i else ""): entry for i, entry in enumerate(entries)}
        self._entries = {"": entries[0], **named}
        self._rules: dict[str, Mapping[str, Definition]] = {}
        self._seen: set[tuple[object, str | None]] = set()
        self._schemas: dict[int, Any] = {}  # by `JsonExpr`

    def of(self, name: str, before: str | None) -> Iterator[PlacedSchema]:
        """Yield the schemas in a grammar that follows the text ``before``, if that is known."""
        match self._entries.get(name):
            case {"json_schema": schema}:
                yield PlacedSchema(before, schema)
            case {"lark_grammar": str(text)}:
                if name not in self._rules:
                    self._rules[name] = parse(text).by_name()
                yield from self._in(Name("start"), before, self._rules[name])

    def _in(self, expr: Expr, before: str | None, rules: Mapping[str, Definition]) -> Iterator[PlacedSchema]:
        place = (id(expr), before) if not isinstance(expr, Name) else ((id(rules), expr.name), before)
        if place in self._seen or len(self._seen) >= _MAX_VALUES:
            return
        self._seen.add(place)
        match expr:
            case JsonExpr(json=text):
                if id(expr) not in self._schemas:
                    self._schemas[id(expr)] = json.loads(text)
                yield PlacedSchema(before, self._schemas[id(expr)])
            case GrammarRef(name=name):
                yield from self.of(name, before)
            case Name(name=name) if name in rules:
                yield from self._in(rules[name].body, before, rules)
            case SeqExpr(parts=parts):
                for part in parts:
                    yield from self._in(part, before, rules)
                    before = self._last_of(part, rules)
            case AltExpr(options=options):
                for option in options:
                    yield from self._in(option, before, rules)
            case Repeated(body=body) | WhenExpr(body=body):
                for opening in dict.fromkeys((before, self._last_of(body, rules))):
                    yield from self._in(body, opening, rules)

    def _last_of(self, expr: Expr, rules: Mapping[str, Definition]) -> str | None:
        """As `_last_text`, of an expression of Lark."""
        match expr:
            case Literal(text=text, ignore_case=False):
                return text
            case Regexp(regex=regex, flags="") if "(?" not in regex and not _BY_NUMBER.search(regex):
                if "|" in _GROUP.sub("", _CHARACTER.sub("", regex)):
                    return None
                tail = _TAIL.search(regex, max(0, len(regex) - _LONGEST))
                return _ESCAPED.sub(lambda match: _BLANKS.get(match[1], match[1]), tail[0]) if tail else None
            case JsonExpr():
                return ""
            case SeqExpr(parts=(*_, last)):
                return self._last_of(last, rules)
            case Name(name=name) if name in rules:
                rule = rules[name]
                suffix = next((attribute.value for attribute in rule.attributes if attribute.name == "suffix"), None)
                is_lexeme = isinstance(rule.body, Literal | Regexp)
                end = suffix if isinstance(suffix, Literal | Regexp) else rule.body if is_lexeme else None
                return None if end is None else self._last_of(end, rules)
        return None
