"""Arrays of distinct items where values are few: are there enough of them, and can the last of them be used up?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from grammars.regular.finite import few_words
from grammars.regular.languages import NONE
from grammars.json_schema.shapes.shapes import ArrayForm, Conj, Count, Shape
from grammars.json_schema.tracks import Edge, Node, Track

__all__ = ["Values", "is_short", "may_run_out", "values_of"]

#: The values of a conjunction where they are few scalars; None for others.
Values: TypeAlias = Callable[[Conj], frozenset[Hashable] | None]

_MOST = 200  # values, and positions of an array that are told apart


def values_of(shape: Shape) -> frozenset[Hashable] | None:
    """The values of a shape; None where they are not few scalars."""
    if shape.arrays or shape.objects:
        return None
    found: set[Hashable] = {("null",)} if shape.null else set()
    found |= {("boolean", bit) for bit in (1, 2) if shape.booleans & bit}
    for numbers in shape.numbers:
        listed = numbers.listed().values
        if listed is None:
            return None
        found |= {("number", value) for value, _ in listed}
    if shape.strings != NONE:
        words = few_words(shape.strings, _MOST)
        if words is None:
            return None
        found |= {("string", word) for word in words}
    return frozenset(found) if len(found) <= _MOST else None


def is_short(form: ArrayForm, values: Values) -> bool:
    """Are there surely not enough different values for the items that the form must have?"""
    if not form.unique:
        return False
    if any(_is_short_of(count, values) for count in form.counts):
        return True
    owners: dict[Hashable, int] = {}
    choices: list[frozenset[Hashable]] = []
    rest: frozenset[Hashable] | None = None
    for position in range(form.least):
        if position <= len(form.prefix):
            item = form.item(position)
            rest = frozenset() if item is None else values(item)
        if rest is None:
            if position >= len(form.prefix):
                return False  # and so are all later ones
            continue
        if len(choices) >= _MOST:
            return False
        choices.append(rest)
        if not _seated(len(choices) - 1, choices, owners):
            return True
    return False


def _is_short_of(count: Count, values: Values) -> bool:
    found = values(count.item) if count.least > 1 else None
    return found is not None and len(found) < count.least


def _seated(new: int, choices: Sequence[frozenset[Hashable]], owners: dict[Hashable, int]) -> bool:
    """Give the position a value of its own, others moving where they can (a matching, path by path)."""
    came_from: dict[Hashable, tuple[int, Hashable | None]] = {}
    todo: list[tuple[int, Hashable | None]] = [(new, None)]
    for position, freed in todo:  # grows while it is walked
        for value in choices[position]:
            if value in came_from:
                continue
            came_from[value] = (position, freed)
            if value in owners:
                todo.append((owners[value], value))
                continue
            at: Hashable | None = value
            while at is not None:
                owner, before = came_from[at]
                owners[at] = owner
                at = before
            return True
    return False


def may_run_out(track: Track, values: Values) -> bool:
    """May an item have to be written when all its values are used up, by items that stand before it?

    Where all items have the same values the watcher counts them, and no further item is begun.
    """
    here = [_together(_edges(node), values) for node in track.nodes]
    every = _together([edge for node in track.nodes for edge in _edges(node)], values)
    most = _most_before(track.nodes)
    for found, before in zip(here, most, strict=True):
        if found is None or not found or (every is not None and found == every):
            continue
        if before is None or before >= len(found):
            return True
    return False


def _together(edges: Sequence[Edge], values: Values) -> frozenset[Hashable] | None:
    found: frozenset[Hashable] = frozenset()
    for edge in edges:
        one = values(edge.value)
        if one is None:
            return None
        found |= one
    return found


def _edges(node: Node) -> list[Edge]:
    return [*node.edges, *(node.run[0] if node.run is not None else ())]


def _most_before(nodes: Sequence[Node]) -> list[int | None]:
    """The most items that may stand before one that is written at each node; None where there is no such number."""
    most: list[int | None] = [-1] * len(nodes)
    most[0] = 0
    for _ in range(len(nodes) + 1):
        before = list(most)
        for at, node in enumerate(nodes):
            if before[at] == -1:
                continue
            for edge in node.edges:
                one = before[at]
                step = None if one is None else one + 1
                known = most[edge.target]
                most[edge.target] = None if step is None or known is None else max(known, step)
        if most == before:
            break
    else:
        return [None] * len(nodes)  # a loop
    return [None if node.run is not None else one for node, one in zip(nodes, most, strict=True)]
