"""Splits Lark text into tokens by the engine's lexical rules (llguidance 1.9.1); each token has a line and column.

JSON after ``%json`` and ``%regex`` and counted repeats are one token each, so that one token of look-ahead is enough to
parse the rest.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from lark import Token

from grammars.text_grammars.lark.ast import SourcePlace, error_at
from special_tokens.errors import GrammarError

__all__ = ["KINDS", "Lines", "tokens_of"]

_RULES = (
    ("COMMENT", r"(?:#|//)[^\n]*"),
    ("NEWLINE", r"(?:\r?\n[ \t]*)+"),
    ("WS", r"[ \t\r]+"),
    ("ARROW", r"->"),
    ("PARAMETRIC", r"::|%if\b"),
    ("COLON", r":"),
    ("DOTDOT", r"\.\."),
    ("DOT", r"\."),
    ("IGNORE", r"%ignore\b"),
    ("IMPORT", r"%import\b"),
    ("OVERRIDE", r"%override\b"),
    ("EXTEND", r"%extend\b"),
    ("DECLARE", r"%declare\b"),
    ("JSON", r"%json\b"),
    ("REGEX_EXT", r"%regex\b"),
    ("OPTIONS", r"%llguidance\b"),
    ("NESTED", r"%lark\b"),
    ("TIMES", r"~[ \t]*[0-9]+(?:[ \t]*\.\.[ \t]*[0-9]+)?"),
    ("BRACES", r"\{[ \t]*[0-9]*[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\}"),
    ("LPAR", r"\("),
    ("RPAR", r"\)"),
    ("LBRACE", r"\{"),
    ("RBRACE", r"\}"),
    ("LBRACKET", r"\["),
    ("RBRACKET", r"\]"),
    ("TILDE", r"~"),
    ("VBAR", r"\|"),
    ("AND", r"&"),
    ("EQUALS", r"="),
    ("COMMA", r","),
    ("OP", r"[+*?]"),
    ("RULE", r"_?[a-z][_a-z0-9\-]*"),
    ("TERMINAL", r"_?[A-Z][_A-Z0-9\-]*"),
    ("STRING", r'"(?:\\(?:["\\/bfnrt]|u[a-fA-F0-9]{4}|x[a-fA-F0-9]{2})|[^"\\\x00-\x1f])*"i?'),
    ("REGEXP", r"/(?:\\.|[^/\\])+/[imslux]*"),
    ("NUMBER", r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
    ("TOKEN_SYNTAX", r"<[^<>\s]+>"),
    ("GRAMMAR_REF", r"@[a-zA-Z0-9_\-]+"),
    ("ROLE", r"\$[A-Z][A-Z_]*"),
)
#: The kinds of token that the parser sees.
KINDS = tuple(kind for kind, _ in _RULES if kind not in ("COMMENT", "WS"))
_SCANNER = re.compile("|".join(f"(?P<{kind}>{regex})" for kind, regex in _RULES))

#: Before a rule's name: how lark shapes its tree, which says nothing about the text.
_MODIFIERS = re.compile(r"[!?]{1,2}(?=[_a-z])")

_JSON = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens without comments, and of line breaks only those between definitions.

    Raises `GrammarError` with line and column for text that is not a token.
    """
    held: Token | None = None
    depth = 0
    begun = False
    for token in _raw(text):
        if token.type == "NEWLINE":
            held = token if begun and depth == 0 else None
            continue
        begun = True
        if held is not None and token.type != "VBAR":  # "\n |" continues the definition
            yield held
        held = None
        depth += {"LPAR": 1, "LBRACKET": 1, "RPAR": -1, "RBRACKET": -1}.get(token.type, 0)
        yield token


class Lines:
    """The places of a text's characters."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, at: int) -> SourcePlace:
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


def _raw(text: str) -> Iterator[Token]:
    at, lines, begins_rule = 0, Lines(text), True
    while at < len(text):
        modifiers = _MODIFIERS.match(text, at) if begins_rule else None
        at = modifiers.end() if modifiers else at
        match = _SCANNER.match(text, at)
        if match is None:
            raise _no_token(text[at], lines.place(at))
        kind, end = str(match.lastgroup), match.end()
        value: Any = match.group()
        if kind in ("JSON", "REGEX_EXT", "OPTIONS"):
            value, end = _json_after(text, end, lines.place(at), match.group())
        elif kind == "NESTED":
            value = "%lark"
            end = len(text)  # refused as a whole; what follows is not read
        if kind not in ("COMMENT", "WS"):
            begins_rule = kind == "NEWLINE"
            token = Token(kind, "", at, *lines.place(at))
            token.value = value
            yield token
        at = end


def _json_after(text: str, at: int, place: SourcePlace, keyword: str) -> tuple[Any, int]:
    begin = _BLANK.match(text, at)
    assert begin is not None
    try:
        return _JSON.raw_decode(text, begin.end())
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        raise error_at(place, f"what follows {keyword} is not JSON: {reason}", expected="a JSON object") from None


def _no_token(char: str, place: SourcePlace) -> GrammarError:
    hint = {
        "'": 'literals need double quotes: "text"',
        '"': "the literal does not end on its line, or has an unknown escape",
        "/": "the regular expression does not end",
        "<": "to write a literal <, quote it",
    }.get(char, "")
    return error_at(place, f"unexpected {char!r}", hint=hint)
