"""Converts GBNF, the grammar format of llama.cpp (and the EBNF of XGrammar), to the Lark dialect of llguidance."""

from __future__ import annotations

from typing import Any

from grammars.json_schema.build import SchemaReport
from grammars.regular.terms import Regular
from grammars.text_grammars.gbnf.parser import parse_gbnf
from grammars.text_grammars.gbnf.terminals import as_lark
from grammars.text_grammars.lark.ast import LarkGrammar
from grammars.text_grammars.lark.check import check, check_shape
from grammars.text_grammars.lark.convert import ClientGrammar, check_ends, lexer_rows, located
from grammars.text_grammars.lark.write import write
from special_tokens.errors import GrammarError

__all__ = ["gbnf_grammar", "gbnf_to_lark"]


def gbnf_grammar(text: Any, *, place: str, then: Regular | None = None) -> ClientGrammar:
    """Return the grammar of a client's GBNF text, which begins at ``root``; ``then`` is the text that follows it.

    Raises `GrammarError` with line and column for a syntax error, for refused syntax (tokens), and for a grammar that
    can never end.  The report has rows of a large grammar only: in others no lexeme takes what belongs to another.
    """
    try:
        source = gbnf_to_lark(text)
        check(source)
        endless = check_ends(source, then=then, has_rows=True)
        return ClientGrammar(write(source), SchemaReport(tuple(lexer_rows(source, endless))))
    except GrammarError as error:
        raise located(error, place) from None


def gbnf_to_lark(text: Any) -> LarkGrammar:
    """Convert GBNF to a Lark grammar that begins at ``start``."""
    definitions = parse_gbnf(text)
    check_shape(LarkGrammar(tuple(definitions)))
    return as_lark(definitions)
