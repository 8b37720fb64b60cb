"""Forms as small automata: in which order keys and items may come, so that every path reaches an end.

A `Track` has nodes with edges; an edge writes one member or item.  Conditions that look across keys (counts,
clauses, witnesses) live in the nodes: a node stands for what is left to fulfil, and nodes from which it cannot be
fulfilled are never made.  Nothing is left to a check at the end, where it would be a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, cast

from grammars.json_schema.regular import ALL, Regular, inter, matches, neg, words
from grammars.json_schema.shapes import TRUE, ArrayForm, Clause, Conj, Fact, ObjectForm, both

__all__ = ["Edge", "Node", "TooManyNodes", "Track", "array_track", "key_orders", "narrow", "object_track"]


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


class _Builder:
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
            if found > self.limit:
                raise TooManyNodes
        return found

    def build(self, start: object, make: Callable[[object], Node]) -> list[Node]:
        self(start)
        nodes: list[Node] = []
        for key in self.todo:  # grows while it is walked
            nodes.append(make(key))  # noqa: PERF401
        return nodes


# -- objects


class _Left(NamedTuple):
    """What an object still owes before entry ``at``."""

    at: int
    clauses: frozenset[Clause]
    least: int
    most: int | None


def key_orders(form: ObjectForm, naming: list[str]) -> list[list[str]]:
    """The orders in which a form's keys may come: the schema's, and the form's own where it is another."""
    named = form.required.union(*({f.what for f in c if f.kind in ("has", "lacks")} for c in form.clauses))
    extra = named.difference(form.props)
    late = [key for key in form.late if key in extra]
    own = [*form.props, *late, *sorted(extra.difference(late))]
    rank = {key: i for i, key in enumerate(naming)}
    first = sorted(own, key=lambda key: rank.get(key, len(rank)))
    written = [key for key in own if form.props.get(key, TRUE) is not None]
    return [first] if [key for key in first if form.props.get(key, TRUE) is not None] == written else [first, own]


def object_track(form: ObjectForm, order: list[str], limit: int) -> Track:
    """The track of a form; the keys of ``order`` (see `key_orders`) come first, other keys after them."""
    props: dict[str, Conj | None] = dict(form.props)
    for key in order:
        if key not in props:
            props[key] = next((conj for language, conj in form.cells if matches(language, key)), None)
    entries = [(key, conj) for key in order if (conj := props[key]) is not None]
    taken = neg(words(props)) if props else ALL
    others = [(inter(language, taken), conj) for language, conj in form.cells]
    return _ObjectTrack(form, entries, others, limit).track()


def narrow(form: ObjectForm) -> ObjectForm | None:
    """The form with each clause met by one fact, chosen so that one key meets many; None without clauses.

    What is left is smaller, never larger: the way out when deciding the clauses key by key takes too many nodes.
    """
    if not form.clauses:
        return None
    votes: dict[Fact, int] = {}
    for clause in form.clauses:
        for fact in clause:
            if fact.kind == "has":
                votes[fact] = votes.get(fact, 0) + 1
    chosen = {max(clause, key=lambda f: (votes.get(f, 0), f.kind == "lacks", str(f.what))) for clause in form.clauses}
    return replace(form, clauses=tuple(frozenset((fact,)) for fact in sorted(chosen, key=lambda f: str(f.what))))


