"""Which places of a grammar need a watcher at run time, and what is left when nobody watches."""

from __future__ import annotations

from dataclasses import replace

from grammars.json_schema.grammar.distinct_items import may_run_out
from grammars.regular.finite import few_words
from grammars.limits.schema_limits import check_deadline
from grammars.json_schema.shapes.numbers import Numbers
from grammars.regular.languages import ALL, NONE, matches, words
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.grammar.scalars import finite_values
from grammars.json_schema.shapes.shapes import Conj
from grammars.json_schema.grammar.nonterminals import State, States
from grammars.json_schema.tracks import Edge, Track
from grammars.values.watchers import UniqueNode

__all__ = ["has_free_keys", "has_key_order", "has_long_numbers", "unique_nodes", "unique_rows"]

_MAX_NODES = 2_000
_MOST_VALUES = 1_000  # nobody writes more different items into one array

#: The conjunctions that a value may have to satisfy: one or several, by the branch it was written under.
_Group = frozenset[Conj]


def has_free_keys(states: States) -> bool:
    """May some object be given keys that no schema lists, and so the same one twice?"""
    for state in states.by_conj.values():
        for track in state.objects:
            for node in track.nodes:
                edges = (*node.edges, *(node.run[0] if node.run is not None else ()))
                if any(edge.keys is not None for edge in edges):
                    return True
    return False


def has_key_order(states: States) -> bool:
    """May some object be given two keys of which at least one is listed, and so has its place?"""
    return any(
        len(track.nodes) > 1 and any(edge.key is not None for node in track.nodes for edge in node.edges)
        for state in states.by_conj.values()
        for track in state.objects
    )


def has_long_numbers(states: States) -> bool:
    """Are there numbers that no list and no pair of bounds keeps short?"""
    return any(
        numbers.values is None and (numbers.low is None or numbers.high is None or not numbers.integer)
        for state in states.by_conj.values()
        for numbers in state.shape.numbers
    )


def unique_rows(states: States, watched: list[tuple[Conj, Track]], *, watch: bool) -> list[ReportRow]:
    """What the report says of ``uniqueItems`` at the tracks that only a watcher can hold to it."""
    rows: list[ReportRow] = []
    mixed = _mixed(states) if watch and watched else frozenset()
    for conj, track in watched:
        reason = _NOT_WATCHED if not watch else _MIXED if conj in mixed else _loose(states, track)
        for number in track.unique:
            pointer = states.space.documents[number].pointer
            if reason:
                rows.append(ReportRow(pointer, "uniqueItems", Outcome.RELAXED, reason))
            else:
                rows.append(ReportRow(pointer, "uniqueItems", Outcome.EXACT, "watched while it is written"))
    return rows


_NOT_WATCHED = "not enforced: the items are compared after generation only"
_MIXED = "another branch allows equal items, and which one was meant is not known while it is written"


def _loose(states: States, track: Track) -> str:
    """Why a watcher cannot hold all items apart; empty when it can."""
    items = [states[edge.value] for node in track.nodes for edge in _edges(node)]
    if any(item.arrays or item.objects for item in items):
        return "items that are arrays or objects are compared after generation only"
    if may_run_out(track, states.values):
        return "some items have so few values that only one which is there already may be left"
    return ""


def _mixed(states: States) -> frozenset[Conj]:
    """The conjunctions that stand somewhere beside arrays whose items may be equal, or past what is watched."""
    found = _Nodes(states)
    found.visit(frozenset((states.start,)))
    mixed = {conj for group, at in found.numbers.items() if not found.nodes[at].unique for conj in group}
    return frozenset(mixed | found.dropped)


def _edges(node: object) -> tuple:  # type: ignore[type-arg]
    return (*node.edges, *(node.run[0] if node.run is not None else ()))  # type: ignore[attr-defined]


def unique_nodes(states: States) -> tuple[UniqueNode, ...]:
    """The places under the start at which arrays must not repeat an item; () when there is none."""
    found = _Nodes(states)
    found.visit(frozenset((states.start,)))
    return tuple(found.nodes) if any(node.unique for node in found.nodes) else ()


