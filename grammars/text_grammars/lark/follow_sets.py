"""The follow sets of a grammar: for every lexeme, those that may follow it and whether it may be the last.

A set of lexemes is an integer: bit 0 is the end of the grammar, bit ``i`` lexeme number ``i``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from grammars.limits.work import Work
from grammars.text_grammars.lark.ast import (
    AltExpr,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    Repeated,
    SeqExpr,
    SourcePlace,
    is_lexeme,
)
from grammars.text_grammars.lark.graph import RuleProperty, reach, reachable_bits

__all__ = ["END", "FollowSets", "set_bits"]

#: The work of looking at one part of a rule.
_PART = 10

#: The set that contains only the end of the grammar.
END = 1


def set_bits(bits: int) -> Iterator[int]:
    """Yield the numbers of the set bits in ascending order."""
    shown = bin(bits)[:1:-1]
    at = shown.find("1")
    while at >= 0:
        yield at
        at = shown.find("1", at + 1)


class _Part(NamedTuple):
    """A rule, or a lexeme's number, in the body of a rule, and the set of what may follow it there."""

    node: str | int
    bits: int
    ends: bool  #: may it be last in the body, so that what follows the rule follows it?
    is_first: bool  #: may it be first in the body?
    is_later: bool  #: may something come before it?
    at: SourcePlace = (0, 0)


