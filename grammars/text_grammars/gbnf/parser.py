"""Parses the text of a GBNF grammar to rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedToken

from grammars.text_grammars.lark.ast import Definition, Expr, Literal, Regexp, error_at
from grammars.text_grammars.lark.check import check_size
from grammars.text_grammars.lark.lexer import Lines
from grammars.text_grammars.lark.parser import GrammarValues, lark_parser, place_of, refused, unexpected
from special_tokens.errors import GrammarError, shown

__all__ = ["parse_gbnf"]

_RULES = (
    ("SKIP", r"(?:[ \t\r\n]|#[^\n]*)+"),
    ("HEAD", r"[A-Za-z0-9_-]+[ \t]*::="),
    ("NAME", r"[A-Za-z0-9_-]+"),
    ("STRING", r'"(?:\\.|[^"\\\n])*"'),
    ("CLASS", r"\[(?:\\.|[^\]\\\n])*\]"),
    ("BRACES", r"\{[ \t]*[0-9]*[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\}"),
    ("LOOK", r"\(\?[=!<]"),
    ("LPAR", r"\("),
    ("RPAR", r"\)"),
    ("VBAR", r"\|"),
    ("OP", r"[*+?]"),
    ("DOT", r"\."),
    ("TOKEN", r"!?<[^>\n]*>"),
)
_SCANNER = re.compile("|".join(f"(?P<{kind}>{regex})" for kind, regex in _RULES))
_KINDS = " ".join(kind for kind, _ in _RULES if kind != "SKIP")

_GRAMMAR = f"""
start: rule+
rule: HEAD alternatives
alternatives: sequence (VBAR sequence)*
sequence: repeated*
repeated: atom (OP | BRACES)*
?atom: NAME -> reference
     | STRING -> literal
     | CLASS -> char_class
     | DOT -> any_char
     | LPAR alternatives RPAR -> group
     | TOKEN -> token
     | LOOK alternatives RPAR -> look
%declare {_KINDS}
"""


def parse_gbnf(text: Any) -> list[Definition]:
    """Return the rules of a GBNF grammar, unchecked; raise `GrammarError` with line and column for a syntax error."""
    if not isinstance(text, str) or not text.strip():
        raise GrammarError("the grammar is empty", expected="GBNF with a rule called root")
    check_size(text)
    try:
        definitions: list[Definition] = lark_parser(_GRAMMAR, _tokens_of, _Values).parse(text)
    except UnexpectedToken as error:
        expected = "name ::= ..." if "HEAD" in error.expected and "VBAR" not in error.expected else ""
        hint = "finish its last rule" if error.token.type == "$END" else ""
        raise unexpected(error, text, expected=expected, hint=hint) from None
    return definitions


def _tokens_of(data: str) -> Iterator[Token]:
    at, lines = 0, Lines(data)
    while at < len(data):
        match = _SCANNER.match(data, at)
        if match is None:
            raise error_at(lines.place(at), f"unexpected {shown(data[at])}", expected="GBNF")
        if match.lastgroup != "SKIP":
            yield Token(str(match.lastgroup), match.group(), at, *lines.place(at))
        at = match.end()


class _Values(GrammarValues):
    def start(self, rules: list[Definition]) -> list[Definition]:
        return rules

    def rule(self, parts: list[Any]) -> Definition:
        head, body = parts
        return Definition(str(head)[:-3].strip(), body, at=place_of(head))

    def literal(self, parts: list[Token]) -> Expr:
        return Literal("".join(map(chr, _codes(parts[0], 1))), False, place_of(parts[0]))

    def char_class(self, parts: list[Token]) -> Expr:
        token = parts[0]
        negated = str(token)[1:2] == "^"
        codes = _codes(token, 1 + negated, ranges=True)
        if not codes:
            raise refused("an empty character class", token, "list a character, or write . for any")
        return Regexp(f"[{'^' if negated else ''}{_class_items(codes, token)}]", "", place_of(token))

    def any_char(self, parts: list[Token]) -> Expr:
        return Regexp("(?s:.)", "", place_of(parts[0]))

    def token(self, parts: list[Token]) -> Expr:
        raise refused(f"{parts[0]} writes a token, not text", parts[0], "in double quotes it is text")

    def look(self, parts: list[Any]) -> Expr:
        raise refused("look-around is not supported", parts[0], "write rules for what follows")


_ESCAPES = {"n": 10, "r": 13, "t": 9, "\\": 92, '"': 34, "[": 91, "]": 93, "-": 45, "^": 94, "/": 47}
_DASH = -1  # a dash between two characters of a class


def _codes(token: Token, skip: int, *, ranges: bool = False) -> list[int]:
    """Return the code points between the brackets or quotes of a token; the dash of a range is `_DASH`."""
    text, at = str(token), skip
    out: list[int] = []
    while at < len(text) - 1:
        char = text[at]
        if char == "-" and ranges and out and out[-1] != _DASH and at + 2 < len(text):
            out.append(_DASH)
            at += 1
        elif char != "\\":
            out.append(ord(char))
            at += 1
        else:
            code, at = _escape(token, text, at)
            out.append(code)
    if any(0xD800 <= code <= 0xDFFF or code > 0x10FFFF for code in out):
        raise refused("not a character", token, "code points end at 10FFFF, without D800 to DFFF")
    return out


def _escape(token: Token, text: str, at: int) -> tuple[int, int]:
    kind = text[at + 1]
    size = {"x": 2, "u": 4, "U": 8}.get(kind)
    if size is None:
        if kind not in _ESCAPES:
            raise refused(f"unknown escape \\{kind}", token, f"write {kind} alone, or its code as \\x{ord(kind):02X}")
        return _ESCAPES[kind], at + 2
    digits = text[at + 2 : at + 2 + size]
    if not re.fullmatch(f"[0-9a-fA-F]{{{size}}}", digits):
        raise refused(f"\\{kind} needs {size} hexadecimal digits", token, "put zeros in front")
    return int(digits, 16), at + 2 + size


def _class_items(codes: list[int], token: Token) -> str:
    out: list[str] = []
    i = 0
    while i < len(codes):
        if i + 2 < len(codes) and codes[i + 1] == _DASH:
            if codes[i] > codes[i + 2]:
                raise refused("a range in the wrong order", token, "put the smaller character first")
            out.append(f"\\x{{{codes[i]:x}}}-\\x{{{codes[i + 2]:x}}}")
            i += 3
        else:
            out.append(f"\\x{{{codes[i]:x}}}")
            i += 1
    return "".join(out)
