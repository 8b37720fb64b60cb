"""Greedy lexemes: their languages, and those of grammar nodes.

The engine's lexer takes the longest lexeme and never backtracks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from grammars.regular.compact import CompactAlphabet
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import NotTranslated, approximate_language, language
from grammars.regular.terms import (
    ALL,
    MAX_CODE_POINT,
    NONE,
    Regular,
    alt,
    borders,
    cat,
    chars,
    derivative_classes,
    derive,
    inter,
    neg,
    rep,
    text,
)
from grammars.text_grammars.lark.ast import (
    AltExpr,
    AndExpr,
    Expr,
    JsonExpr,
    KnownLexeme,
    LarkGrammar,
    Literal,
    Name,
    NotExpr,
    Regexp,
    Repeated,
    SeqExpr,
)
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.tree.nodes import Alt, And, Group, Lexeme, Node, Not, Pattern, Ref, Repeat, RuleDef, Seq, Text
from grammars.values.spelling import Spelling

__all__ = [
    "CLOSE",
    "LexemeLanguages",
    "class_representatives",
    "derivatives",
    "json_language",
    "moves",
    "node_language",
    "shortest_texts",
    "shown_lexeme",
]

#: A character of no text: the end of a lexeme that nothing goes on with.
CLOSE = chars([(-1, -1)])
#: Any text of one line, as JSON is without white space: strings have no line breaks.
_LINE = rep(chars([(0x20, MAX_CODE_POINT)]), 0, None)

#: Parts of a lexeme with the terminals that it names expanded; larger ones are not analysed.
_MAX_PARTS = 25_000


class LexemeLanguages:
    """The languages of a grammar's lexemes; each terminal is computed once, after those that it uses.

    With ``compared_with``, which are other terms, characters that nothing in the grammar and in these tells apart are
    one (`CompactAlphabet`): such languages are compared, not written.  ``at_most``: what only the engine understands is
    any character, so that a language may be larger than it is.
    """

    def __init__(
        self, source: LarkGrammar, compared_with: Iterable[Regular] | None = None, *, at_most: bool = False
    ) -> None:
        self._at_most = at_most
        self._languages: dict[Expr, Regular | None] = {}
        self._terminals: dict[str, Regular | None] = {}
        self.alphabet: CompactAlphabet | None = None
        if compared_with is not None:
            kinds = Literal | Regexp | JsonExpr | KnownLexeme
            parts = (expr for expr in source.walk() if isinstance(expr, kinds))
            terms = [term for part in parts if (term := self.of(part)) is not None]
            self.alphabet = CompactAlphabet([*terms, *compared_with])
            self._languages.clear()
        terminals = {d.name: d for d in source.definitions if d.is_terminal}
        for group in components(uses_of(terminals.values())):
            for name in group:
                self._terminals[name] = self.of(terminals[name].body)
        for rule in source.definitions:
            if rule.is_lexeme_rule:
                term = self.of(rule.whole)
                self._terminals[rule.name] = None if term is None else shortest_texts(term)

    def of(self, lexeme: Expr) -> Regular | None:
        """Return the language of a lexeme; None if it is unknown or too large to analyse."""
        if lexeme not in self._languages:
            try:
                self._languages[lexeme] = self._language(lexeme)
            except (InvalidRegex, NotTranslated, RecursionError):
                self._languages[lexeme] = None
        return self._languages[lexeme]

    def compact(self, term: Regular) -> Regular:
        """Return the term over the languages' own alphabet."""
        return term if self.alphabet is None else self.alphabet.compact(term)

    def may_be_empty(self, lexeme: Expr) -> bool:
        term = self.of(lexeme)
        return term is not None and term.nullable

    def _language(self, expr: Expr) -> Regular:
        match expr:
            case Literal(text=word, ignore_case=ignore_case):
                return self.compact(_any_case(word) if ignore_case else text(word))
            case Regexp(regex=regex, flags=flags):
                return self.compact((approximate_language if self._at_most else language)(regex, flags))
            case KnownLexeme(language=term) | JsonExpr(language=term) if term is not None:
                return self.compact(term)
            case Name(name=name):
                terminal = self._terminals.get(name)
                if terminal is None:
                    raise NotTranslated(name)
                return terminal
            case SeqExpr(parts=parts):
                return _small(cat(*map(self._language, parts)))
            case AltExpr(options=options):
                return _small(alt(*map(self._language, options)))
            case AndExpr(parts=parts):
                return _small(inter(*map(self._language, parts)))
            case NotExpr(body=body) if not self._at_most:
                return inter(self.compact(ALL), neg(self._language(body)))
            case Repeated(body=body, least=least, most=most):
                return rep(self._language(body), least, most)
        raise NotTranslated(type(expr).__name__)