class FollowSets:
    """The follow sets of a grammar; ``begin`` is the set that it may begin with, the end included.

    ``followers[i]`` is the set after lexeme ``i``, ``lexemes[i]`` its expression (0 is none) and ``places[i]`` its
    first position.  Items other than lexemes (a token, another grammar) have a number but no follow set.
    What follows a lexeme that ``may_be_empty`` may also stand in its place.  With ``by_place`` the same lexeme at two
    places has two numbers.
    """

    def __init__(
        self,
        source: LarkGrammar,
        may_be_empty: Callable[[Expr], bool] = lambda lexeme: False,
        *,
        by_place: bool = False,
    ) -> None:
        self._by_place = by_place
        self._rules = {d.name: d for d in source.definitions if not d.is_lexeme}
        self._lexeme_rules = {d.name: d for d in source.definitions if d.is_lexeme_rule}
        self.lexemes: list[Expr | None] = [None]
        self.places: dict[int, SourcePlace] = {}
        self._numbers: dict[Expr | int, int] = {}
        self._is_nullable = RuleProperty(self._rules, lambda leaf: leaf == Literal("") or may_be_empty(leaf)).holds
        self._first = self._firsts()
        start = Name("start")
        self.begin = self._first_of(start) | (END if self._is_nullable(start) else 0)
        self.followers = self._all_followers()
        if "start" in self._lexeme_rules:  # the grammar is one lexeme
            number = self._number(start)
            self.followers[number], self.places[number] = END, self._lexeme_rules["start"].at

    def _number(self, expr: Expr) -> int:
        key = id(expr) if self._by_place else expr
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.lexemes)
            self.lexemes.append(expr)
        return number

    # -- first sets

    def _firsts(self) -> dict[str, int]:
        bits: dict[str, int] = {}
        leads_to: dict[str, set[str]] = {}
        for name, rule in self._rules.items():
            leads_to[name] = set()
            bits[name] = self._first_of(rule.body, leads_to[name])
        return reachable_bits(bits, leads_to)

    def _first_of(self, expr: Expr, rules: set[str] | None = None) -> int:
        """Return the first set of an expression; if ``rules`` is given, its rules are added there instead."""
        if is_lexeme(expr, self._lexeme_rules.__contains__):
            return 1 << self._number(expr)
        bits = 0
        match expr:
            case Name(name=name):
                if name not in self._rules:
                    return 0
                if rules is None:
                    return self._first[name]
                rules.add(name)
            case SeqExpr(parts=parts):
                for part in parts:
                    bits |= self._first_of(part, rules)
                    if not self._is_nullable(part):
                        break
            case AltExpr(options=options):
                for option in options:
                    bits |= self._first_of(option, rules)
            case Repeated(body=body):
                return self._first_of(body, rules)
            case Literal():
                return 0
            case _:
                return 1 << self._number(expr)  # tokens and other grammars: their text is unknown
        return bits

    # -- follow sets

    def reached(self) -> list[int]:
        """Return the numbers of the lexemes that a text of the grammar may come to."""
        begin = set_bits(self.begin & ~END)
        return list(reach(begin, lambda number: set_bits(self.followers.get(number, 0) & ~END)))

    def uses(self, work: Work) -> Iterator[tuple[SourcePlace, int]]:
        """Yield the places of lexemes, each with the set that may follow there in one use of its rule.

        Where a rule may begin with itself (``e: e "+" t``), what follows it there may follow each use.
        """
        waiting = [("start", END)]
        seen = set(waiting)
        for begun, bits in waiting:  # which it extends
            after, names = {begun: bits}, [begun]
            for name in names:
                for part in self._parts.get(name, ()):  # none of a rule that is a lexeme
                    work.spend(_PART)
                    following = part.bits | (after[name] if part.ends else 0)
                    if part.is_first and isinstance(part.node, str) and following & ~after.get(part.node, 0):
                        after[part.node] = after.get(part.node, 0) | following
                        names.append(part.node)
            for name, inherited in after.items():
                for part in self._parts.get(name, ()):
                    work.spend(_PART)
                    following = part.bits | (inherited if part.ends else 0)
                    if isinstance(part.node, int):
                        yield part.at, following
                    elif part.is_later and (part.node, following) not in seen:
                        seen.add((part.node, following))
                        waiting.append((part.node, following))

    def _all_followers(self) -> dict[int, int]:
        """Return the follow sets; a node (rule or lexeme) at the end of a rule inherits what follows that rule."""
        self._parts = {
            name: list(self._parts_of(rule.body, 0, True, True, False)) for name, rule in self._rules.items()
        }
        after: dict[str | int, int] = {**dict.fromkeys(self._rules, 0), "start": END}
        inherits: dict[str | int, set[str]] = {name: set() for name in self._rules}
        for name, parts in self._parts.items():
            for part in parts:
                after[part.node] = after.get(part.node, 0) | part.bits
                inherited = inherits.setdefault(part.node, set())
                if part.ends and part.node != name:
                    inherited.add(name)
        return {node: bits for node, bits in reachable_bits(after, inherits).items() if isinstance(node, int)}

    def _parts_of(self, expr: Expr, bits: int, ends: bool, is_first: bool, is_later: bool) -> Iterator[_Part]:
        """Yield the rules and lexemes of an expression that ``bits`` may follow; the others are as in `_Part`."""
        if is_lexeme(expr, self._lexeme_rules.__contains__):
            at = getattr(expr, "at", (0, 0))
            self.places.setdefault(number := self._number(expr), at)
            yield _Part(number, bits, ends, is_first, is_later, at)
            return
        match expr:
            case Name(name=name) if name in self._rules:
                yield _Part(name, bits, ends, is_first, is_later)
            case SeqExpr(parts=parts):
                firsts = list(accumulate(map(self._is_nullable, parts[:-1]), bool.__and__, initial=is_first))
                for i, part in reversed(list(enumerate(parts))):
                    yield from self._parts_of(part, bits, ends, firsts[i], is_later or i > 0)
                    if self._is_nullable(part):
                        bits |= self._first_of(part)
                    else:
                        bits, ends = self._first_of(part), False
            case AltExpr(options=options):
                for option in options:
                    yield from self._parts_of(option, bits, ends, is_first, is_later)
            case Repeated(body=body, most=most):
                again = self._first_of(body) if most != 1 else 0
                yield from self._parts_of(body, bits | again, ends, is_first, is_later or most != 1)
