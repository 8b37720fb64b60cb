"""Divides the rules of a GBNF grammar into Lark terminals and Lark rules.

GBNF has no lexer: any division of the characters is valid.  The engine's lexer is greedy, so a rule becomes a terminal
only if nothing that follows it (or one of its alternatives) could also be part of it.  Otherwise it stays a rule whose
characters are separate lexemes, which loses no text and costs some speed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from grammars.limits.work import WORK, Work
from grammars.regular.languages import lengths
from grammars.text_grammars.lark.ast import (
    Definition,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    SeqExpr,
    map_parts,
)
from grammars.text_grammars.lark.check import MAX_ATOMS, check_names
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages, swallowing_lexemes
from special_tokens.errors import GrammarError

__all__ = ["as_lark"]

#: Grammars with more definitions are not analysed and keep all their terminals, which are greedy.
_MAX_ANALYSED = 300

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
            losers = swallowing_lexemes(source, work) if len(source.definitions) <= _MAX_ANALYSED else []
            if not losers:
                return source
            for loser in losers:
                if isinstance(loser, Literal) and len(loser.text) > MAX_ATOMS:
                    line, column = loser.at
                    raise GrammarError(
                        "the literal may continue into what follows it, and is too long to be split into characters",
                        line=line,
                        column=column,
                        expected=f"at most {MAX_ATOMS} characters",
                    )
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


def _regular_rules(uses: Mapping[str, Mapping[str, Name]]) -> frozenset[str]:
    """Return the rules that are not recursive and use no recursive rule."""
    regular: set[str] = set()
    for group in components(uses):
        if len(group) == 1 and regular.issuperset(uses[group[0]]):
            regular.add(group[0])
    return frozenset(regular)
