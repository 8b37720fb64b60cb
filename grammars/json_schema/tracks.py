"""Forms as small automata: in which order keys and items may come, so that every path reaches an end.

A `Track` has nodes with edges; an edge writes one member or item.  Conditions that look across keys (counts,
clauses, witnesses) live in the nodes: a node stands for what is left to fulfil, and nodes from which it cannot be
fulfilled are never made.  Nothing is left to a check at the end, where it would be a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from grammars.json_schema.regular import ALL, Regular, inter, matches, neg, words
from grammars.json_schema.shapes import ArrayForm, Clause, Conj, ObjectForm, both

__all__ = ["Edge", "Node", "TooManyNodes", "Track", "array_track", "object_track"]


class TooManyNodes(Exception):
    """A track would need more nodes than its limit."""


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


class _Builder:
    """Numbers node keys as they are met and builds their nodes until none is left."""

    def __init__(self, limit: int) -> None:
        self.numbers: dict[object, int] = {}
        self.todo: list[object] = []
        self.limit = limit

    def __call__(self, key: object) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.numbers)
            self.todo.append(key)
            if found > self.limit:
                raise TooManyNodes
        return found

    def build(self, start: object, make: Callable[[object], Node]) -> list[Node]:
        self(start)
        nodes: list[Node] = []
        for key in self.todo:  # grows while it is walked
            nodes.append(make(key))
        return nodes


# -- objects


@dataclass(frozen=True, slots=True)
class _Left:
    """What an object still owes before entry ``index``."""

    index: int
    clauses: frozenset[Clause]
    least: int
    most: int | None
    witnesses: frozenset[int]


def object_track(form: ObjectForm, order: list[str], limit: int) -> Track:
    """The track of a form; its listed keys come in the order of ``order``, other keys after them."""
    listed = list(form.props)
    named = form.required.union(*({key for key, _ in clause} for clause in form.clauses)) - form.props.keys()
    extra = [key for key in form.late if key in named]
    extra += sorted(named.difference(extra))
    props: dict[str, Conj | None] = dict(form.props)
    for key in extra:
        props[key] = next((conj for language, conj in form.cells if matches(language, key)), None)
    rank = {key: i for i, key in enumerate(order)}
    keys = sorted((*listed, *extra), key=lambda k: rank.get(k, len(rank)))
    entries = [(key, conj) for key in keys if (conj := props[key]) is not None]
    taken = neg(words(props)) if props else ALL
    others = [(inter(language, taken), conj) for language, conj in form.cells]
    return _ObjectTrack(form, entries, others, limit).track()


class _ObjectTrack:
    def __init__(
        self, form: ObjectForm, entries: list[tuple[str, Conj]], others: list[tuple[Regular, Conj]], limit: int
    ) -> None:
        self.form = form
        self.entries = entries
        self.others = others
        self.number = _Builder(limit)
        names = [key for key, _ in entries]
        self.required_after = [0] * (len(entries) + 1)
        for i in range(len(entries) - 1, -1, -1):
            self.required_after[i] = self.required_after[i + 1] + (names[i] in form.required)

    def track(self) -> Track:
        form = self.form
        start = _Left(0, frozenset(form.clauses), form.least, form.most, frozenset(range(len(form.witnesses))))
        tight = self._tight(start)
        if tight is None:
            return Track([Node()])
        return Track(self.number.build(tight, self._node))

    def _tight(self, left: _Left) -> _Left | None:
        """The same debts with bounds that no longer matter dropped; None when they cannot be paid."""
        i, least, most = left.index, left.least, left.most
        room = len(self.entries) - i
        need = self.required_after[i]
        if most is not None:
            if most < need:
                return None
            if not self.others and most >= room:
                most = None
        if least <= need:
            least = 0
        elif not self.others and least > room:
            return None
        if most is not None and least > most:
            return None
        if not _satisfiable(left.clauses, self.entries, i, self.form.required):
            return None
        return _Left(i, left.clauses, least, most, left.witnesses)

    def _node(self, key: object) -> Node:
        assert isinstance(key, _Left)
        left = key
        if left.index == len(self.entries):
            return self._rest(left)
        name, value = self.entries[left.index]
        node = Node()
        for conj, paid in self._witnessed(name, value, left.witnesses):
            after = self._after(left, name, True, paid)
            if after is not None:
                node.edges.append(Edge(conj, self.number(after), key=name))
        if name not in self.form.required:
            after = self._after(left, name, False, frozenset())
            if after is not None:
                node.skip = self.number(after)
        return node

    def _after(self, left: _Left, name: str, written: bool, paid: frozenset[int]) -> _Left | None:
        clauses: set[Clause] = set()
        for clause in left.clauses:
            if (name, written) in clause:
                continue
            rest = clause - {(name, not written)}
            if not rest:
                return None
            clauses.add(rest)
        least, most = left.least, left.most
        if written:
            least = max(0, least - 1)
            if most is not None:
                if most == 0:
                    return None
                most -= 1
        return self._tight(_Left(left.index + 1, frozenset(clauses), least, most, left.witnesses - paid))

    def _witnessed(self, name: str | None, value: Conj, open_: frozenset[int]) -> Iterator[tuple[Conj, frozenset[int]]]:
        """The value as it is, and for each set of open witnesses that it can be, with what they ask of it."""
        yield value, frozenset()
        if not open_:
            return
        able = [w for w in sorted(open_) if name is None or matches(self.form.witnesses[w][0], name)]
        for size in range(1, 1 << len(able)):
            chosen = [w for bit, w in enumerate(able) if size >> bit & 1]
            conj: Conj | None = value
            for w in chosen:
                conj = both(conj, self.form.witnesses[w][1])
            if conj is not None:
                yield conj, frozenset(chosen)

    def _rest(self, left: _Left) -> Node:
        """Keys that are not listed, in any order."""
        if not left.witnesses:
            if not self.others or left.most == 0:
                return Node(final=left.least == 0)
            edges = tuple(Edge(conj, 0, keys=language) for language, conj in self.others)
            return Node(final=left.least == 0, run=(edges, max(left.least, 1), left.most))
        node = Node()
        if left.most == 0:
            return node
        for language, value in self.others:
            for conj, paid in self._witnessed(None, value, left.witnesses):
                keys = inter(language, *(self.form.witnesses[w][0] for w in paid))
                most = None if left.most is None else left.most - 1
                after = _Left(left.index, left.clauses, max(0, left.least - 1), most, left.witnesses - paid)
                node.edges.append(Edge(conj, self.number(after), keys=keys))
        return node


def _satisfiable(
    clauses: frozenset[Clause], entries: list[tuple[str, Conj]], index: int, required: frozenset[str]
) -> bool:
    """Can the clauses be met by some choice of the keys from ``index`` on?  (Davis-Putnam, small by nature.)"""
    fixed = [frozenset(((key, True),)) for key, _ in entries[index:] if key in required]
    return _solve(frozenset((*clauses, *fixed))) if clauses else True


def _solve(clauses: frozenset[Clause]) -> bool:
    while True:
        unit = next((c for c in clauses if len(c) == 1), None)
        if unit is None:
            break
        (fact,) = unit
        reduced = _assign(clauses, fact)
        if reduced is None:
            return False
        clauses = reduced
    if not clauses:
        return True
    fact = next(iter(next(iter(clauses))))
    for choice in (fact, (fact[0], not fact[1])):
        reduced = _assign(clauses, choice)
        if reduced is not None and _solve(reduced):
            return True
    return False


def _assign(clauses: frozenset[Clause], fact: tuple[str, bool]) -> frozenset[Clause] | None:
    broken = (fact[0], not fact[1])
    out: set[Clause] = set()
    for clause in clauses:
        if fact in clause:
            continue
        rest = clause - {broken}
        if not rest:
            return None
        out.add(rest)
    return frozenset(out)


# -- arrays


def array_track(form: ArrayForm, limit: int) -> Track:
    """The track of a form: its prefix by position, then the rest, with what `Count`s still ask for."""
    return _ArrayTrack(form, limit).track()


class _ArrayTrack:
    def __init__(self, form: ArrayForm, limit: int) -> None:
        self.form = form
        self.number = _Builder(limit)

    def track(self) -> Track:
        form = self.form
        start = self._tight(0, tuple((c.least, c.most) for c in form.counts), form.least, form.most)
        if start is None:
            return Track([Node()], form.unique)
        return Track(self.number.build(start, self._node), form.unique)

    def _tight(
        self, index: int, counts: tuple[tuple[int, int | None], ...], least: int, most: int | None
    ) -> tuple[object, ...] | None:
        """A node key: position (the prefix's length stands for all later ones), debts, items left."""
        if any(high is not None and low > high for low, high in counts):
            return None
        if most is not None and max(least, *(low for low, _ in counts), 0) > most:
            return None
        return (index, counts, least, most)

    def _node(self, key: object) -> Node:
        index, counts, least, most = key  # type: ignore[misc]
        final = least == 0 and all(low == 0 for low, _ in counts)
        node = Node(final=final)
        item = self.form.item(index)
        if item is None or most == 0:
            return node
        past = index >= len(self.form.prefix)
        started = all(index >= c.start for c in self.form.counts)
        if past and all(low == 0 and high is None for low, high in counts) and started:
            node.run = ((Edge(item, 0),), max(least, 1), most)
            return node
        following = index if past and started else index + 1
        for conj, after in self._counted(item, index, counts):
            target = self._tight(following, after, max(0, least - 1), None if most is None else most - 1)
            if target is not None:
                node.edges.append(Edge(conj, self.number(target)))
        return node

    def _counted(
        self, item: Conj, index: int, counts: tuple[tuple[int, int | None], ...]
    ) -> Iterator[tuple[Conj, tuple[tuple[int, int | None], ...]]]:
        """The item as each combination of counted and not; uncounted only under a maximum means "is not one"."""
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
                    conj = both(conj, count.item)
                    high = None if high is None else high - 1
                    if high is not None and high < 0:
                        conj = None
                    after.append((max(0, low - 1), high))
                else:
                    if how == "out":
                        conj = both(conj, _not(count.item))
                    after.append((low, high))
            if conj is not None:
                yield conj, tuple(after)


def _not(conj: Conj) -> Conj | None:
    """The negation of the single literal of a count (everything has none)."""
    return (-conj[0],) if conj else None
