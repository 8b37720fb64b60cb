"""A client's Lark, read with ``lark``, checked, and written again for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grammars.json_schema import DEFAULT_SPELLING, Policy, ReportRow, SchemaReport, Spelling, build
from grammars.regular.languages import Regular
from grammars.text_grammars.lark.ast import Source
from grammars.text_grammars.lark.check import check, check_size
from grammars.text_grammars.lark.parser import parse
from grammars.text_grammars.lark.greedy_lexemes import find_trap
from grammars.text_grammars.lark.write import Writing, write
from grammars.tree.render import render
from special_tokens.errors import GrammarError, SchemaError

__all__ = ["ClientGrammar", "SchemaTexts", "check_ends", "client_grammar", "located", "parse_source"]


@dataclass(frozen=True, slots=True)
class ClientGrammar:
    """A grammar ready to stand in a plan.  ``report`` is what its ``%json`` parts keep of their schemas."""

    lark: str
    report: SchemaReport = SchemaReport()


def client_grammar(
    text: Any,
    *,
    place: str,
    trusted: bool = False,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
    references: frozenset[str] = frozenset(),
) -> ClientGrammar:
    """The grammar of a client's Lark text.

    Raises `GrammarError` with line and column for what is not Lark, is refused, or can never end.  ``trusted``
    checks only the syntax and passes the text on as it is: token syntax, ``@name`` and ``%llguidance`` included.
    """
    try:
        if trusted and isinstance(text, str) and "%lark" in text:
            return ClientGrammar(text)  # a nested grammar is the engine's to read
        source = parse_source(text)
        if trusted:
            return ClientGrammar(text)
        check(source, references=references)
        check_ends(source)
        schemas = SchemaTexts(spelling, policy)
        return ClientGrammar(write(source, Writing(schemas.text)), SchemaReport(tuple(schemas.rows)))
    except GrammarError as error:
        raise located(error, place) from None


def parse_source(text: Any) -> Source:
    """The parsed grammar of a text, before any check of what it says; sizes are checked."""
    if not isinstance(text, str) or not text.strip():
        raise GrammarError("the grammar is empty", expected="Lark text with a rule called start")
    check_size(text)
    try:
        return parse(text)
    except RecursionError:
        raise GrammarError("the grammar is nested too deeply", hint="name the inner parts") from None


def check_ends(source: Source, *, then: Regular | None = None) -> None:
    """Raises `GrammarError` for a lexeme that nothing can follow; ``then`` is the text behind the grammar."""
    trap = find_trap(source, then=then)
    if trap is not None:
        shown, (line, column) = trap
        raise GrammarError(
            f"{shown} can never end: all that may follow it goes on being part of it",
            line=line,
            column=column,
            hint="leave the delimiter out of its characters, or give the rule suffix=",
        )


def located(error: GrammarError, place: str) -> GrammarError:
    """The same error with the place of the grammar in the request in front."""
    if place in error.place:
        return error
    if isinstance(error, SchemaError):
        return error
    return GrammarError(
        error.message, line=error.line, column=error.column, place=place, expected=error.expected, hint=error.hint
    )


class SchemaTexts:
    """Writes the schemas of one grammar and keeps their reports."""

    def __init__(self, spelling: Spelling, policy: Policy) -> None:
        self.spelling, self.policy = spelling, policy
        self.rows: list[ReportRow] = []

    def text(self, schema: Any) -> str:
        built = build(schema, spelling=self.spelling, policy=self.policy)
        self.rows += built.report.rows
        rendered = render(built.node)
        assert not rendered.subs
        return "%lark {\n" + rendered.lark() + "}"
