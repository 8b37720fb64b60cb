"""The follow sets of a grammar: for every lexeme, those that may follow it and whether it may be the last.

A set of lexemes is an integer: bit 0 is the end of the grammar, bit ``i`` lexeme number ``i``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammars.text_grammars.lark.ast import (
    AltExpr,
    Definition,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    Repeated,
    SeqExpr,
    SourcePlace,
    is_lexeme,
)
from grammars.text_grammars.lark.graph import components, fixpoint, reachable_bits, uses_of

__all__ = ["END", "FollowSets", "set_bits"]

#: The set that contains only the end of the grammar.
END = 1


def set_bits(bits: int) -> Iterator[int]:
    """Yield the numbers of the set bits in ascending order."""
    shown = bin(bits)[:1:-1]
    at = shown.find("1")
    while at >= 0:
        yield at
        at = shown.find("1", at + 1)


class FollowSets:
    """The follow sets of a grammar; ``begin`` is the set that it may begin with.

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
        self._may_be_empty, self._by_place = may_be_empty, by_place
        self.rules = {d.name: d for d in source.definitions if not d.is_terminal}
        self.lexeme_rules = {d.name for d in source.definitions if any(a.name != "capture" for a in d.attributes)}
        self.lexemes: list[Expr | None] = [None]
        self.places: dict[int, SourcePlace] = {}
        self._numbers: dict[Expr | int, int] = {}
        self.nullable: set[str] = set()  #: the rules that may be empty
        self._learn_nullable()
        self._first = self._firsts()
        self.begin = self._first["start"]
        self.followers = self._all_followers()

    def _number(self, expr: Expr) -> int:
        key = id(expr) if self._by_place else expr
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.lexemes)
            self.lexemes.append(expr)
        return number

    # -- nullable rules and first sets

    def _learn_nullable(self) -> None:
        uses = uses_of(self.rules.values())
        order = [name for group in components(uses) for name in group]

        def holds(name: str) -> bool:
            if name in self.lexeme_rules or not self._is_nullable(self.rules[name].body):
                return False
            self.nullable.add(name)
            return True

        fixpoint(order, uses, holds)

    def _is_nullable(self, expr: Expr) -> bool:
        match expr:
            case Literal(text=""):
                return True
            case Name(name=name) if name in self.rules:
                return name in self.nullable
            case SeqExpr(parts=parts):
                return all(map(self._is_nullable, parts))
            case AltExpr(options=options):
                return any(map(self._is_nullable, options))
            case Repeated(body=body, least=least):
                return least == 0 or self._is_nullable(body)
        return self._may_be_empty(expr)

    def _firsts(self) -> dict[str, int]:
        bits: dict[str, int] = {}
        leads_to: dict[str, set[str]] = {}
        for name, rule in self.rules.items():
            leads_to[name] = set()
            bits[name] = self._first_of(rule.body, leads_to[name])
        return reachable_bits(bits, leads_to)

    def _first_of(self, expr: Expr, rules: set[str] | None = None) -> int:
        """Return the first set of an expression; if ``rules`` is given, its rules are added there instead."""
        if is_lexeme(expr, self.lexeme_rules.__contains__):
            return 1 << self._number(expr)
        bits = 0
        match expr:
            case Name(name=name):
                if name not in self.rules:
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
        reached = dict.fromkeys(set_bits(self.begin & ~END))
        waiting = list(reached)
        for number in waiting:  # which it extends
            new = [i for i in set_bits(self.followers.get(number, 0) & ~END) if i not in reached]
            reached.update(dict.fromkeys(new))
            waiting += new
        return waiting

    def _all_followers(self) -> dict[int, int]:
        """Return the follow sets; a node (rule or lexeme) at the end of a rule inherits what follows that rule."""
        self._after: dict[str, int] = dict.fromkeys(self.rules, 0)
        self._inherits: dict[str, set[str]] = {name: set() for name in self.rules}
        self._after["start"] = END
        for name, rule in self.rules.items():
            if name not in self.lexeme_rules:
                self._pass(rule.body, 0, True, rule)
        followers = reachable_bits(self._after, self._inherits)
        return {int(node[1:]): bits for node, bits in followers.items() if node[0] == _LEXEME}

    def _pass(self, expr: Expr, bits: int, ends: bool, rule: Definition) -> None:
        """Record that ``bits`` may follow the expression, and if it ``ends`` the rule, what follows the rule."""
        if is_lexeme(expr, self.lexeme_rules.__contains__):
            number = self._number(expr)
            self.places.setdefault(number, getattr(expr, "at", (0, 0)))
            self._add(f"{_LEXEME}{number}", bits, ends, rule)
            return
        match expr:
            case Name(name=name) if name in self.rules:
                self._add(name, bits, ends, rule)
            case SeqExpr(parts=parts):
                for part in reversed(parts):
                    self._pass(part, bits, ends, rule)
                    if self._is_nullable(part):
                        bits |= self._first_of(part)
                    else:
                        bits, ends = self._first_of(part), False
            case AltExpr(options=options):
                for option in options:
                    self._pass(option, bits, ends, rule)
            case Repeated(body=body, most=most):
                self._pass(body, bits | (self._first_of(body) if most != 1 else 0), ends, rule)

    def _add(self, node: str, bits: int, ends: bool, rule: Definition) -> None:
        self._after[node] = self._after.get(node, 0) | bits
        leads_to = self._inherits.setdefault(node, set())
        if ends and node != rule.name:
            leads_to.add(rule.name)


#: Prefix of the names of lexeme nodes; no rule begins with it.
_LEXEME = "/"
