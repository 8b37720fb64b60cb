"""Forms as small automata: in which order keys and items may come, so that every path reaches an end.

A `Track` has nodes with edges; an edge writes one member or item.  Conditions that look across keys (counts,
clauses, witnesses) live in the nodes: a node stands for what is left to fulfil, and nodes from which it cannot be
fulfilled are never made.  Nothing is left to a check at the end, where it would be a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from grammars.limits.schema_limits import check_deadline
from grammars.regular.languages import Regular
from grammars.json_schema.shapes.shapes import Conj

__all__ = ["Builder", "Edge", "Node", "TooManyNodes", "Track"]


class TooManyNodes(Exception):
    """A track would need more nodes than its limit."""


_WORK_PER_NODE = 30  # clauses looked at for each node that may be made


@dataclass(frozen=True, slots=True)
class Edge:
    """One step: a listed ``key``, a key of the language ``keys``, or (both None) an item; then its value."""

    value: Conj
    target: int
    key: str | None = None
    keys: Regular | None = None


@dataclass(slots=True)
class Node:
    """``edges`` write; ``skip`` goes on without writing; ``run`` repeats edges of any of its kinds in place.

    ``run`` is ``(edges, least, most)``: their targets are not used, the node ends after them.
    """

    edges: list[Edge] = field(default_factory=list)
    skip: int | None = None
    final: bool = False
    run: tuple[tuple[Edge, ...], int, int | None] | None = None


@dataclass(slots=True)
class Track:
    """Nodes of one array or object; the walk begins at node 0, where nothing has been written."""

    nodes: list[Node]
    unique: tuple[int, ...] = ()

    def values(self) -> Iterator[Conj]:
        """The conjunctions that the edges write."""
        for node in self.nodes:
            yield from (edge.value for edge in node.edges)
            if node.run is not None:
                yield from (edge.value for edge in node.run[0])


class Builder:
    """Numbers node keys as they are met and builds their nodes until none is left.

    ``limit`` bounds the nodes; `spend` bounds the work on clauses that is done to find them.
    """

    def __init__(self, limit: int) -> None:
        self.numbers: dict[object, int] = {}
        self.todo: list[object] = []
        self.limit = limit
        self.work = 0

    def spend(self, work: int) -> None:
        self.work += work
        if self.work > _WORK_PER_NODE * self.limit:
            raise TooManyNodes

    def __call__(self, key: object) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.numbers)
            self.todo.append(key)
            check_deadline()
            if found > self.limit:
                raise TooManyNodes
        return found

    def build(self, start: object, make: Callable[[object], Node]) -> list[Node]:
        self(start)
        nodes: list[Node] = []
        for key in self.todo:  # grows while it is walked
            nodes.append(make(key))  # noqa: PERF401
        return nodes