def shortest_texts(term: Regular) -> Regular:
    """Return the texts of which no beginning is a text, as a lazy lexeme ends at the first."""
    return inter(term, neg(cat(term, chars([(0, MAX_CODE_POINT)]), ALL)))


def _small(term: Regular) -> Regular:
    """Return ``term``, or raise `NotTranslated` if it is too large: terminals may double with each definition."""
    if term.size > _MAX_PARTS:
        raise NotTranslated("too large to analyse")
    return term


def _any_case(word: str) -> Regular:
    return cat(*(chars([(ord(c), ord(c)) for c in {char, char.lower(), char.upper()} if len(c) == 1]) for char in word))


def shown_lexeme(lexeme: Expr) -> str:
    match lexeme:
        case Name(name=name):
            return name
        case Regexp(regex=regex):
            return f"/{regex[:40]}/"
        case Literal(text=word):
            return repr(word[:40])
        case KnownLexeme(shown=shown):
            return shown
    return "a JSON value" if isinstance(lexeme, JsonExpr) else "a lexeme"


def node_language(node: Node) -> Regular:
    """Return the texts of a terminal node; what only the engine understands is any character."""
    match node:
        case Text(text=word):
            return text(word)
        case Pattern(regex=regex):
            return approximate_language(regex)
        case Lexeme(body=body):
            return node_language(body)
        case Not(body=body):
            return neg(node_language(body))
        case Repeat(body=body, least=least, most=most):
            return rep(node_language(body), least, most)
        case Seq(parts=parts) | Alt(options=parts) | And(parts=parts):
            return {Seq: cat, Alt: alt, And: inter}[type(node)](*map(node_language, parts))
    raise TypeError(f"not a terminal node: {node!r}")


def json_language(node: Node, spelling: Spelling) -> Regular:
    """Return the JSON values of ``node``, which our own compiler of schemas made.

    Numbers, true, false and null are written out; another value is its first character, any text and `CLOSE`.
    """
    return alt(*_json_values(node, {}, ALL if spelling.max_whitespace else _LINE))


def _json_values(node: Node, rules: dict[str, RuleDef], inner: Regular) -> Iterator[Regular]:
    match node:
        case Lexeme(name="integer"):
            yield language("-?(?:0|[1-9][0-9]*)")  # without the bound of our lexeme, which is too much to search
        case Lexeme(name="number") | Text("null" | "false" | "true"):
            yield node_language(node)
        case Text() | Lexeme():
            yield cat(text(node.text[0] if isinstance(node, Text) else '"'), inner, CLOSE)
        case Seq(parts=(first, *_)):
            yield from _json_values(first, rules, inner)
        case Group(start=start, rules=inner_rules):
            yield from _json_values(start, dict(inner_rules), inner)
        case Ref(name=name) if name in rules:
            yield from _json_values(rules.pop(name).body, rules, inner)
        case Alt(options=options):
            for option in options:
                yield from _json_values(option, rules, inner)


def class_representatives(*terms: Regular) -> list[int]:
    """Return one code point of every class that the terms distinguish; no surrogates, which text never contains."""
    edges = {0} | {edge for term in terms for edge in borders(term) if edge <= MAX_CODE_POINT}
    return sorted({code if not 0xD800 <= code <= 0xDFFF else 0xE000 for code in edges})


@lru_cache(maxsize=10_000)
def moves(term: Regular) -> list[tuple[int, int, Regular]]:
    """Return the ranges of characters that the term may begin with, each with what follows there."""
    classes = ((low, high, derive(term, low)) for low, high in derivative_classes(term))
    return [move for move in classes if move[2] != NONE]


def derivatives(term: Regular) -> Iterator[Regular]:
    """Yield what may follow a first character of the term."""
    return (after for _, _, after in moves(term))
