"""The rules of a GBNF grammar to terminals and rules of Lark.

GBNF knows no lexer: any split of the characters counts.  The engine's lexer is greedy, so a rule becomes a terminal
only where nothing that follows it (or one of its alternatives) could also be part of it; else it stays a rule whose
characters are lexemes of their own, which loses no text and costs some speed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grammars.text_grammars.lark.ast import AltExpr, Definition, Expr, Literal, Name, Place, Repeated, SeqExpr, Source, walk
from grammars.text_grammars.lark.check import MAX_ATOMS
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.text_grammars.lark.sizes import terminal_sizes
from grammars.text_grammars.lark.greedy_lexemes import Work, swallowing
from special_tokens.errors import GrammarError, shown

__all__ = ["as_lark"]

#: Larger grammars keep all their terminals: between two of them the first is greedy.
_MAX_LOOKED_INTO = 300

#: What a rule that is still a terminal comes to at most, with those that it names: parts, bytes of its shortest text,
#: and parts in a row that may be empty.
_MAX_PARTS, _MAX_LEAST, _MAX_OPTIONAL = 25_000, 4_000, 500


def as_lark(definitions: list[Definition]) -> Source:
    """The grammar as Lark, which begins at ``start``; raises `GrammarError` for rules that are not there, or twice."""
    return _Converted(definitions).source()


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


def _regular_rules(uses: Mapping[str, Mapping[str, Name]]) -> frozenset[str]:
    """The rules that never lead back to themselves, nor to a rule that does."""
    found: set[str] = set()
    for group in components(uses):
        if len(group) == 1 and found.issuperset(uses[group[0]]):
            found.add(group[0])
    return frozenset(found)
