"""OpenAI's custom tools: their one argument is a text, which may have to match a regex or a Lark grammar.

If the grammar is regular, it becomes the ``pattern`` of a JSON schema string, which every call syntax can write.  A
recursive grammar is embedded in the JSON string that contains the text, with every character escaped as JSON requires;
syntaxes that write arguments outside JSON cannot write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from grammars.regular.json_strings import content_regex, spell
from grammars.regular.languages import UNKNOWN, shortest
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import NotTranslated, approximate_language, language
from grammars.regular.syntax.write import written
from grammars.regular.terms import Regular, alt, cat, rep, text
from grammars.text_grammars.lark.ast import (
    AltExpr,
    Definition,
    Expr,
    JsonExpr,
    LarkGrammar,
    Literal,
    Name,
    Regexp,
    Repeated,
    SeqExpr,
    error_at,
    is_lexeme,
    map_lexemes,
)
from grammars.text_grammars.lark.check import check, check_length
from grammars.text_grammars.lark.convert import check_ends, located, parse_source
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages
from grammars.text_grammars.lark.write import write
from grammars.tree.nodes import Node, Sub, Text, seq
from special_tokens.errors import GrammarError, ToolError, shown

__all__ = ["CUSTOM_LARK", "carries_lark", "custom_input", "custom_input_node"]

#: The schema keyword that holds the recursive grammar of a custom tool's input.
CUSTOM_LARK = "x-guided-lark"

#: A regular grammar becomes a pattern if, with all names expanded, it has at most this many parts.
_MAX_PATTERN = 2_000


def custom_input(grammar: tuple[str, str] | None, place: str) -> Mapping[str, Any]:
    """The schema of a custom tool's input text.

    ``grammar`` is a pair of syntax (``text``, ``regex``, ``lark``) and definition; None means any text.  Raises
    `GrammarError` with line and column, or `ToolError` for a grammar that no tool call can write.
    """
    syntax, definition = grammar or ("text", "")
    if syntax == "text":
        return {"type": "string"}
    if not isinstance(definition, str) or not definition.strip():
        raise GrammarError("the grammar is empty", place=f"{place}.definition", expected=f"{syntax} text")
    return _input(syntax, definition, place)


@lru_cache(maxsize=256)
def _input(syntax: str, definition: str, place: str) -> Mapping[str, Any]:
    if syntax == "regex":
        return _pattern(_regex(definition, f"{place}.definition"), f"{place}.definition")
    if syntax != "lark":
        raise ToolError(f"unknown syntax {shown(syntax)}", place=f"{place}.syntax", expected="lark or regex")
    source = _source(definition, f"{place}.definition")
    whole = _language(source)
    if whole is not None and whole.plain:
        return _pattern(whole, f"{place}.definition")
    return {"type": "string", CUSTOM_LARK: definition}


def carries_lark(schema: Any) -> bool:
    """Whether this schema of a custom tool's arguments has a grammar that only `custom_input_node` can write."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    return any(isinstance(value, Mapping) and CUSTOM_LARK in value for value in properties.values())


def custom_input_node(schema: Mapping[str, Any], key_separator: str) -> Node:
    """The node of such a tool's arguments object; its one string contains text of the grammar, escaped as in JSON."""
    ((key, value),) = schema["properties"].items()
    source = _escaped(_source(value[CUSTOM_LARK], f"tools.{key}"))
    try:
        # once escaped, a lexeme may go on with the backslash that begins the next
        check_ends(source, then=text('"'))
    except GrammarError as error:
        raise located(error, "tools (inside a JSON string)") from None
    return seq(Text(f'{{{spell(key)}{key_separator}"'), Sub("input", write(source)), Text('"}'))


def _regex(definition: str, place: str) -> Regular:
    try:
        check_length(approximate_language(definition), "the pattern", place=place)
        return language(definition)
    except InvalidRegex as error:
        raise GrammarError(str(error), line=1, column=error.at + 1, place=place, expected="a regex of Rust") from None
    except NotTranslated as error:
        hint = "use characters, classes, groups and repeats"
        raise ToolError(f"{error} cannot be written into a tool call", place=place, hint=hint) from None


