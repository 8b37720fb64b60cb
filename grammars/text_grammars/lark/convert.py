"""Converts a client's Lark text: parses it with ``lark``, checks it, and writes it again for the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from grammars.json_schema.build import DEFAULT_SPELLING, Outcome, Policy, ReportRow, SchemaReport, Spelling, build
from grammars.regular.terms import Regular
from grammars.text_grammars.lark.ast import Expr, JsonExpr, LarkGrammar, Name, SourcePlace, error_at, map_lexemes
from grammars.text_grammars.lark.check import check, check_length, check_size
from grammars.text_grammars.lark.endless_lexemes import EndlessLexeme, endless_lexemes
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages, json_language
from grammars.text_grammars.lark.lost_texts import LexerWalk
from grammars.text_grammars.lark.parser import parse
from grammars.text_grammars.lark.write import write
from grammars.tree.render import render
from special_tokens.errors import GrammarError

__all__ = ["ClientGrammar", "Schemas", "check_ends", "client_grammar", "located", "parse_source"]


#: Rows of one grammar about its lexer.
_MAX_ROWS = 10


@dataclass(frozen=True, slots=True)
class ClientGrammar:
    """A grammar ready for a plan; ``report`` has the rows of its ``%json`` parts and of what its lexer loses."""

    lark: str
    report: SchemaReport = SchemaReport()


def client_grammar(
    text: Any,
    *,
    place: str,
    trusted: bool = False,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
) -> ClientGrammar:
    """Return the grammar of a client's Lark text.

    Raises `GrammarError` with line and column for a syntax error, for refused syntax, and for a grammar that can never
    end.  With ``trusted`` the text is passed on as it is, and the engine alone reads it.
    """
    try:
        _check_text(text)
        if trusted:
            return ClientGrammar(text)
        source = parse_source(text)
        check(source)
        schemas = Schemas(spelling, policy)
        source = schemas.compiled(source)
        endless = check_ends(source, has_rows=True)
        return ClientGrammar(write(source), SchemaReport((*_lexer_rows(source, endless), *schemas.rows)))
    except GrammarError as error:
        raise located(error, place) from None


def _lexer_rows(source: LarkGrammar, endless: list[EndlessLexeme]) -> Iterator[ReportRow]:
    """Yield a row for each place where a lexeme cannot end, and for each two of which the lexer reads one too far.

    Raise `GrammarError` for a lexeme in which one character alone goes on for ever, which the engine would follow.
    """
    walk = LexerWalk(source)
    if hanging := walk.hanging():
        raise _endless(*hanging)
    if not walk.may_end:
        how = next((f": {lost.reason}" for lost in walk.lost), "")
        raise GrammarError(f"no text ends this grammar{how}", expected="a lexeme that ends earlier, or [suffix=...]")
    for lexeme in endless[:_MAX_ROWS]:
        line, column = lexeme.at
        reason = f"at line {line}, column {column} it can never end: all that may follow it there continues it"
        yield ReportRow("", lexeme.shown, Outcome.NARROWED, reason)
    for lazy, other in list(walk.cut)[:_MAX_ROWS]:
        reason = f"it is not read on where {lazy} ends, which has lazy or suffix="
        yield ReportRow("", other, Outcome.NARROWED, reason)
    for lost in list(walk.lost)[:_MAX_ROWS]:
        reason = f"{lost.reason}; write a lexeme that ends earlier, or [suffix=...]"
        yield ReportRow("", lost.long, Outcome.NARROWED, reason)


def _check_text(text: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise GrammarError("the grammar is empty", expected="Lark text with a rule called start")
    check_size(text)


def parse_source(text: Any) -> LarkGrammar:
    """Parse a text; only its size is checked."""
    _check_text(text)
    try:
        return parse(text)
    except RecursionError:
        raise GrammarError("the grammar is nested too deeply", hint="name the inner parts") from None


def check_ends(source: LarkGrammar, *, then: Regular | None = None, has_rows: bool = False) -> list[EndlessLexeme]:
    """Raise `GrammarError` for a lexeme that nothing can follow, and for a lazy one that may be empty.

    Return those that nothing can follow at one place, while another option is left: they pass if the grammar
    ``has_rows``, where a report names them, and ignored ones always.  ``then`` is the text after the grammar.
    """
    languages = LexemeLanguages(source)
    for terminal in source.definitions:
        if terminal.is_terminal and (term := languages.of(Name(terminal.name))) is not None:
            check_length(term, f"the terminal {terminal.name}", at=terminal.at)
    for rule in source.definitions:
        language = languages.of(rule.body) if any(a.name == "lazy" for a in rule.attributes) else None
        if language is not None and language.nullable:
            what = f"{rule.name} is lazy and may be empty, so it always would be"
            hint = "put what ends it into the rule, or use suffix="
            raise error_at(rule.at, what, expected="at least one character", hint=hint)
    endless = endless_lexemes(source, then=then)
    for lexeme in endless:
        if not lexeme.is_avoidable or not (has_rows or lexeme.is_ignored):
            raise _endless(lexeme.shown, lexeme.at, has_text=lexeme.has_text)
    return endless


def _endless(shown: str, at: SourcePlace, *, has_text: bool = True) -> GrammarError:
    no_text = "" if has_text else "no text ends this grammar: "
    hint = (
        "leave the delimiter out of its characters, and with one beyond ASCII all that share its first byte, "
        "or give the rule suffix="
    )
    return error_at(at, f"{no_text}{shown} can never end: all that may follow it continues it", hint=hint)


def located(error: GrammarError, place: str) -> GrammarError:
    """Return the error with the place of the grammar in the request added."""
    if place in error.place:
        return error
    at = error.line, error.column
    return error_at(at, error.message, expected=error.expected, hint=error.hint, place=place)


class Schemas:
    """Compiles the schemas of one grammar and collects their reports."""

    def __init__(self, spelling: Spelling, policy: Policy) -> None:
        self.spelling, self.policy = spelling, policy
        self.rows: list[ReportRow] = []

    def compiled(self, source: LarkGrammar) -> LarkGrammar:
        """Return the grammar with the grammars and the languages of its JSON values."""
        definitions = (replace(d, body=map_lexemes(d.body, self._compiled)) for d in source.definitions)
        return replace(source, definitions=tuple(definitions))

    def _compiled(self, expr: Expr) -> Expr:
        if not isinstance(expr, JsonExpr):
            return expr
        built = build(json.loads(expr.json), spelling=self.spelling, policy=self.policy)
        self.rows += built.report.rows
        rendered = render(built.node)
        assert not rendered.subs
        return replace(
            expr, lark="%lark {\n" + rendered.lark() + "}", language=json_language(built.node, self.spelling)
        )
