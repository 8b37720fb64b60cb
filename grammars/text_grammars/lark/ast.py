"""The syntax tree of a Lark grammar, as `grammars.text_grammars.lark.parser` returns it.

Positions (``at``) are pairs of line and column, both from 1; they are ignored in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from grammars.regular.terms import Regular
from special_tokens.errors import GrammarError

__all__ = [
    "LEXEME_ATTRIBUTES",
    "AltExpr",
    "AndExpr",
    "Attribute",
    "Definition",
    "Expr",
    "Ignore",
    "JsonExpr",
    "KnownLexeme",
    "LarkGrammar",
    "Literal",
    "Name",
    "NotExpr",
    "Refused",
    "RegexExt",
    "Regexp",
    "Repeated",
    "RoleMark",
    "SeqExpr",
    "SourcePlace",
    "error_at",
    "is_lexeme",
    "map_lexemes",
    "map_parts",
    "parts_of",
    "walk",
]

SourcePlace: TypeAlias = tuple[int, int]

LEXEME_ATTRIBUTES = ("lazy", "suffix")


def error_at(at: SourcePlace, message: str, *, expected: str = "", hint: str = "", place: str = "") -> GrammarError:
    """Return the error for what is wrong at a place of the text; ``place`` is that of the text in the request."""
    line, column = at
    return GrammarError(message, line=line, column=column, place=place, expected=expected, hint=hint)


@dataclass(frozen=True, slots=True)
class Literal:
    """``"text"``; with the flag ``i`` case is ignored."""

    text: str
    ignore_case: bool = False
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Regexp:
    """``/regex/flags``; slashes in ``regex`` are unescaped."""

    regex: str
    flags: str = ""
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A rule (lower case) or a terminal (upper case)."""

    name: str
    at: SourcePlace = field(default=(0, 0), compare=False)

    @property
    def is_terminal(self) -> bool:
        return is_terminal_name(self.name)


@dataclass(frozen=True, slots=True)
class RoleMark:
    """``$START_ID``: the marker of a role, inserted by `grammars.reasoning`."""

    name: str
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class JsonExpr:
    """``%json {...}``; ``json`` is the text after the keyword, ``lark`` its grammar and ``language`` its values."""

    json: str
    at: SourcePlace = field(default=(0, 0), compare=False)
    lark: str = field(default="", compare=False)
    language: Regular | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KnownLexeme:
    """A lexeme of a structural tag, which is never written as Lark: its language, and how and where errors show it."""

    language: Regular
    shown: str
    place: str = field(default="", compare=False)
    is_lazy: bool = False
    is_text: bool = False  #: free text


@dataclass(frozen=True, slots=True)
class RegexExt:
    """``%regex {...}``: substrings of a text; ``json`` is the text after the keyword."""

    json: str
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """Syntax that only a trusted caller may write: tokens, other grammars, options, templates."""

    why: str
    hint: str
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class SeqExpr:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AltExpr:
    options: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AndExpr:
    parts: tuple[Expr, ...]
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class NotExpr:
    body: Expr
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Repeated:
    """``body`` repeated ``least`` to ``most`` times (None: unbounded)."""

    body: Expr
    least: int
    most: int | None
    at: SourcePlace = field(default=(0, 0), compare=False)


Expr: TypeAlias = (
    Literal
    | Regexp
    | Name
    | RoleMark
    | JsonExpr
    | KnownLexeme
    | RegexExt
    | Refused
    | SeqExpr
    | AltExpr
    | AndExpr
    | NotExpr
    | Repeated
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a rule, as ``lazy`` or ``suffix="..."``; ``value`` is an expression, a number's text or None."""

    name: str
    value: Expr | str | None = None
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """A rule or a terminal."""

    name: str
    body: Expr
    attributes: tuple[Attribute, ...] = ()
    at: SourcePlace = field(default=(0, 0), compare=False)

    @property
    def is_terminal(self) -> bool:
        return is_terminal_name(self.name)

    @property
    def is_lexeme_rule(self) -> bool:
        """Whether it is a rule of which ``lazy`` or ``suffix=`` makes one lexeme."""
        return any(attribute.name in LEXEME_ATTRIBUTES for attribute in self.attributes)

    @property
    def suffix(self) -> Expr | None:
        """The text after the body that ends the rule; None if there is no such attribute."""
        suffixes = (a.value for a in self.attributes if a.name == "suffix" and not isinstance(a.value, str))
        return next(suffixes, None)

    @property
    def whole(self) -> Expr:
        """The body with its suffix."""
        return self.body if self.suffix is None else SeqExpr((self.body, self.suffix))

    @property
    def is_lexeme(self) -> bool:
        return self.is_terminal or self.is_lexeme_rule


@dataclass(frozen=True, slots=True)
class Ignore:
    body: Expr
    at: SourcePlace = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class LarkGrammar:
    """A whole grammar."""

    definitions: tuple[Definition, ...]
    ignores: tuple[Ignore, ...] = ()
    refused: tuple[Refused, ...] = ()  #: statements

    def by_name(self) -> dict[str, Definition]:
        """Return the definitions by name; of duplicates (which the checks refuse) the last."""
        return {definition.name: definition for definition in self.definitions}

    def walk(self) -> Iterator[Expr]:
        """Yield every expression of the grammar, attributes included."""
        for definition in self.definitions:
            yield from walk(definition.body)
            for attribute in definition.attributes:
                if attribute.value is not None and not isinstance(attribute.value, str):
                    yield from walk(attribute.value)
        for ignore in self.ignores:
            yield from walk(ignore.body)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all expressions inside it, without recursion."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts_of(node)))


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that this one is made of."""
    match expr:
        case SeqExpr(parts=parts) | AltExpr(options=parts) | AndExpr(parts=parts):
            return parts
        case NotExpr(body=body) | Repeated(body=body):
            return (body,)
    return ()


def is_terminal_name(name: str) -> bool:
    """Whether the name is a terminal's: those are upper-case, rules are lower-case."""
    return name.lstrip("_")[:1].isupper()


def is_lexeme(expr: Expr, is_lexeme_rule: Callable[[str], bool] = lambda name: False) -> bool:
    """Whether this is one lexeme inside a rule; ``is_lexeme_rule``: whether a rule is a lexeme (``suffix=``)."""
    match expr:
        case Literal(text=text):
            return bool(text)
        case Regexp() | RegexExt() | AndExpr() | NotExpr() | JsonExpr() | KnownLexeme():
            return True
        case Name(name=name):
            return expr.is_terminal or is_lexeme_rule(name)
        case _:
            return False


def map_lexemes(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression of a rule with ``change`` applied to each of its lexemes."""
    return change(expr) if is_lexeme(expr) else map_parts(expr, partial(map_lexemes, change=change))


def map_parts(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression of a rule with ``change`` applied to what it is made of."""
    match expr:
        case SeqExpr(parts=parts):
            return SeqExpr(tuple(map(change, parts)))
        case AltExpr(options=options):
            return AltExpr(tuple(map(change, options)))
        case Repeated(body=body):
            return replace(expr, body=change(body))
    return expr
