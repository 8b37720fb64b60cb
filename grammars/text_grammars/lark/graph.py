"""Graph algorithms over the rules of a grammar, without recursion: uses, components, reachability, fixpoint.

All are linear in nodes and edges; sets of lexemes are integers with one bit each, so that a union is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TypeVar

from grammars.text_grammars.lark.ast import Definition, Name, walk

__all__ = ["components", "fixpoint", "reachable_bits", "uses_of"]

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


def fixpoint(order: Iterable[str], uses: Mapping[str, Collection[str]], holds: Callable[[str], bool]) -> None:
    """Call ``holds`` for each node in ``order``, and again for the users of every node for which it became true."""
    users: dict[str, list[str]] = {node: [] for node in uses}
    for node, used in uses.items():
        for other in used:
            users[other].append(node)
    place = {node: i for i, node in enumerate(order)}
    settled: set[str] = set()
    waiting = list(place)
    while waiting:
        new = []
        for node in waiting:
            if node not in settled and holds(node):
                settled.add(node)
                new.append(node)
        waiting = sorted({user for node in new for user in users[node] if user not in settled}, key=place.__getitem__)
