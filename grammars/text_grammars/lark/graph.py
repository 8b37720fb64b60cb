"""Graph algorithms over the rules of a grammar, without recursion: uses, components, reachability, properties.

All are linear in nodes and edges; sets of lexemes are integers with one bit each, so that a union is cheap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from grammars.text_grammars.lark.ast import AltExpr, Definition, Expr, Name, Repeated, SeqExpr, walk

__all__ = ["RuleProperty", "components", "reach", "reachable_bits", "users_of", "uses_of"]

T = TypeVar("T", bound=Hashable)


def uses_of(definitions: Iterable[Definition]) -> dict[str, dict[str, Name]]:
    """Return for each definition those that its body names, each with its first occurrence."""
    named = {definition.name: definition for definition in definitions}
    uses: dict[str, dict[str, Name]] = {}
    for name, definition in named.items():
        names: dict[str, Name] = {}
        for expr in walk(definition.body):
            if isinstance(expr, Name) and expr.name in named:
                names.setdefault(expr.name, expr)
        uses[name] = names
    return uses


def users_of(uses: Mapping[T, Iterable[T]]) -> dict[T, list[T]]:
    """Return for each node those that use it."""
    users: dict[T, list[T]] = {node: [] for node in uses}
    for node, used in uses.items():
        for other in used:
            users[other].append(node)
    return users


def reach(begin: Iterable[T], leads_to: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield each node that is reached from those of ``begin``, themselves included, once."""
    found = dict.fromkeys(begin)
    waiting = deque(found)
    while waiting:
        yield (node := waiting.popleft())
        for other in leads_to(node):
            if other not in found:
                found[other] = None
                waiting.append(other)


def components(uses: Mapping[T, Iterable[T]]) -> list[list[T]]:
    """Return the strongly connected components (Tarjan), each after all components that it leads to."""
    number: dict[T, int] = {}
    low: dict[T, int] = {}
    held: list[T] = []
    is_held: set[T] = set()
    groups: list[list[T]] = []
    for root in uses:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        held.append(root)
        is_held.add(root)
        path = [(root, iter(uses[root]))]
        while path:
            node, others = path[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    held.append(other)
                    is_held.add(other)
                    path.append((other, iter(uses[other])))
                    break
                if other in is_held:
                    low[node] = min(low[node], number[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    group: list[T] = []
                    while not group or group[-1] != node:
                        group.append(held.pop())
                    is_held.difference_update(group)
                    groups.append(group)
    return groups


def reachable_bits(own_bits: Mapping[T, int], leads_to: Mapping[T, Collection[T]]) -> dict[T, int]:
    """Return for each node the bits of ``own_bits`` of all nodes that it reaches, itself included."""
    out: dict[T, int] = {}
    for group in components(leads_to):
        bits = 0
        for node in group:
            bits |= own_bits.get(node, 0)
            for other in leads_to[node]:
                bits |= out.get(other, 0)  # nodes of this group are not in it yet
        out.update(dict.fromkeys(group, bits))
    return out


class RuleProperty:
    """A property that a sequence has if all of its parts have it, a choice if one option has it, a rule as its body.

    ``of_leaf`` says it of what has no parts, as lexemes and the names of other definitions than ``rules``.
    """

    def __init__(self, rules: Mapping[str, Definition], of_leaf: Callable[[Expr], bool]) -> None:
        self._rules, self._of_leaf = rules, of_leaf
        self._holding: set[str] = set()
        uses = uses_of(rules.values())
        users = users_of(uses)
        place = {name: i for i, name in enumerate(chain(*components(uses)))}  # each after those that it uses
        waiting = list(place)
        while waiting:
            new = []
            for name in waiting:
                if name not in self._holding and self.holds(rules[name].body):
                    self._holding.add(name)
                    new.append(name)
            again = {user for name in new for user in users[name]} - self._holding
            waiting = sorted(again, key=place.__getitem__)

    def holds(self, expr: Expr) -> bool:
        match expr:
            case Name(name=name) if name in self._rules:
                return name in self._holding
            case SeqExpr(parts=parts):
                return all(map(self.holds, parts))
            case AltExpr(options=options):
                return any(map(self.holds, options))
            case Repeated(body=body, least=least):
                return least == 0 or self.holds(body)
        return self._of_leaf(expr)
