"""Parses the engine's Lark dialect with ``lark``, by a grammar of our own, to a syntax tree.

It accepts more white space than the engine (a line may break inside parentheses); the engine never sees the text,
because `grammars.text_grammars.lark.write` writes it again.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import lark
from lark import Token, Transformer
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from grammars.text_grammars.lark.ast import (
    AltExpr,
    AndExpr,
    Attribute,
    Definition,
    Expr,
    Ignore,
    JsonExpr,
    LarkGrammar,
    Literal,
    Name,
    NotExpr,
    Refused,
    RegexExt,
    Regexp,
    Repeated,
    RoleMark,
    SeqExpr,
    SourcePlace,
    error_at,
)
from grammars.text_grammars.lark.common_terminals import COMMON
from grammars.text_grammars.lark.lexer import KINDS, tokens_of
from special_tokens.errors import GrammarError

__all__ = ["MAX_COUNT", "MAX_TOKENS", "GrammarValues", "lark_parser", "parse", "place_of", "refused", "unexpected"]

#: Tokens of a grammar; the parser takes about 10 us for each.
MAX_TOKENS = 80_000
#: The largest number of a counted repeat in a rule.
MAX_COUNT = 1_000_000

_GRAMMAR = rf"""
start: (item (NEWLINE item)*)?
?item: definition | template | ignore | import_one | import_many | options | override | declare
definition: (RULE | TERMINAL) attributes? priority? COLON alternatives
priority: DOT NUMBER
attributes: LBRACKET [attribute (COMMA attribute)*] RBRACKET
attribute: RULE [EQUALS attribute_value]
?attribute_value: NUMBER | atom
ignore: IGNORE alternatives
import_one: IMPORT path [ARROW name]
import_many: IMPORT path LPAR name (COMMA name)* RPAR
path: DOT? name (DOT name)*
?name: RULE | TERMINAL
template: (RULE | TERMINAL) LBRACE name (COMMA name)* RBRACE priority? COLON alternatives
options: OPTIONS
override: (OVERRIDE | EXTEND) definition
declare: DECLARE name+
alternatives: alternative (VBAR alternative)*
alternative: conjunction [ARROW RULE]
conjunction: sequence (AND sequence)*
sequence: repeated*
repeated: prefixed [quantifier]
prefixed: TILDE prefixed -> negated
        | atom -> plain_atom
?quantifier: OP | TIMES | BRACES
?atom: LPAR alternatives RPAR -> group
     | LBRACKET alternatives RBRACKET -> maybe
     | STRING -> literal
     | STRING DOTDOT STRING -> char_range
     | REGEXP -> regexp
     | (RULE | TERMINAL) -> reference
     | (RULE | TERMINAL) LBRACE alternatives (COMMA alternatives)* RBRACE -> template
     | TOKEN_SYNTAX -> token_syntax
     | GRAMMAR_REF -> grammar_ref
     | ROLE -> role
     | JSON -> json_value
     | REGEX_EXT -> regex_ext
     | NESTED -> nested