def _pattern(regular: Regular, place: str) -> Mapping[str, Any]:
    if shortest(regular) is None:
        raise GrammarError("no text matches this pattern", place=place, hint="look for classes without a character")
    return {"type": "string", "pattern": f"^(?:{written(regular)})$"}


def _source(definition: Any, place: str) -> LarkGrammar:
    try:
        source = parse_source(definition)
        check(source)
        check_ends(source)
    except GrammarError as error:
        raise located(error, place) from None
    for expr in source.walk():
        if isinstance(expr, JsonExpr):
            raise ToolError("%json is not allowed in a custom tool's grammar", place=place,
                            hint="make it a function tool")  # fmt: skip
    return source


# -- regular grammars


def _language(source: LarkGrammar) -> Regular | None:
    """The language of a grammar; None if the grammar is recursive or has no equivalent plain regex."""
    if any(definition.attributes for definition in source.definitions):
        return None
    uses = uses_of(source.definitions)
    groups = components(uses)
    if any(len(group) > 1 or group[0] in uses[group[0]] for group in groups):
        return None
    definitions = source.by_name()
    languages = LexemeLanguages(source)
    skip = _skipped(source, languages)
    terminals: dict[str, Regular] = {}
    try:
        for (name,) in groups:
            if not definitions[name].is_terminal:
                terminals[name] = _rule_language(definitions[name].body, languages, terminals, skip)
    except _NotRegular:
        return None
    return terminals["start"]


class _NotRegular(Exception):
    """Part of a rule is not a regular language."""


def _small(term: Regular) -> Regular:
    """Return ``term``; raise `_NotRegular` where it is too large for a pattern, which has no names."""
    if term.size > _MAX_PATTERN:
        raise _NotRegular
    return term


def _skipped(source: LarkGrammar, languages: LexemeLanguages) -> Regular | None:
    ignored = [languages.of(ignore.body) for ignore in source.ignores]
    terms = [term for term in ignored if term is not None]
    return rep(alt(*terms), 0, None) if terms else None


def _rule_language(
    expr: Expr, languages: LexemeLanguages, rules: Mapping[str, Regular], skip: Regular | None
) -> Regular:
    if is_lexeme(expr):
        term = languages.of(expr)
        if term is None:
            raise _NotRegular
        return cat(term, skip) if skip is not None else term
    match expr:
        case Name(name=name):
            return rules[name]
        case SeqExpr(parts=parts):
            return _small(cat(*(_rule_language(part, languages, rules, skip) for part in parts)))
        case AltExpr(options=options):
            return _small(alt(*(_rule_language(option, languages, rules, skip) for option in options)))
        case Repeated(body=body, least=least, most=most):
            return rep(_rule_language(body, languages, rules, skip), least, most)
        case Literal():
            return cat()
    raise _NotRegular


# -- grammars inside JSON strings


def _escaped(source: LarkGrammar) -> LarkGrammar:
    """The grammar of the texts of ``source`` escaped as in a JSON string, without its quotes."""

    languages = LexemeLanguages(source)

    def spelled(expr: Expr) -> Expr:
        if isinstance(expr, Literal) and not expr.ignore_case:
            return Literal(spell(expr.text)[1:-1], at=expr.at)
        term = languages.of(expr)
        if term is None or not term.plain or shortest(term) in (None, UNKNOWN):
            raise error_at(getattr(expr, "at", (0, 0)), "this lexeme cannot be written into a JSON string",
                           place="tools", hint="write it without & and ~")  # fmt: skip
        return Regexp(content_regex(term))

    definitions = []
    for d in source.definitions:
        if d.is_terminal:
            continue
        if d.is_lexeme_rule:
            raise error_at(d.at, "lazy and suffix= cannot be written into a JSON string",
                           place="tools", hint="leave the delimiter out of the characters")  # fmt: skip
        definitions.append(Definition(d.name, map_lexemes(d.body, spelled), (), d.at))
    ignores = tuple(type(i)(spelled(i.body), i.at) for i in source.ignores)
    return LarkGrammar(tuple(definitions), ignores)
