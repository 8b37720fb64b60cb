"""The terminals of ``%import common.NAME`` against the engine's own, and against lark's."""

from __future__ import annotations

import itertools

import lark
import pytest

from grammars.regular.syntax.rust import language
from grammars.regular.terms import matches
from grammars.text_grammars.lark.common_terminals import COMMON
from tests.grammars.text_grammars.test_client_grammars import ours
from tests.judges.byte_masks import accepts, parses, words_accepted

#: The characters that each terminal tells apart, three of each in a row at most.
ALPHABETS = {
    "ESCAPED_STRING": '"\\\na',
    "C_COMMENT": "/*\na",
    "WS": " \t\f\r\n",
    "NEWLINE": "\r\n ",
    "CR": "\r\n",
    "LF": "\r\n",
    "WS_INLINE": " \t\n\f",
    "SH_COMMENT": "#a\n",
    "CPP_COMMENT": "/a\n",
    "SQL_COMMENT": "-a\n",
    "HEXDIGIT": "09afgAFG",
    "LETTER": "azAZ0é",
    "LCASE_LETTER": "azAZé",
    "UCASE_LETTER": "azAZé",
    "WORD": "azA0é",
    "CNAME": "aZ_0-é",
}


@pytest.mark.parametrize("name", sorted(COMMON))
def test_a_common_terminal_is_the_engines(name: str) -> None:
    term = language(COMMON[name])
    used = name.lstrip("_") if name == "_EXP" else name
    alias = f" -> {used}" if used != name else ""
    grammar = f"start: {used}\n%import common.{name}{alias}\n"
    accepts(ours(grammar), "x")  # in a client's grammar too
    judge = lark.Lark(grammar, regex=False)
    alphabet = ALPHABETS.get(name, "0+-.eE")
    longest = 5 if len(alphabet) < 5 else 4
    accepted = words_accepted(grammar, alphabet, longest)
    every = ["".join(word) for size in range(1, longest + 1) for word in itertools.product(alphabet, repeat=size)]
    assert {word for word in every if matches(term, word)} == accepted - {""}
    if name not in ("NEWLINE", "SH_COMMENT", "CPP_COMMENT", "C_COMMENT", "SQL_COMMENT", "ESCAPED_STRING"):
        assert {word for word in every if parses(judge, word)} == accepted - {""}
