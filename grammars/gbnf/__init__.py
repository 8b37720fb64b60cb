"""GBNF, the grammars of llama.cpp (and the EBNF of XGrammar), to the Lark that the engine reads."""

from __future__ import annotations

from typing import Any

from grammars.text_grammars.gbnf.parser import definitions_of
from grammars.text_grammars.gbnf.terminals import as_lark
from grammars.text_grammars.lark.convert import ClientGrammar, check_ends, located
from grammars.text_grammars.lark.ast import Source
from grammars.text_grammars.lark.check import check, check_shape
from grammars.text_grammars.lark.write import Writing, write
from special_tokens.errors import GrammarError

__all__ = ["gbnf_grammar", "gbnf_source"]


def gbnf_grammar(text: Any, *, place: str) -> ClientGrammar:
    """The grammar of a client's GBNF, which begins at ``root``.

    Raises `GrammarError` with line and column for what is not GBNF, is refused (tokens), or can never end.
    """
    try:
        source = gbnf_source(text)
        check(source)
        check_ends(source)
        return ClientGrammar(write(source, Writing(schema=_no_schema)))
    except GrammarError as error:
        raise located(error, place) from None


def gbnf_source(text: Any) -> Source:
    """GBNF as a Lark grammar whose rule is called ``start``."""
    definitions = definitions_of(text)
    check_shape(Source(tuple(definitions)))
    return as_lark(definitions)


def _no_schema(schema: Any) -> str:
    raise AssertionError("GBNF holds no schemas")
