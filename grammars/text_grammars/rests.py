"""Shortest texts of clients' grammars: of the whole, and of the rest of each rule in which something is written.

They are computed from the rules alone: the engine's lexer may still refuse one, which only its masks show.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from grammars.regular.languages import shortest
from grammars.text_grammars.gbnf.convert import gbnf_to_lark
from grammars.text_grammars.lark.ast import (
    AltExpr,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    Repeated,
    SeqExpr,
)
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages
from grammars.text_grammars.lark.parser import parse
from special_tokens.errors import GrammarError

__all__ = ["GrammarTexts", "grammar_texts"]

_MAX_LENGTH, _MAX_REST_LENGTH = 4_096, 256  # characters
#: Rests of one grammar, and items of a counted repeat that a rest may hold.
_MAX_TEXTS, _MAX_ITEMS = 512, 16
#: Times that rules which lead back to themselves are read.
_MAX_PASSES = 8
#: Parts of a rule that are compared to tell whether it may end after them.
_PREFIX_PARTS = 8


class GrammarTexts(NamedTuple):
    """A shortest text of a grammar, and of the rests of its rules, each of which must follow once the rule has begun.

    ``ends``: the texts that end lazy rules.
    """

    whole: str | None = None
    rests: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def grammar_texts(kind: str, source: str) -> GrammarTexts:
    """Return the texts of a grammar in Lark or GBNF; none where only the engine reads it."""
    try:
        return _Texts(gbnf_to_lark(source) if kind == "gbnf" else parse(source)).texts()
    except (GrammarError, RecursionError):
        return GrammarTexts()


class _Texts:
    def __init__(self, grammar: LarkGrammar) -> None:
        named = grammar.by_name()
        self._definitions = [named[name] for group in components(uses_of(named.values())) for name in group]
        self._lexemes = LexemeLanguages(grammar)
        self._shortest: dict[str, str] = {}  # a shortest text of a rule or terminal
        self._words: dict[Expr, str | None] = {}

    def texts(self) -> GrammarTexts:
        for _ in range(_MAX_PASSES):
            is_new = False
            for definition in self._definitions:  # each after those that it names
                text, previous = self._text(definition.whole), self._shortest.get(definition.name)
                if text is not None and len(text) <= _MAX_LENGTH and (previous is None or len(text) < len(previous)):
                    self._shortest[definition.name], is_new = text, True
            if not is_new:
                break
        rules = [definition for definition in self._definitions if not definition.is_terminal]
        lazy = (rule.name for rule in rules if any(attribute.name == "lazy" for attribute in rule.attributes))
        ends = tuple(self._shortest[name] for name in lazy if self._shortest.get(name))
        rests: dict[str, None] = {}
        for rule in rules:
            options = rule.body.options if isinstance(rule.body, AltExpr) else (rule.body,)
            parts = (option.parts if isinstance(option, SeqExpr) else (option,) for option in options)
            whole = {(Name(rule.name),), *(option for option in parts if len(option) <= _PREFIX_PARTS)}
            for option in options:
                rests |= dict.fromkeys(filter(None, self._rests(option, "", whole, ())))
        return GrammarTexts(self._shortest.get("start"), tuple(sorted(rests, key=len)[:_MAX_TEXTS]), ends)

    def _text(self, expr: Expr) -> str | None:
        match expr:
            case Literal(text=text):
                return text
            case Name(name=name):
                return self._shortest.get(name)
            case SeqExpr(parts=parts):
                whole = ""
                for part in parts:
                    part_text = self._text(part)
                    if part_text is None or len(whole) + len(part_text) > _MAX_LENGTH:
                        return None
                    whole += part_text
                return whole
            case AltExpr(options=options):
                return min((text for text in map(self._text, options) if text is not None), key=len, default=None)
            case Repeated(body=body, least=least):
                once = self._text(body) if least else ""
                return None if once is None or len(once) * least > _MAX_LENGTH else once * least
        if expr not in self._words:
            language = self._lexemes.of(expr)
            word = shortest(language) if language is not None else None
            self._words[expr] = word if isinstance(word, str) else None
        return self._words[expr]

    def _rests(self, expr: Expr, tail: str, whole: set[tuple[Expr, ...]], before: tuple[Expr, ...]) -> Iterator[str]:
        """Yield the rest of an option of a rule from each place in ``expr`` on, after which ``tail`` comes.

        ``before`` is what has been written of the option; if ``whole`` contains it, the option is complete.
        """
        match expr:
            case SeqExpr(parts=parts):
                for at in reversed(range(len(parts))):
                    begun = (*before, *parts[: min(at, _PREFIX_PARTS + 1)])
                    yield from self._rests(parts[at], tail, whole, begun)
                    text = self._text(parts[at])
                    if text is None or len(text) + len(tail) > _MAX_REST_LENGTH:
                        return
                    tail = text + tail
                    if begun and (len(begun) > _PREFIX_PARTS or begun not in whole):
                        yield tail
            case AltExpr(options=options):
                for option in options:
                    yield from self._rests(option, tail, whole, before)
            case Repeated(body=body, least=least):
                if item := self._text(body):
                    most = min(least - 1, _MAX_ITEMS - 1, (_MAX_REST_LENGTH - len(tail)) // len(item))
                    yield from (item * number + tail for number in range(1, most + 1))
                yield from self._rests(body, tail, whole, before if least else ())
