"""GBNF, the grammars of llama.cpp (and the EBNF of XGrammar), to the Lark that the engine reads.

GBNF knows no lexer: any split of the characters counts.  The engine's lexer is greedy, so a rule becomes a terminal
only where nothing that follows it (or one of its alternatives) could also be part of it; else it stays a rule whose
characters are lexemes of their own, which loses no text and costs some speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import lark
from lark import Token, Transformer
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from grammars.lark_source import ClientGrammar, check_ends, located
from grammars.lark_source.ast import (
    AltExpr,
    Definition,
    Expr,
    Literal,
    Name,
    Place,
    Regexp,
    Repeated,
    SeqExpr,
    Source,
    walk,
)
from grammars.lark_source.check import MAX_ATOMS, check, check_shape, check_size
from grammars.lark_source.graph import components, uses_of
from grammars.lark_source.lexer import check_tokens
from grammars.lark_source.parser import repeat_count
from grammars.lark_source.sizes import terminal_sizes
from grammars.lark_source.traps import Work, swallowing
from grammars.lark_source.write import Writing, write
from special_tokens.errors import GrammarError, shown

__all__ = ["gbnf_grammar", "gbnf_source"]

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
    if not isinstance(text, str) or not text.strip():
        raise GrammarError("the grammar is empty", expected="GBNF with a rule called root")
    check_size(text)
    try:
        definitions: list[Definition] = _PARSER.parse(text)
    except UnexpectedToken as error:
        raise _unexpected(error, text) from None
    check_shape(Source(tuple(definitions)))
    return _Converted(definitions).source()


def _no_schema(schema: Any) -> str:
    raise AssertionError("GBNF holds no schemas")


# -- reading


class _OwnLexer(Lexer):
    def __init__(self, conf: Any) -> None:
        del conf

    def lex(self, data: str) -> Iterator[Token]:
        at, line, begin, number = 0, 1, 0, 0
        while at < len(data):
            match = _SCANNER.match(data, at)
            if match is None:
                raise GrammarError(f"unexpected {shown(data[at])}", line=line, column=at - begin + 1)
            if match.lastgroup != "SKIP":
                token = Token(str(match.lastgroup), match.group(), at, line, at - begin + 1)
                check_tokens(number, token)
                number += 1
                yield token
            newlines = data.count("\n", at, match.end())
            if newlines:
                line += newlines
                begin = data.rindex("\n", at, match.end()) + 1
            at = match.end()


def _unexpected(error: UnexpectedToken, text: str) -> GrammarError:
    token = error.token
    if token.type == "$END":
        line = text.count("\n") + 1
        return GrammarError("the grammar ends too early", line=line, column=len(text.split("\n")[-1]) + 1)
    expected = "name ::= ..." if "HEAD" in error.expected and "VBAR" not in error.expected else ""
    return GrammarError(f"unexpected {shown(str(token)[:40])}", line=token.line, column=token.column, expected=expected)


class _Values(Transformer):
    def start(self, rules: list[Definition]) -> list[Definition]:
        return rules

    def rule(self, parts: list[Any]) -> Definition:
        head, body = parts
        return Definition(str(head)[:-3].strip(), body, at=_place(head))

    def alternatives(self, parts: list[Any]) -> Expr:
        options = tuple(part for part in parts if not (isinstance(part, Token) and part.type == "VBAR"))
        return options[0] if len(options) == 1 else AltExpr(options)

    def sequence(self, parts: list[Any]) -> Expr:
        return parts[0] if len(parts) == 1 else SeqExpr(tuple(parts))

    def repeated(self, parts: list[Any]) -> Expr:
        body, *quantifiers = parts
        for quantifier in quantifiers:
            body = _repeat(body, quantifier)
        return body  # type: ignore[no-any-return]

    def group(self, parts: list[Any]) -> Expr:
        return parts[1]  # type: ignore[no-any-return]

    def reference(self, parts: list[Token]) -> Expr:
        return Name(str(parts[0]), None, _place(parts[0]))

    def literal(self, parts: list[Token]) -> Expr:
        return Literal("".join(map(chr, _codes(parts[0], 1))), False, _place(parts[0]))

    def char_class(self, parts: list[Token]) -> Expr:
        token = parts[0]
        negated = str(token)[1:2] == "^"
        codes = _codes(token, 1 + negated, ranges=True)
        if not codes:
            raise GrammarError("an empty character class", line=token.line, column=token.column)
        return Regexp(f"[{'^' if negated else ''}{_class_items(codes, token)}]", "", _place(token))

    def any_char(self, parts: list[Token]) -> Expr:
        return Regexp("(?s:.)", "", _place(parts[0]))

    def token(self, parts: list[Token]) -> Expr:
        raise _refused(f"{parts[0]} writes a token, not text", parts[0], "in double quotes it is text")

    def look(self, parts: list[Any]) -> Expr:
        raise _refused("look-around is not supported", parts[0], "")


def _place(token: Token) -> Place:
    return token.line or 0, token.column or 0


def _refused(message: str, token: Token, hint: str) -> GrammarError:
    return GrammarError(message, line=token.line or 0, column=token.column or 0, hint=hint)


def _repeat(body: Expr, quantifier: Token) -> Expr:
    text = str(quantifier)
    if text in "*+?":
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
    else:
        low, comma, high = text.strip("{}").partition(",")
        if not low.strip() and not high.strip():
            raise _refused("a repeat needs a number", quantifier, "write {2}, {2,} or {2,5}")
        least = repeat_count(low, quantifier)
        most = (repeat_count(high, quantifier) if high.strip() else None) if comma else least
    if most is not None and most < least:
        raise _refused(f"a repeat from {least} to {most} times", quantifier, "")
    return SeqExpr(()) if most == 0 else Repeated(body, least, most, _place(quantifier))


_ESCAPES = {"n": 10, "r": 13, "t": 9, "\\": 92, '"': 34, "[": 91, "]": 93, "-": 45, "^": 94, "/": 47}
_DASH = -1  # a dash between two characters of a class


def _codes(token: Token, skip: int, *, ranges: bool = False) -> list[int]:
    """The code points between the brackets or quotes of a token; a dash that spans a range is `_DASH`."""
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
        raise _refused("not a character", token, "")
    return out


def _escape(token: Token, text: str, at: int) -> tuple[int, int]:
    kind = text[at + 1]
    size = {"x": 2, "u": 4, "U": 8}.get(kind)
    if size is None:
        if kind not in _ESCAPES:
            raise _refused(f"unknown escape \\{kind}", token, "")
        return _ESCAPES[kind], at + 2
    digits = text[at + 2 : at + 2 + size]
    if not re.fullmatch(f"[0-9a-fA-F]{{{size}}}", digits):
        raise _refused(f"\\{kind} needs {size} hexadecimal digits", token, "")
    return int(digits, 16), at + 2 + size


def _class_items(codes: list[int], token: Token) -> str:
    out: list[str] = []
    i = 0
    while i < len(codes):
        if i + 2 < len(codes) and codes[i + 1] == _DASH:
            if codes[i] > codes[i + 2]:
                raise _refused("a range in the wrong order", token, "")
            out.append(f"\\x{{{codes[i]:x}}}-\\x{{{codes[i + 2]:x}}}")
            i += 3
        else:
            out.append(f"\\x{{{codes[i]:x}}}")
            i += 1
    return "".join(out)


# -- rules to terminals


@dataclass
class _Converted:
    """One conversion: which rules are terminals, which literals are written character by character."""

    definitions: list[Definition]
    uses: Mapping[str, Mapping[str, Name]] = field(default_factory=dict)
    terminals: set[str] = field(default_factory=set)
    split: set[str] = field(default_factory=set)

    def source(self) -> Source:
        """The most terminals with which every neighbour can be told apart by the engine's greedy lexer."""
        self._check_names()
        self.uses = uses_of(self.definitions)
        self.terminals = set(_regular_rules(self.uses))
        self._demote(self._large())
        names = self._new_names()
        work = Work()
        while True:
            source = self._written(names)
            losers = swallowing(source, work) if len(source.definitions) <= _MAX_LOOKED_INTO else []
            if not losers:
                return source
            for loser in losers:
                if isinstance(loser, Literal) and len(loser.text) > MAX_ATOMS:
                    line, column = loser.at
                    raise GrammarError(
                        "the literal may go on into what follows it, and is too long to be told apart",
                        line=line,
                        column=column,
                        expected=f"at most {MAX_ATOMS} characters",
                    )
            self.split |= {loser.text for loser in losers if isinstance(loser, Literal)}
            lost = {loser.name for loser in losers if isinstance(loser, Name)}
            self._demote({rule for rule in names if names[rule].upper() in lost})

    def _large(self) -> set[str]:
        """Rules that are too large for a lexeme when what they name is written out in them."""
        regular = {d.name: d for d in self.definitions if d.name in self.terminals}
        sizes = terminal_sizes(regular)
        return {
            name
            for name, size in sizes.items()
            if size.parts > _MAX_PARTS or size.least > _MAX_LEAST or size.optional > _MAX_OPTIONAL
        }

    def _demote(self, rules: set[str]) -> None:
        """Make rules of terminals, and of the terminals that hold one: a terminal holds terminals only."""
        users: dict[str, list[str]] = {name: [] for name in self.uses}
        for name, used in self.uses.items():
            for other in used:
                users[other].append(name)
        waiting = list(rules)
        while waiting:
            name = waiting.pop()
            if name in self.terminals:
                self.terminals.discard(name)
                waiting += users[name]

    def _check_names(self) -> None:
        seen: dict[str, Place] = {}
        for definition in self.definitions:
            if definition.name in seen:
                line, column = definition.at
                hint = f"first in line {seen[definition.name][0]}"
                raise GrammarError(f"{shown(definition.name)} is defined twice", line=line, column=column, hint=hint)
            seen[definition.name] = definition.at
        if "root" not in seen:
            raise GrammarError("there is no rule called root", expected="root ::= ...")
        for definition in self.definitions:
            for expr in walk(definition.body):
                if isinstance(expr, Name) and expr.name not in seen:
                    line, column = expr.at
                    raise GrammarError(f"{shown(expr.name)} is not defined", line=line, column=column)

    def _new_names(self) -> dict[str, str]:
        """Names that Lark can say, each once; a terminal's is the same in upper case."""
        out: dict[str, str] = {}
        taken = {"start"}
        for definition in self.definitions:
            base = re.sub(r"[^a-z0-9]+", "_", definition.name.lower()).strip("_") or "rule"
            base = f"n{base}" if base[0].isdigit() else base
            name, number = base, 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            out[definition.name] = name
        return out

    def _written(self, names: dict[str, str]) -> Source:
        begin = Definition("start", Name(self._name("root", names)))
        return Source(
            (begin, *(
                Definition(self._name(d.name, names), self._expr(d.body, names, d.name in self.terminals), at=d.at)
                for d in self.definitions
            ))
        )  # fmt: skip

    def _name(self, rule: str, names: dict[str, str]) -> str:
        return names[rule].upper() if rule in self.terminals else names[rule]

    def _expr(self, expr: Expr, names: dict[str, str], terminal: bool) -> Expr:
        match expr:
            case Name(name=name, at=at):
                return Name(self._name(name, names), None, at)
            case Literal(text=text, at=at) if not terminal and text in self.split:
                return SeqExpr(tuple(Literal(char, False, at) for char in text))
            case SeqExpr(parts=parts):
                return SeqExpr(tuple(self._expr(part, names, terminal) for part in parts))
            case AltExpr(options=options):
                return AltExpr(tuple(self._expr(option, names, terminal) for option in options))
            case Repeated(body=body, least=least, most=most, at=at):
                return Repeated(self._expr(body, names, terminal), least, most, at)
        return expr


#: Larger grammars keep all their terminals: between two of them the first is greedy.
_MAX_LOOKED_INTO = 300


#: What a rule that is still a terminal comes to at most, with those that it names: parts, bytes of its shortest text,
#: and parts in a row that may be empty.
_MAX_PARTS, _MAX_LEAST, _MAX_OPTIONAL = 25_000, 4_000, 500


def _regular_rules(uses: Mapping[str, Mapping[str, Name]]) -> frozenset[str]:
    """The rules that never lead back to themselves, nor to a rule that does."""
    found: set[str] = set()
    for group in components(uses):
        if len(group) == 1 and found.issuperset(uses[group[0]]):
            found.add(group[0])
    return frozenset(found)


_PARSER = lark.Lark(_GRAMMAR, parser="lalr", lexer=_OwnLexer, transformer=_Values(), maybe_placeholders=False)
