"""Arrays of distinct items with few possible values: whether they suffice, and whether a later item may lack one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge, MemberNode
from grammars.json_schema.shapes.shapes import ArrayForm, Conj, Shape
from grammars.regular.finite import finite_words
from grammars.regular.languages import NONE

__all__ = ["Values", "has_too_few_values", "may_run_out", "values_of"]

#: The values of a conjunction; None unless they are few scalars.
Values: TypeAlias = Callable[[Conj], frozenset[Hashable] | None]

_MAX_VALUES = 200  # limit on values, and on positions of an array that are distinguished


def values_of(shape: Shape) -> frozenset[Hashable] | None:
    """The values of a shape; None unless they are few scalars."""
    if shape.arrays or shape.objects:
        return None
    values: set[Hashable] = {("null",)} if shape.null else set()
    values |= {("boolean", bit) for bit in (1, 2) if shape.booleans & bit}
    for numbers in shape.numbers:
        listed = numbers.listed().values
        if listed is None:
            return None
        values |= {("number", value) for value, _ in listed}
    if shape.strings != NONE:
        words = finite_words(shape.strings, _MAX_VALUES)
        if words is None:
            return None
        values |= {("string", word) for word in words}
    return frozenset(values) if len(values) <= _MAX_VALUES else None


def has_too_few_values(form: ArrayForm, values: Values) -> bool:
    """Whether the positions with few values have fewer different ones together than the items that must stand there."""
    if not form.unique:
        return False
    wanted = [(1, form.item(at)) for at in range(min(form.least, len(form.prefix)))]
    wanted.append((max(0, form.least - len(form.prefix)), form.item(len(form.prefix))))
    kinds = [[(count.least, count.item)] for count in form.counts] + [wanted]
    for kind in kinds:
        few = [(least, frozenset() if item is None else values(item)) for least, item in kind if least]
        counted = [(least, of_item) for least, of_item in few if of_item is not None]
        if sum(least for least, _ in counted) > len(frozenset().union(*(of_item for _, of_item in counted))):
            return True
    return False


def may_run_out(automaton: MemberAutomaton, values: Values) -> bool:
    """Whether an item may have to be written when earlier items have used up all its values.

    Where all items have the same values the watcher counts them, and no further item begins.
    """
    here = [_together(node.all_edges(), values) for node in automaton.nodes]
    every = _together([edge for node in automaton.nodes for edge in node.all_edges()], values)
    most = _most_before(automaton.nodes)
    for of_item, before in zip(here, most, strict=True):
        if of_item is None or not of_item or (every is not None and of_item == every):
            continue
        if before is None or before >= len(of_item):
            return True
    return False


def _together(edges: Sequence[MemberEdge], values: Values) -> frozenset[Hashable] | None:
    union: frozenset[Hashable] = frozenset()
    for edge in edges:
        values_of_edge = values(edge.value)
        if values_of_edge is None:
            return None
        union |= values_of_edge
    return union


def _most_before(nodes: Sequence[MemberNode]) -> list[int | None]:
    """The largest number of items before one written at each node; None where there is no limit."""
    most: list[int | None] = [-1] * len(nodes)
    most[0] = 0
    for _ in range(len(nodes) + 1):
        before = list(most)
        for at, node in enumerate(nodes):
            if before[at] == -1:
                continue
            for edge in node.edges:
                num_before = before[at]
                step = None if num_before is None else num_before + 1
                most_there = most[edge.target]
                most[edge.target] = None if step is None or most_there is None else max(most_there, step)
        if most == before:
            break
    else:
        return [None] * len(nodes)  # a loop
    return [None if node.run is not None else limit for node, limit in zip(nodes, most, strict=True)]
