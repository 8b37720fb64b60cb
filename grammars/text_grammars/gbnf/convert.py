"""Converts GBNF, the grammar format of llama.cpp (and the EBNF of XGrammar), to the Lark dialect of llguidance."""

from __future__ import annotations

from typing import Any

from grammars.regular.terms import Regular
from grammars.text_grammars.gbnf.parser import parse_gbnf
from grammars.text_grammars.gbnf.terminals import MAX_ANALYSED, as_lark
from grammars.text_grammars.lark.ast import LarkGrammar
from grammars.text_grammars.lark.check import check, check_shape
from grammars.text_grammars.lark.convert import ClientGrammar, check_ends, located
from grammars.text_grammars.lark.write import write
from grammars.values.report import Outcome, ReportRow, SchemaReport
from special_tokens.errors import GrammarError

__all__ = ["gbnf_grammar", "gbnf_to_lark"]

_TOO_LARGE = ReportRow(
    "",
    "root",
    Outcome.NARROWED,
    f"a grammar of more than {MAX_ANALYSED} rules is not looked into: where characters may go on in one rule, "
    "they are not taken for the beginning of the next",
)


def gbnf_grammar(text: Any, *, place: str, then: Regular | None = None) -> ClientGrammar:
    """Return the grammar of a client's GBNF text, which begins at ``root``; ``then`` is the text that follows it.

    Raises `GrammarError` with line and column for a syntax error, for refused syntax (tokens), and for a grammar that
    can never end.  The report has a row for a large grammar only: in others no text is lost.
    """
    try:
        source = gbnf_to_lark(text)
        check(source)
        check_ends(source, then=then)
        is_large = len(source.definitions) > MAX_ANALYSED
        return ClientGrammar(write(source), SchemaReport((_TOO_LARGE,) if is_large else ()))
    except GrammarError as error:
        raise located(error, place) from None


def gbnf_to_lark(text: Any) -> LarkGrammar:
    """Convert GBNF to a Lark grammar that begins at ``start``."""
    definitions = parse_gbnf(text)
    check_shape(LarkGrammar(tuple(definitions)))
    return as_lark(definitions)
