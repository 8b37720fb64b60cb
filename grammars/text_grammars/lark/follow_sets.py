"""For every lexeme of a grammar's rules: the lexemes that may follow it, and whether it may be the last.

Sets of lexemes are bits of an integer: bit 0 is the end of the grammar, bit ``i`` lexeme number ``i``.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammars.text_grammars.lark.ast import (
    AltExpr,
    Definition,
    Expr,
    Literal,
    Name,
    Place,
    Repeated,
    SeqExpr,
    Source,
    WhenExpr,
    is_lexeme,
)
from grammars.text_grammars.lark.graph import components, fixpoint, joined, uses_of

__all__ = ["END", "Followed", "bits_of"]

#: The end of the grammar, as something that may follow.
END = 1


def bits_of(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, from the lowest."""
    shown = bin(bits)[:1:-1]
    at = shown.find("1")
    while at >= 0:
        yield at
        at = shown.find("1", at + 1)


class Followed:
    """``followers[i]`` are the bits behind lexeme ``i``, ``begin`` those that the grammar may begin with.

    ``lexemes[i]`` is its expression (0 is none) and ``places`` where it stands first; what is no lexeme (a token,
    another grammar) has a number as a follower but no followers of its own.
    """

    def __init__(self, source: Source) -> None:
        self.rules = {d.name: d for d in source.definitions if not d.is_terminal}
        self.lexeme_rules = {d.name for d in source.definitions if any(a.name != "capture" for a in d.attributes)}
        self.lexemes: list[Expr | None] = [None]
        self.places: dict[int, Place] = {}
        self._numbers: dict[Expr, int] = {}
        self._nullable: set[str] = set()
        self._learn_nullable()
        self._first = self._firsts()
        self.begin = self._first["start"]
        self.followers = self._all_followers()

    def _number(self, expr: Expr) -> int:
        found = self._numbers.get(expr)
        if found is None:
            found = self._numbers[expr] = len(self.lexemes)
            self.lexemes.append(expr)
        return found

    # -- what may be empty, what may come first

    def _learn_nullable(self) -> None:
        uses = uses_of(self.rules.values())
        order = [name for group in components(uses) for name in group]

        def holds(name: str) -> bool:
            if name in self.lexeme_rules or not self._is_nullable(self.rules[name].body):
                return False
            self._nullable.add(name)
            return True

        fixpoint(order, uses, holds)

    def _is_nullable(self, expr: Expr) -> bool:
        match expr:
            case Literal(text=""):
                return True
            case Name(name=name):
                return name in self._nullable
            case SeqExpr(parts=parts):
                return all(map(self._is_nullable, parts))
            case AltExpr(options=options):
                return any(map(self._is_nullable, options))
            case Repeated(body=body, least=least):
                return least == 0 or self._is_nullable(body)
            case WhenExpr(body=body):
                return self._is_nullable(body)
        return False

    def _firsts(self) -> dict[str, int]:
        own: dict[str, int] = {}
        leads_to: dict[str, set[str]] = {}
        for name, rule in self.rules.items():
            leads_to[name] = set()
            own[name] = self._first_of(rule.body, leads_to[name])
        return joined(own, leads_to)

    def _first_of(self, expr: Expr, rules: set[str] | None = None) -> int:
        """The bits that an expression may begin with; its rules are added to ``rules`` where they are not known."""
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
            case Repeated(body=body) | WhenExpr(body=body):
                return self._first_of(body, rules)
            case Literal():
                return 0
            case _:
                return 1 << self._number(expr)  # tokens and other grammars: nothing is known of them
        return bits

    # -- what may follow

    def _all_followers(self) -> dict[int, int]:
        """Rules and lexemes are nodes; what is behind a node is what stands there and what is behind its rule."""
        self._behind: dict[str, int] = dict.fromkeys(self.rules, 0)
        self._ending: dict[str, set[str]] = {name: set() for name in self.rules}
        self._behind["start"] = END
        for name, rule in self.rules.items():
            if name not in self.lexeme_rules:
                self._pass(rule.body, 0, True, rule)
        found = joined(self._behind, self._ending)
        return {int(node[1:]): bits for node, bits in found.items() if node[0] == _LEXEME}

    def _pass(self, expr: Expr, bits: int, ends: bool, rule: Definition) -> None:
        """``bits`` may follow the expression in its rule, and where it ``ends`` the rule, what may follow that."""
        if is_lexeme(expr, self.lexeme_rules.__contains__):
            if not (isinstance(expr, Name) and expr.name in self.lexeme_rules):  # lazy ones end by themselves
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
            case WhenExpr(body=body):
                self._pass(body, bits, ends, rule)

    def _add(self, node: str, bits: int, ends: bool, rule: Definition) -> None:
        self._behind[node] = self._behind.get(node, 0) | bits
        leads_to = self._ending.setdefault(node, set())
        if ends and node != rule.name:
            leads_to.add(rule.name)


#: What a lexeme's node begins with: no rule is called so.
_LEXEME = "/"
