"""Member-order automata of array forms: items by position, then the rest, with the counts still to be met."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import cast

from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge, MemberNode, NodeBuilder
from grammars.json_schema.shapes.shapes import ArrayForm, Conj, conjoin, negation

__all__ = ["array_automaton"]


def array_automaton(form: ArrayForm, limit: int) -> MemberAutomaton:
    """The automaton of a form.  Raises `TooMuch` past ``limit`` nodes."""
    return _ArrayAutomaton(form, limit).automaton()


class _ArrayAutomaton:
    def __init__(self, form: ArrayForm, limit: int) -> None:
        self.form = form
        self.builder = NodeBuilder(limit)

    def automaton(self) -> MemberAutomaton:
        form = self.form
        start = self._node_key(0, tuple((c.least, c.most) for c in form.counts), form.least, form.most)
        if start is None:
            return MemberAutomaton([MemberNode()], form.unique)
        return MemberAutomaton(self.builder.build(start, self._node), form.unique)

    def _node_key(
        self, index: int, counts: tuple[tuple[int, int | None], ...], least: int, most: int | None
    ) -> tuple[object, ...] | None:
        """The key of a node: position (all past the prefix are one), counts, bounds; None when they cannot be met."""
        if any(high is not None and low > high for low, high in counts):
            return None
        if most is not None and max(least, *(low for low, _ in counts), 0) > most:
            return None
        return (index, counts, least, most)

    def _node(self, key: object) -> MemberNode:
        index, counts, least, most = cast(tuple[int, tuple[tuple[int, int | None], ...], int, int | None], key)
        final = least == 0 and all(low == 0 for low, _ in counts)
        node = MemberNode(final=final)
        item = self.form.item(index)
        if item is None or most == 0:
            return node
        past = index >= len(self.form.prefix)
        started = all(index >= c.start for c in self.form.counts)
        if past and all(low == 0 and high is None for low, high in counts) and started:
            node.run = ((MemberEdge(item, 0),), max(least, 1), most)
            return node
        following = index if past and started else index + 1
        for conj, after in self._counted(item, index, counts):
            target = self._node_key(following, after, max(0, least - 1), None if most is None else most - 1)
            if target is not None:
                node.edges.append(MemberEdge(conj, self.builder.number(target)))
        return node

    def _counted(
        self, item: Conj, index: int, counts: tuple[tuple[int, int | None], ...]
    ) -> Iterator[tuple[Conj, tuple[tuple[int, int | None], ...]]]:
        """The item counted or not by each count; under an upper bound an uncounted item must not match."""
        choices: list[tuple[str, ...]] = []
        for count, (low, high) in zip(self.form.counts, counts, strict=True):
            if index < count.start or (low == 0 and high is None):
                choices.append(("any",))
            else:
                choices.append(("in", "out") if high is not None else ("in", "any"))
        for choice in product(*choices):
            conj: Conj | None = item
            after: list[tuple[int, int | None]] = []
            for how, count, (low, high) in zip(choice, self.form.counts, counts, strict=True):
                if how == "in":
                    conj = conjoin(conj, count.item)
                    high = None if high is None else high - 1
                    if high is not None and high < 0:
                        conj = None
                    after.append((max(0, low - 1), high))
                else:
                    if how == "out":
                        conj = conjoin(conj, negation(count.item))
                    after.append((low, high))
            if conj is not None:
                yield conj, tuple(after)
