"""Divides the rules of a GBNF grammar into Lark terminals and Lark rules.

GBNF has no lexer: any division of the characters is valid.  The engine's lexer is greedy, so a rule becomes a terminal
only if nothing that follows it (or one of its alternatives) could also be part of it.  Otherwise it stays a rule whose
characters are separate lexemes, which loses no text and costs some speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.languages import lengths
from grammars.text_grammars.lark.ast import (
    Definition,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    SeqExpr,
    error_at,
    map_parts,
)
from grammars.text_grammars.lark.check import MAX_ATOMS, check_names
from grammars.text_grammars.lark.follow_sets import FollowSets
from grammars.text_grammars.lark.graph import components, reach, users_of, uses_of
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages
from grammars.text_grammars.lark.lost_texts import LexerWalk

__all__ = ["MAX_ANALYSED", "as_lark"]

#: Grammars with more definitions are not analysed and keep all their terminals, which are greedy.
MAX_ANALYSED = 300

#: Limits of a rule that becomes a terminal, with the rules that it names: parts, and its shortest text.
_MAX_PARTS, _MAX_LEAST = 8_000, 4_000


def as_lark(definitions: list[Definition]) -> LarkGrammar:
    """Return the grammar as Lark that begins at ``start``; raise `GrammarError` for undefined or duplicate rules."""
    return _Converted(definitions).source()


@dataclass
class _Converted:
    """One conversion: the rules that are terminals, and the literals that are split into characters."""

    definitions: list[Definition]
    uses: Mapping[str, Mapping[str, Name]] = field(default_factory=dict)
    terminals: set[str] = field(default_factory=set)
    split: set[str] = field(default_factory=set)

    def source(self) -> LarkGrammar:
        """Return the grammar with as many terminals as the engine's greedy lexer can separate from what follows."""
        check_names(LarkGrammar(tuple(self.definitions)), "root", "root ::= ...")
        self.uses = uses_of(self.definitions)
        self.terminals = set(_regular_rules(self.uses))
        names = self._new_names()
        self._demote(self._large(names))
        work = Work(WORK.lexemes)
        while True:
            source = self._written(names)
            losers = _longer_lexemes(source, work) if len(source.definitions) <= MAX_ANALYSED else []
            if not losers:
                return source
            for loser in losers:
                if isinstance(loser, Literal) and len(loser.text) > MAX_ATOMS:
                    what = "the literal may continue into what follows it, and is too long to be split into characters"
                    raise error_at(loser.at, what, expected=f"at most {MAX_ATOMS} characters")
            self.split |= {loser.text for loser in losers if isinstance(loser, Literal)}
            lost = {loser.name for loser in losers if isinstance(loser, Name)}
            self._demote({rule for rule in names if names[rule].upper() in lost})

    def _large(self, names: dict[str, str]) -> set[str]:
        """Return the rules that are too large for a lexeme when the rules that they name are expanded."""
        languages = LexemeLanguages(self._written(names))

        def is_large(rule: str) -> bool:
            term = languages.of(Name(self._name(rule, names)))
            return term is None or term.size > _MAX_PARTS or lengths(term)[0] > _MAX_LEAST

        return set(filter(is_large, self.terminals))

    def _demote(self, rules: set[str]) -> None:
        """Turn terminals into rules, and with them the terminals that use them: terminals may use only terminals."""
        users = users_of(self.uses)
        for rule in reach(rules, users.__getitem__):
            self.terminals.discard(rule)

    def _new_names(self) -> dict[str, str]:
        """Return unique names that are valid in Lark; a terminal's is the same in upper case."""
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

    def _written(self, names: dict[str, str]) -> LarkGrammar:
        begin = Definition("start", Name(self._name("root", names)))
        return LarkGrammar(
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
                return Name(self._name(name, names), at)
            case Literal(text=text, at=at) if not terminal and text in self.split:
                return SeqExpr(tuple(Literal(char, False, at) for char in text))
        return map_parts(expr, partial(self._expr, names=names, terminal=terminal))


def _longer_lexemes(source: LarkGrammar, work: Work) -> list[Expr]:
    """Return the lexemes of several characters that the lexer may read on where others end; past ``work`` all."""
    lexemes: Iterable[Expr | None]
    try:
        lexemes = LexerWalk(source, work).longer
    except TooMuch:
        lexemes = FollowSets(source).lexemes
    languages = LexemeLanguages(source)
    known = ((lexeme, languages.of(lexeme)) for lexeme in lexemes if lexeme is not None)
    return [lexeme for lexeme, term in known if term is None or lengths(term)[1] != 1]


def _regular_rules(uses: Mapping[str, Mapping[str, Name]]) -> frozenset[str]:
    """Return the rules that are not recursive and use no recursive rule."""
    regular: set[str] = set()
    for group in components(uses):
        if len(group) == 1 and regular.issuperset(uses[group[0]]):
            regular.add(group[0])
    return frozenset(regular)
