"""The JSON schemas in structural tags and clients' Lark, each with the text after which its value begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from grammars.text_grammars.lark.ast import (
    AltExpr,
    Expr,
    GrammarRef,
    JsonExpr,
    LarkGrammar,
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

__all__ = ["PlacedSchema", "placed_schemas"]


#: The constant text at the end of a regex, and what is escaped in it.
_TAIL = re.compile(r"(?:[^\\()\[\]{}*+?.|^$]|\\\W)+$")
_ESCAPED = re.compile(r"\\(\W)")


class PlacedSchema(NamedTuple):
    """A schema; ``opening`` is the text right before its value, "" where the answer or another value is.

    It is None where what comes before is no constant text.
    """

    opening: str | None
    schema: Any


@lru_cache(maxsize=16)
def placed_schemas(kind: str, source: str) -> tuple[PlacedSchema, ...]:
    """Return the schemas in the source of a response of a kind; none where the source cannot be read."""
    if kind == "structural_tag":
        tree, _ = normalise_form(json.loads(source), "", FORMATS)
        return tuple(_in_format(tree, ""))
    if kind not in ("lark", "llguidance") or ("%json" not in source and "json_schema" not in source):
        return ()
    entries = [{"lark_grammar": source}]
    if kind == "llguidance" and source.lstrip().startswith("{"):
        entries = json.loads(source)["grammars"]
    named = {entry.get("name") or str(i): entry for i, entry in enumerate(entries)}
    try:
        return tuple(_in_entry(next(iter(named)), named, ""))
    except GrammarError:  # the engine alone reads some trusted texts
        return ()


def _in_format(spec: Mapping[str, Any], before: str | None) -> Iterator[PlacedSchema]:
    """The schemas in a format of a structural tag that follows the text ``before``, if that is known."""
    match spec:
        case {"json_schema": schema}:
            yield PlacedSchema(before, schema)
        case {"begin": begin, "content": content}:
            yield from _in_format(content, begin if isinstance(begin, str) else None)
        case {"tags": tags}:
            for tag in tags:
                yield from _in_format(tag, None)
        case {"rules": rules}:
            for pattern, content in rules:
                yield from _in_format(content, pattern if isinstance(pattern, str) else None)
        case {"type": "or", "elements": options}:
            for option in options:
                yield from _in_format(option, before)
        case {"elements": elements}:
            for element in elements:
                yield from _in_format(element, before)
                before = _last_text(element)
        case {"content": content}:
            for text in dict.fromkeys((before, _last_text(content))):  # it may be repeated
                yield from _in_format(content, text)


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


def _in_entry(name: str, entries: Mapping[str, Any], before: str | None) -> Iterator[PlacedSchema]:
    """The schemas in an entry of a list of grammars, which may refer to others by name."""
    others = {other: entry for other, entry in entries.items() if other != name}
    match entries.get(name):
        case {"json_schema": schema}:
            yield PlacedSchema(before, schema)
        case {"lark_grammar": str(text)}:
            yield from _LarkSchemas(parse(text), others).of("start", before)


class _LarkSchemas:
    """The schemas of the rules of a Lark grammar; a rule is read once for each text before it."""

    def __init__(self, grammar: LarkGrammar, others: Mapping[str, Any]) -> None:
        self._rules, self._others = grammar.by_name(), others
        self._seen: set[tuple[str, str | None]] = set()

    def of(self, name: str, before: str | None) -> Iterator[PlacedSchema]:
        """Yield the schemas in a rule that follows the text ``before``, if that is known."""
        if name in self._rules and (name, before) not in self._seen:
            self._seen.add((name, before))
            yield from self._in(self._rules[name].body, before)

    def _in(self, expr: Expr, before: str | None) -> Iterator[PlacedSchema]:
        match expr:
            case JsonExpr(json=text):
                yield PlacedSchema(before, json.loads(text))
            case GrammarRef(name=name):
                yield from _in_entry(name, self._others, before)
            case Name(name=name):
                yield from self.of(name, before)
            case SeqExpr(parts=parts):
                for part in parts:
                    yield from self._in(part, before)
                    before = self._last_of(part)
            case AltExpr(options=options):
                for option in options:
                    yield from self._in(option, before)
            case Repeated(body=body) | WhenExpr(body=body):
                for opening in dict.fromkeys((before, self._last_of(body))):
                    yield from self._in(body, opening)

    def _last_of(self, expr: Expr) -> str | None:
        """As `_last_text`, of an expression of Lark."""
        match expr:
            case Literal(text=text):
                return text
            case Regexp(regex=regex) if found := _TAIL.search(regex):
                return _ESCAPED.sub(r"\1", found[0])
            case JsonExpr():
                return ""
            case SeqExpr(parts=(*_, last)):
                return self._last_of(last)
            case Name(name=name) if name in self._rules:
                rule = self._rules[name]
                suffix = next((attribute.value for attribute in rule.attributes if attribute.name == "suffix"), None)
                is_lexeme = isinstance(rule.body, Literal | Regexp)
                end = suffix if isinstance(suffix, Literal | Regexp) else rule.body if is_lexeme else None
                return None if end is None else self._last_of(end)
        return None
