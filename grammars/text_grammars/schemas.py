"""The JSON schemas in structural tags and clients' Lark, each with the constant text right before its JSON value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from grammars.regular.languages import fixed_suffix
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import NotTranslated, language
from grammars.text_grammars.lark.ast import (
    AltExpr,
    Definition,
    Expr,
    JsonExpr,
    Literal,
    Name,
    Regexp,
    Repeated,
    SeqExpr,
)
from grammars.text_grammars.lark.parser import parse
from grammars.text_grammars.structural_tag.builder import FORMATS
from grammars.text_grammars.structural_tag.forms import normalise_form
from special_tokens.errors import GrammarError

__all__ = ["PlacedSchema", "placed_schemas", "schemas_in"]

_MAX_PLACES = 20_000  # expressions of one source that are read; schemas in later expressions are not found


class PlacedSchema(NamedTuple):
    """A schema, and the constant text right before its value.

    ``opening`` is "" if the value begins the answer or follows another value.  It is None if the text is not constant.
    """

    opening: str | None
    schema: Any


@lru_cache(maxsize=16)
def placed_schemas(kind: str, source: str) -> tuple[PlacedSchema, ...]:
    """Return the schemas in a grammar (``kind`` and ``source`` of a plan's response); () if it cannot be read."""
    if kind == "structural_tag":
        tree, *_ = normalise_form(json.loads(source), "", FORMATS)  # the tag as a tree of the types in `FORMATS`
        return _unique(_in_format(tree, "", set()))
    if kind not in ("lark", "llguidance") or ("%json" not in source and "json_schema" not in source):
        return ()
    if kind == "llguidance" and source.lstrip().startswith("{"):
        (entry,) = json.loads(source)["grammars"]
        if "json_schema" in entry:
            return (PlacedSchema("", entry["json_schema"]),)
        source = entry["lark_grammar"]
    try:
        return _unique(_GrammarSchemas(parse(source).by_name()).after(""))
    # `GrammarError`: a trusted text that only the engine can read.  `RecursionError`: deeply nested rules.
    except (GrammarError, RecursionError):
        return ()


def schemas_in(kind: str, source: str) -> list[Any]:
    """Return each of the `placed_schemas` once."""
    return [*{id(placed.schema): placed.schema for placed in placed_schemas(kind, source)}.values()]


def _unique(schemas: Iterator[PlacedSchema]) -> tuple[PlacedSchema, ...]:
    return tuple({(part.opening, id(part.schema)): part for part in schemas}.values())


def _in_format(
    spec: Mapping[str, Any], before: str | None, seen: set[tuple[int, str | None]]
) -> Iterator[PlacedSchema]:
    """The schemas in a format of a structural tag; ``before`` is the `PlacedSchema.opening` of the format's value."""
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
            for text in dict.fromkeys((before, _last_text(content))):  # where ``content`` repeats
                yield from _in_format(content, text, seen)


def _last_text(spec: Mapping[str, Any]) -> str | None:
    """The constant text at the end of a format: the `PlacedSchema.opening` of a value that follows the format."""
    match spec:
        case {"json_schema": _}:
            return ""
        case {"value": str(text)} | {"end": str(text) | [str(text)]}:
            return text
        case {"type": "sequence", "elements": [*_, last]}:
            return _last_text(last)
    return None


class _GrammarSchemas:
    """Finds the schemas in a grammar; an expression is read once for each text that may come before it."""

    def __init__(self, rules: Mapping[str, Definition]) -> None:
        self._rules = rules
        self._seen: set[tuple[object, str | None]] = set()
        self._schemas: dict[int, Any] = {}  # by `JsonExpr`

    def after(self, before: str | None) -> Iterator[PlacedSchema]:
        """Yield the schemas in the grammar after the text ``before``."""
        return self._in_expr(Name("start"), before)

    def _in_expr(self, expr: Expr, before: str | None) -> Iterator[PlacedSchema]:
        place = (expr.name if isinstance(expr, Name) else id(expr), before)
        if place in self._seen or len(self._seen) >= _MAX_PLACES:
            return
        self._seen.add(place)
        match expr:
            case JsonExpr(json=text):
                if id(expr) not in self._schemas:
                    self._schemas[id(expr)] = json.loads(text)
                yield PlacedSchema(before, self._schemas[id(expr)])
            case Name(name=name) if name in self._rules:
                yield from self._in_expr(self._rules[name].body, before)
            case SeqExpr(parts=parts):
                for part in parts:
                    yield from self._in_expr(part, before)
                    before = self._last_text_of(part)
            case AltExpr(options=options):
                for option in options:
                    yield from self._in_expr(option, before)
            case Repeated(body=body):
                for opening in dict.fromkeys((before, self._last_text_of(body))):
                    yield from self._in_expr(body, opening)

    def _last_text_of(self, expr: Expr) -> str | None:
        """The constant text at the end of an expression (see `_last_text`)."""
        match expr:
            case Literal(text=text, ignore_case=False):
                return text
            case Regexp(regex=regex, flags=flags):
                with suppress(InvalidRegex, NotTranslated):
                    return fixed_suffix(language(regex, flags)) or None
            case JsonExpr():
                return ""
            case SeqExpr(parts=(*_, last)):
                return self._last_text_of(last)
            case Name(name=name) if name in self._rules:
                rule = self._rules[name]
                end = rule.suffix or rule.body
                return self._last_text_of(end) if isinstance(end, Literal | Regexp) else None
        return None