class _ObjectTrack:
    def __init__(
        self, form: ObjectForm, entries: list[tuple[str, Conj]], others: list[tuple[Regular, Conj]], limit: int
    ) -> None:
        self.form = form
        self.entries = entries
        self.others = others
        self.number = _Builder(limit)
        self.required_after = [0] * (len(entries) + 1)
        for i in range(len(entries) - 1, -1, -1):
            self.required_after[i] = self.required_after[i + 1] + (entries[i][0] in form.required)

    def track(self) -> Track:
        start = self._tight(0, frozenset(self.form.clauses), self.form.least, self.form.most)
        return Track([Node()] if start is None else self.number.build(start, self._node))

    def _tight(self, index: int, clauses: frozenset[Clause], least: int, most: int | None) -> _Left | None:
        """The debts with bounds that no longer matter dropped; None when they cannot be paid."""
        room, need = len(self.entries) - index, self.required_after[index]
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
        return _Left(index, clauses, least, most)

    def _node(self, key: object) -> Node:
        assert isinstance(key, _Left)
        left = key
        if left.at == len(self.entries):
            return self._rest(left)
        name, value = self.entries[left.at]
        node = Node()
        for conj, clauses in self._written(name, value, left.clauses):
            after = self._after(left, clauses, written=True)
            if after is not None:
                node.edges.append(Edge(conj, self.number(after), key=name))
        if name not in self.form.required:
            skipped = _without(left.clauses, name)
            after = None if skipped is None else self._after(left, skipped, written=False)
            if after is not None:
                node.skip = self.number(after)
        return node

    def _after(self, left: _Left, clauses: frozenset[Clause], *, written: bool) -> _Left | None:
        if not written:
            return self._tight(left.at + 1, clauses, left.least, left.most)
        if left.most == 0:
            return None
        most = None if left.most is None else left.most - 1
        return self._tight(left.at + 1, clauses, max(0, left.least - 1), most)

    def _written(self, name: str, value: Conj, clauses: frozenset[Clause]) -> Iterator[tuple[Conj, frozenset[Clause]]]:
        """The values that the key may have, by which open facts they satisfy, with the clauses left then."""
        wanted = dict.fromkeys(
            f.value
            for clause in clauses
            for f in clause
            if f.value and (f.what == name if f.kind == "has" else f.kind == "some" and matches(f.what, name))
        )
        for conj, chosen in _choices(value, list(wanted)):
            self.number.spend(len(clauses))
            after = _with(clauses, name, chosen)
            if after is not None:
                yield conj, after

    def _rest(self, left: _Left) -> Node:
        """Keys that are not listed, in any order."""
        if not left.clauses:
            if not self.others or left.most == 0:
                return Node(final=left.least == 0)
            edges = tuple(Edge(conj, 0, keys=language) for language, conj in self.others)
            return Node(final=left.least == 0, run=(edges, max(left.least, 1), left.most))
        final = left.least == 0 and all(any(f.kind == "most" for f in clause) for clause in left.clauses)
        node = Node(final=final)
        if left.most == 0:
            return node
        most = None if left.most is None else left.most - 1
        open_ = list(dict.fromkeys(f for clause in left.clauses for f in clause if f.kind == "some"))
        for language, value in self.others:
            for conj, chosen in _choices(value, open_):
                self.number.spend(1 + len(left.clauses))
                after = _counted(left.clauses, frozenset(chosen))
                if after is None:
                    continue
                keys = inter(language, *(f.what for f in chosen))
                target = _Left(left.at, after, max(0, left.least - 1), most)
                node.edges.append(Edge(conj, self.number(target), keys=keys))
        return node


_MAX_CHOICES = 5  # facts about one value whose every combination is tried; beyond, each alone and all together


def _choices(value: Conj, wanted: list[Any]) -> Iterator[tuple[Conj, list[Any]]]:
    """The value as it is, and narrowed to each set of ``wanted`` (conjunctions, or facts that carry one)."""
    count = len(wanted)
    if count <= _MAX_CHOICES:
        subsets = [[wanted[i] for i in range(count) if bits >> i & 1] for bits in range(1 << count)]
    else:
        subsets = [[], *([w] for w in wanted), wanted]
    for chosen in subsets:
        conj: Conj | None = value
        for one in chosen:
            conj = both(conj, one.value if isinstance(one, Fact) else one)
        if conj is not None:
            yield conj, chosen


def _without(clauses: frozenset[Clause], name: str) -> frozenset[Clause] | None:
    """The clauses left when the key is not written; None when one can no longer be met."""
    out: set[Clause] = set()
    for clause in clauses:
        if any(f.kind == "lacks" and f.what == name for f in clause):
            continue
        rest = frozenset(f for f in clause if f.kind != "has" or f.what != name)
        if not rest:
            return None
        out.add(rest)
    return frozenset(out)


def _with(clauses: frozenset[Clause], name: str, chosen: list[Conj]) -> frozenset[Clause] | None:
    """The clauses left when the key is written with a value that satisfies ``chosen``."""
    out: set[Clause] = set()
    for clause in clauses:
        rest: set[Fact] = set()
        for fact in clause:
            about = fact.what == name if fact.kind in ("has", "lacks") else False
            if fact.kind == "has" and about:
                if not fact.value or fact.value in chosen:
                    break
            elif fact.kind == "some" and matches(fact.what, name) and (not fact.value or fact.value in chosen):
                break
            elif not about:
                rest.add(fact)
        else:
            out.add(frozenset(rest))
    return _counted(frozenset(out), frozenset())


def _counted(clauses: frozenset[Clause], paid: frozenset[Fact]) -> frozenset[Clause] | None:
    """The clauses left after one more key: ``paid`` facts hold, counts go down by one."""
    out: set[Clause] = set()
    for clause in clauses:
        if not paid.isdisjoint(clause):
            continue
        rest: set[Fact] = set()
        met = False
        for fact in clause:
            if fact.kind in ("least", "most"):
                fact = Fact(fact.kind, fact.what - 1)
                met = met or (fact.kind == "least" and fact.what <= 0)
                if fact.what < 0:
                    continue
            rest.add(fact)
        if met:
            continue
        if not rest:
            return None
        out.add(frozenset(rest))
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
        index, counts, least, most = cast(tuple[int, tuple[tuple[int, int | None], ...], int, int | None], key)
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
