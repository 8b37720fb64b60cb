"""Member-order automata: the orders in which keys and items may be written, so that every path reaches an end.

A `MemberAutomaton` has nodes with edges; an edge writes one member or item.  Conditions across keys (counts, clauses)
are part of the nodes: a node stands for the conditions that are left, and nodes from which they cannot be met are never
made.  Nothing is left to a check at the end, where it would be a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from grammars.json_schema.shapes.shapes import Conj
from grammars.limits.schema_limits import check_deadline
from grammars.limits.work import WORK, Work
from grammars.regular.terms import Regular

__all__ = ["MemberAutomaton", "MemberEdge", "MemberNode", "NodeBuilder"]


@dataclass(frozen=True, slots=True)
class MemberEdge:
    """One step: a listed ``key``, a key of the language ``keys``, or (both None) an item; then its value."""

    value: Conj
    target: int
    key: str | None = None
    keys: Regular | None = None


@dataclass(slots=True)
class MemberNode:
    """``edges`` write one member; ``skip`` moves on without writing; ``run`` repeats edges of any of its kinds in
    place.

    ``run`` is ``(edges, least, most)``: the targets of these edges are not used, the node ends after them.
    """

    edges: list[MemberEdge] = field(default_factory=list)
    skip: int | None = None
    final: bool = False
    run: tuple[tuple[MemberEdge, ...], int, int | None] | None = None

    def targets(self) -> list[int]:
        """The nodes that come after this one."""
        targets = [edge.target for edge in self.edges]
        return targets if self.skip is None else [*targets, self.skip]

    def all_edges(self) -> list[MemberEdge]:
        """The edges, with those of ``run``."""
        return [*self.edges, *(self.run[0] if self.run is not None else ())]


@dataclass(slots=True)
class MemberAutomaton:
    """The nodes of one array or object; it starts at node 0, where nothing has been written.

    ``ends`` are those of `Nonterminals.find_ends`, one per node.
    """

    nodes: list[MemberNode]
    unique: tuple[int, ...] = ()
    ends: list[bool] = field(default_factory=list)

    def values(self) -> Iterator[Conj]:
        """The conjunctions of the values that the edges write."""
        for node in self.nodes:
            yield from (edge.value for edge in node.all_edges())


class NodeBuilder:
    """Numbers node keys in the order of discovery and builds their nodes until none is left.

    ``limit`` bounds the nodes and the ``work`` on clauses.  Past either `TooMuch` is raised.
    """

    def __init__(self, limit: int) -> None:
        self.numbers: dict[object, int] = {}
        self.todo: list[object] = []
        self._nodes = Work(limit + 1)
        self.work = Work(WORK.clauses * limit)

    def number(self, key: object) -> int:
        """The number of the node with this key, which is built later if it is new."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            self.todo.append(key)
            check_deadline()
            self._nodes.spend()
        return number

    def build(self, start: object, make: Callable[[object], MemberNode]) -> list[MemberNode]:
        self.number(start)
        nodes: list[MemberNode] = []
        for key in self.todo:  # the list grows during iteration
            nodes.append(make(key))  # noqa: PERF401
        return nodes