class _Nodes:
    """Numbers the groups of conjunctions that are met on the way down, and makes a node of each."""

    def __init__(self, states: States) -> None:
        self.states = states
        self.numbers: dict[_Group, int] = {}
        self.nodes: list[UniqueNode] = []
        self.dropped: set[Conj] = set()

    def visit(self, group: _Group) -> int:
        todo = [group]
        first = self.number(group)
        while todo:
            check_deadline()
            one = todo.pop()
            at = self.numbers[one]
            self.nodes[at], below = self.node(one)
            todo += [g for g in below if g not in self.numbers and self.number(g) >= 0]
            self.nodes[at], _ = self.node(one)  # again, now that those below have numbers
        return first

    def number(self, group: _Group) -> int:
        if group not in self.numbers:
            if len(self.nodes) >= _MAX_NODES:
                self.dropped |= group
                return -1
            self.numbers[group] = len(self.nodes)
            self.nodes.append(UniqueNode())
        return self.numbers[group]

    def node(self, group: _Group) -> tuple[UniqueNode, list[_Group]]:
        states = [self.states[conj] for conj in sorted(group)]
        keys: dict[str, set[Conj]] = {}
        free: dict[Edge, None] = {}
        for edge in (e for state in states for track in state.objects for node in track.nodes for e in _edges(node)):
            if edge.key is not None:
                keys.setdefault(edge.key, set()).add(edge.value)
            else:
                free[edge] = None
        others = {edge.value for edge in free}
        for key, found in keys.items():  # what one branch lists another may take as any key
            found.update(e.value for e in free if e.value not in found and (e.keys is None or matches(e.keys, key)))
        arrays = [track for state in states for track in state.arrays]
        prefix, items = _positions(arrays)
        every = items.union(*prefix)
        below = [frozenset(g) for g in (*keys.values(), *prefix) if g]
        below += [frozenset(g) for g in (others, items) if g]
        node = UniqueNode(
            unique=bool(arrays) and all(track.unique for track in arrays),
            values=_count_values(self.states, every),
            tight=any(_is_tight(self.states[conj]) for conj in every),
            keys=tuple((key, n) for key, g in keys.items() if (n := self.known(g)) >= 0),
            others=self.known(others),
            prefix=tuple(self.known(g) for g in prefix),
            items=self.known(items),
            may_repeat=any(_loose(self.states, track) for track in arrays if track.unique),
        )
        return node, below

    def known(self, group: set[Conj]) -> int:
        return self.numbers.get(frozenset(group), -1)


def _positions(arrays: list[Track]) -> tuple[list[set[Conj]], set[Conj]]:
    """The values of the items by position, as far as positions differ, then of all later ones."""
    prefix: list[set[Conj]] = []
    at = [(track, frozenset((0,))) for track in arrays]
    for _ in range(64):
        values: set[Conj] = set()
        following: list[tuple[Track, frozenset[int]]] = []
        settled = True
        for track, nodes in at:
            edges = [e for n in nodes for e in track.nodes[n].edges]
            runs = [e for n in nodes if track.nodes[n].run is not None for e in track.nodes[n].run[0]]  # type: ignore[index]
            values |= {e.value for e in (*edges, *runs)}
            after = frozenset(e.target for e in edges) | frozenset(n for n in nodes if track.nodes[n].run is not None)
            following.append((track, after))
            settled = settled and after <= nodes
        if settled:
            return prefix, values
        prefix.append(values)
        at = following
    return prefix, {e.value for track in arrays for node in track.nodes for e in _edges(node)}


def _is_tight(state: State) -> bool:
    """May a scalar of the state be begun in a way that leaves only one end?"""
    shape = state.shape
    if any(n != Numbers() for n in shape.numbers):  # an integer that begins with 0 ends there
        return True
    return shape.strings not in (NONE, ALL)


def _with_words(state: State) -> State:
    """The state with its strings one by one, where they are few."""
    listed = few_words(state.shape.strings, _MOST_VALUES)
    return state if listed is None else replace(state, shape=replace(state.shape, strings=words(listed)))


def _count_values(states: States, group: set[Conj]) -> int:
    """How many different scalars there are; 0 where they are not counted."""
    found: set[object] = set()
    for conj in group:
        values = finite_values(_with_words(states[conj]))
        if values is None:
            return 0
        found.update(values)
    return len(found)