%declare {" ".join(KINDS)}
"""


def parse(text: str) -> LarkGrammar:
    """Parse ``text``; raise `GrammarError` with line and column for a syntax error."""
    try:
        source: LarkGrammar = lark_parser(_GRAMMAR, tokens_of, _Values).parse(text)
        return source
    except UnexpectedToken as error:
        waited = [_WORDS[kind] for kind in _WORDS if kind in error.accepts | error.expected]
        raise unexpected(error, text, expected=" or ".join(waited[:4]), hint=_hint(error)) from None


_TRUSTED, _OWN_RULES = "only a trusted caller may write it", "write rules of your own"

#: Expected tokens, as error messages name them.
_WORDS = {
    "COLON": "':'", "NEWLINE": "a new line", "RPAR": "')'", "RBRACKET": "']'", "RBRACE": "'}'", "RULE": "a rule's name",
    "TERMINAL": "a TERMINAL's name", "STRING": "a literal", "NUMBER": "a number", "$END": "the end",
}  # fmt: skip


def _hint(error: UnexpectedToken) -> str:
    kind = error.token.type
    if kind == "PARAMETRIC":
        return "rules with a parameter are for trusted callers"
    if kind == "NEWLINE":
        return "a definition continues on the next line only with '|' or inside parentheses"
    is_stray = kind in ("STRING", "REGEXP") and "COLON" not in error.expected
    return "a definition is NAME: ... on one line, or continues with '|'" if is_stray else ""


def unexpected(error: UnexpectedToken, text: str, *, expected: str, hint: str) -> GrammarError:
    """Return the error of the parser with its place in ``text``."""
    token = error.token
    if token.type == "$END":
        end = text.count("\n") + 1, len(text.rpartition("\n")[2]) + 1
        return error_at(end, "the grammar ends too early", expected=expected, hint=hint)
    shown = "a new line" if token.type == "NEWLINE" else repr(str(token.value)[:40])
    return error_at(place_of(token), f"unexpected {shown}", expected=expected, hint=hint)


def place_of(token: Token) -> SourcePlace:
    return token.line or 0, token.column or 0


def _imported(path: str, name: str, alias: str, at: SourcePlace) -> Definition:
    """Return a terminal of ``common`` as if the grammar defined it, so that all analysis knows its language."""
    if path != "common" or name not in COMMON:
        expected = ", ".join(sorted(COMMON)) if path == "common" else "common.NAME"
        raise error_at(at, f"there is no {path}.{name}", expected=expected)
    return Definition(alias, Regexp(COMMON[name], at=at), at=at)


class GrammarValues(Transformer):
    """Builds the tree while lark parses, so that nothing recurses over a deep tree."""

    def alternatives(self, parts: list[Any]) -> Expr:
        options = tuple(part for part in parts if not _is(part, "VBAR"))
        return options[0] if len(options) == 1 else AltExpr(options)

    def sequence(self, parts: list[Any]) -> Expr:
        return parts[0] if len(parts) == 1 else SeqExpr(tuple(parts))

    def repeated(self, parts: list[Any]) -> Expr:
        body, *quantifiers = parts
        for quantifier in quantifiers if quantifiers != [None] else ():
            least, most = _bounds(quantifier)
            body = SeqExpr(()) if most == 0 else Repeated(body, least, most, place_of(quantifier))
        return body  # type: ignore[no-any-return]

    def group(self, parts: list[Any]) -> Expr:
        return parts[1]  # type: ignore[no-any-return]

    def reference(self, parts: list[Token]) -> Expr:
        return Name(parts[0].value, place_of(parts[0]))


class _Values(GrammarValues):
    def start(self, items: list[Any]) -> LarkGrammar:
        flat: list[Any] = []
        for item in items:
            if _is(item, "NEWLINE"):
                continue
            flat.extend(item) if isinstance(item, list) else flat.append(item)
        return LarkGrammar(
            tuple(item for item in flat if isinstance(item, Definition)),
            tuple(item for item in flat if isinstance(item, Ignore)),
            tuple(item for item in flat if isinstance(item, Refused)),
        )

    # -- statements

    def definition(self, parts: list[Any]) -> Definition:
        head, *middle, body = [part for part in parts if not _is(part, "COLON")]
        attributes = next((part for part in middle if isinstance(part, tuple)), ())
        return Definition(head.value, body, attributes, place_of(head))

    def priority(self, parts: list[Token]) -> Any:
        raise refused("priorities have no meaning here", parts[0], "terminals are matched greedily, all at once")

    def attributes(self, parts: list[Any]) -> tuple[Attribute, ...]:
        return tuple(part for part in parts if isinstance(part, Attribute))

    def attribute(self, parts: list[Any]) -> Attribute:
        name, value = parts[0], parts[2] if len(parts) > 2 else None
        if isinstance(value, Token):
            value = str(value.value)
        return Attribute(name.value, value, place_of(name))

    def ignore(self, parts: list[Any]) -> Ignore:
        return Ignore(parts[1], place_of(parts[0]))

    def path(self, parts: list[Any]) -> str:
        return "".join(part.value for part in parts)

    def import_one(self, parts: list[Any]) -> Definition:
        path, _, name = parts[1].rpartition(".")
        alias = parts[3].value if len(parts) > 3 and parts[3] is not None else name
        return _imported(path, name, alias, place_of(parts[0]))

    def import_many(self, parts: list[Any]) -> list[Definition]:
        names = [part for part in parts[2:] if _is(part, "RULE") or _is(part, "TERMINAL")]
        return [_imported(parts[1], name.value, name.value, place_of(parts[0])) for name in names]

    def options(self, parts: list[Token]) -> Refused:
        return Refused("%llguidance changes the whole plan", _TRUSTED, place_of(parts[0]))

    def override(self, parts: list[Any]) -> Any:
        raise refused(f"{parts[0].value} has no meaning here", parts[0], "write the rule once")

    def declare(self, parts: list[Any]) -> Any:
        raise refused("%declare has no meaning here", parts[0], "define the terminal")

    # -- expressions

    def alternative(self, parts: list[Any]) -> Expr:
        return parts[0]  # type: ignore[no-any-return]  # what follows an arrow names it in lark's tree

    def conjunction(self, parts: list[Any]) -> Expr:
        conjuncts = tuple(part for part in parts if not _is(part, "AND"))
        if len(conjuncts) == 1:
            return conjuncts[0]  # type: ignore[no-any-return]
        return AndExpr(conjuncts, place_of(parts[1]))

    def negated(self, parts: list[Any]) -> Expr:
        return NotExpr(parts[1], place_of(parts[0]))

    def plain_atom(self, parts: list[Any]) -> Expr:
        return parts[0]  # type: ignore[no-any-return]

    def maybe(self, parts: list[Any]) -> Expr:
        return Repeated(parts[1], 0, 1, place_of(parts[0]))

    def literal(self, parts: list[Token]) -> Expr:
        text, ignore_case = _string(parts[0])
        return Literal(text, ignore_case, place_of(parts[0]))

    def char_range(self, parts: list[Token]) -> Expr:
        (first, i), (last, j) = _string(parts[0]), _string(parts[2])
        if i or j or len(first) != 1 or len(last) != 1 or first > last:
            raise refused("a range goes from one character up to another", parts[0], 'write "a".."z"')
        return Regexp(f"[{_in_class(first)}-{_in_class(last)}]", at=place_of(parts[0]))

    def regexp(self, parts: list[Token]) -> Expr:
        regex, _, flags = parts[0].value[1:].rpartition("/")
        return Regexp(_unescape_slashes(regex), flags, place_of(parts[0]))

    def template(self, parts: list[Any]) -> Any:
        raise refused(f"the template {parts[0].value} is not supported", parts[0], "write a rule for each use of it")

    def token_syntax(self, parts: list[Token]) -> Expr:
        role = re.fullmatch(r"<\[\$([A-Z][A-Z_]*)\]>", parts[0].value)
        if role:
            return RoleMark(role[1], place_of(parts[0]))
        text = parts[0].value
        return Refused(f"{text} writes a token, not text", f'"{text}" in quotes is text', place_of(parts[0]))

    def grammar_ref(self, parts: list[Token]) -> Expr:
        return Refused(f"{parts[0].value} references another grammar", _TRUSTED, place_of(parts[0]))

    def role(self, parts: list[Token]) -> Expr:
        return RoleMark(parts[0].value[1:], place_of(parts[0]))

    def json_value(self, parts: list[Token]) -> Expr:
        return JsonExpr(json.dumps(parts[0].value, ensure_ascii=False), place_of(parts[0]))

    def regex_ext(self, parts: list[Token]) -> Expr:
        return RegexExt(json.dumps(parts[0].value, ensure_ascii=False), place_of(parts[0]))

    def nested(self, parts: list[Token]) -> Expr:
        return Refused("a nested grammar (%lark) is not supported", _OWN_RULES, place_of(parts[0]))


def _is(part: Any, kind: str) -> bool:
    return isinstance(part, Token) and part.type == kind


def refused(message: str, token: Token, hint: str) -> GrammarError:
    return error_at(place_of(token), message, hint=hint)


def _bounds(token: Token) -> tuple[int, int | None]:
    text = str(token.value)
    if token.type == "OP":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
    if token.type == "TIMES":
        numbers = [_count(n, token) for n in re.findall(r"[0-9]+", text)]
        least, most = numbers[0], numbers[-1]
    else:
        low, comma, high = text.strip("{}").partition(",")
        if not low.strip() and not high.strip():
            raise refused("a repeat needs a number", token, "write {2}, {2,} or {2,5}")
        least = _count(low, token)
        most = (_count(high, token) if high.strip() else -1) if comma else least
    if most != -1 and most < least:
        raise refused(f"a repeat from {least} to {most} times", token, "write the smaller number first")
    return least, None if most == -1 else most


def _count(digits: str, token: Token) -> int:
    """Return the number of a counted repeat, 0 if there is none; raise `GrammarError` past `MAX_COUNT`."""
    digits = digits.strip().lstrip("0")
    if len(digits) > 7 or int(digits or 0) > MAX_COUNT:
        shown = digits if len(digits) <= 20 else f"{digits[:20]}..."
        raise error_at(place_of(token), f"a repeat of {shown} times", expected=f"at most {MAX_COUNT}")
    return int(digits or 0)


def _string(token: Token) -> tuple[str, bool]:
    text = str(token.value)
    ignore_case = text.endswith("i")
    body = text[:-1] if ignore_case else text
    body = re.sub(r"\\(?:x([0-9a-fA-F]{2})|.)", lambda m: f"\\u00{m[1]}" if m[1] else m[0], body)
    value = json.loads(body)
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise refused("the literal contains a lone surrogate", token, "write text that UTF-8 can encode")
    return value, ignore_case


def _in_class(char: str) -> str:
    return char if char.isalnum() else f"\\x{{{ord(char):x}}}"


def _unescape_slashes(regex: str) -> str:
    return re.sub(r"\\(.)", lambda m: "/" if m[1] == "/" else m[0], regex, flags=re.DOTALL)


@functools.cache
def lark_parser(grammar: str, tokens_of: Callable[[str], Iterator[Token]], values: type[Transformer]) -> lark.Lark:
    """Return lark's parser of our tokens, made when the first grammar comes: its tables take some 30 ms."""

    class OwnLexer(Lexer):
        def __init__(self, conf: Any) -> None:
            del conf

        def lex(self, data: str) -> Iterator[Token]:
            for number, token in enumerate(tokens_of(data)):
                if number >= MAX_TOKENS:
                    raise error_at(place_of(token), "the grammar is too large",
                                   expected=f"at most {MAX_TOKENS} words and signs")  # fmt: skip
                yield token

    return lark.Lark(grammar, parser="lalr", lexer=OwnLexer, transformer=values(), maybe_placeholders=True)
