"""The constraints of a grammar that need a watcher at run time, and the report rows without one."""

from __future__ import annotations

from fractions import Fraction

from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge
from grammars.json_schema.grammar.nonterminals import Nonterminal, Nonterminals
from grammars.json_schema.shapes.numbers import MAX_DIGITS, Numbers
from grammars.json_schema.shapes.shapes import Conj
from grammars.limits.schema_limits import check_deadline
from grammars.regular.finite import count_words
from grammars.regular.languages import lengths
from grammars.regular.terms import ALL, NONE, Regular, matches
from grammars.values.report import Outcome, ReportRow
from grammars.values.watchers import UniqueNode

__all__ = ["has_free_keys", "has_key_order", "has_long_numbers", "key_bounds", "unique_nodes", "unique_rows"]

_MAX_NODES = 2_000

#: The conjunctions that a value may have to satisfy: one for each branch that it may have been written under.
_Group = frozenset[Conj]


def has_free_keys(nonterminals: Nonterminals) -> bool:
    """Whether some object may take keys that no schema lists, and so the same key twice."""
    for nonterminal in nonterminals.by_conj.values():
        for automaton in nonterminal.objects:
            for node in automaton.nodes:
                if any(edge.keys is not None for edge in node.all_edges()):
                    return True
    return False


def has_key_order(nonterminals: Nonterminals) -> bool:
    """Whether some object may have two keys, one of which is listed and so has a fixed position."""
    return any(
        len(automaton.nodes) > 1 and any(edge.key is not None for node in automaton.nodes for edge in node.edges)
        for nonterminal in nonterminals.by_conj.values()
        for automaton in nonterminal.objects
    )


def has_long_numbers(nonterminals: Nonterminals) -> bool:
    """Whether there are numbers whose length neither a list nor a pair of bounds limits."""
    return any(
        numbers.values is None and not (numbers.integer and _is_short(numbers.low) and _is_short(numbers.high))
        for nonterminal in nonterminals.by_conj.values()
        for numbers in nonterminal.shape.numbers
    )


def _is_short(bound: Fraction | None) -> bool:
    return bound is not None and abs(bound) < 10**MAX_DIGITS


def unique_rows(
    nonterminals: Nonterminals, watched: list[tuple[Conj, MemberAutomaton]], *, watch: bool
) -> list[ReportRow]:
    """The report rows for ``uniqueItems`` at the arrays where only a watcher can enforce it."""
    rows: list[ReportRow] = []
    mixed = _mixed(nonterminals) if watch and watched else frozenset()
    for conj, automaton in watched:
        reason = _NOT_WATCHED if not watch else _MIXED if conj in mixed else _loose(nonterminals, automaton)
        for number in automaton.unique:
            pointer = nonterminals.solver.documents[number].pointer
            if reason:
                rows.append(ReportRow(pointer, "uniqueItems", Outcome.RELAXED, reason))
            else:
                rows.append(ReportRow(pointer, "uniqueItems", Outcome.EXACT, "watched while it is written"))
    return rows


_NOT_WATCHED = "not enforced: the items are compared after generation only"
_MIXED = "another branch allows equal items, and which branch applies is not known during generation"


def _loose(nonterminals: Nonterminals, automaton: MemberAutomaton) -> str:
    """The reason why a watcher cannot keep all items distinct; empty when it can."""
    items = set(automaton.values())
    if any(nonterminals[item].arrays or nonterminals[item].objects for item in items):
        return "items that are arrays or objects are compared after generation only"
    if len(items) > 1 and any(map(nonterminals.values, items)):  # where all have the same, the watcher counts them
        return "some items have so few values that all may be used up by earlier items"
    return ""


def _mixed(nonterminals: Nonterminals) -> frozenset[Conj]:
    """The conjunctions that may occur where arrays with equal items are allowed as well, or past the watched nodes."""
    nodes = _Nodes(nonterminals)
    nodes.visit(frozenset((nonterminals.start,)))
    mixed = {conj for group, at in nodes.numbers.items() if not nodes.nodes[at].unique for conj in group}
    return frozenset(mixed | nodes.dropped)


def unique_nodes(nonterminals: Nonterminals) -> tuple[UniqueNode, ...]:
    """The places under the start where arrays must not repeat an item; () when there is none."""
    nodes = _Nodes(nonterminals)
    nodes.visit(frozenset((nonterminals.start,)))
    return tuple(nodes.nodes) if any(node.unique for node in nodes.nodes) else ()


class _Nodes:
    """Numbers the groups of conjunctions in the order of discovery, and makes a node of each."""

    def __init__(self, nonterminals: Nonterminals) -> None:
        self.nonterminals = nonterminals
        self.numbers: dict[_Group, int] = {}
        self.nodes: list[UniqueNode] = []
        self.dropped: set[Conj] = set()

    def visit(self, group: _Group) -> int:
        todo = [group]
        first = self.number(group)
        while todo:
            check_deadline()
            conj = todo.pop()
            at = self.numbers[conj]
            self.nodes[at], below = self.node(conj)
            todo += [g for g in below if g not in self.numbers and self.number(g) >= 0]
            self.nodes[at], _ = self.node(conj)  # again, now that the groups below have numbers
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
        nonterminals = [self.nonterminals[conj] for conj in sorted(group)]
        keys: dict[str, set[Conj]] = {}
        free: dict[MemberEdge, None] = {}
        for edge in (
            e
            for nonterminal in nonterminals
            for automaton in nonterminal.objects
            for node in automaton.nodes
            for e in node.all_edges()
        ):
            if edge.key is not None:
                keys.setdefault(edge.key, set()).add(edge.value)
            else:
                free[edge] = None
        others = {edge.value for edge in free}
        for key, values in keys.items():  # a key that one branch lists may be any key of another
            values.update(e.value for e in free if e.value not in values and (e.keys is None or matches(e.keys, key)))
        arrays = [automaton for nonterminal in nonterminals for automaton in nonterminal.arrays]
        prefix, items = _positions(arrays)
        every = items.union(*prefix)
        below = [frozenset(g) for g in (*keys.values(), *prefix) if g]
        below += [frozenset(g) for g in (others, items) if g]
        node = UniqueNode(
            unique=bool(arrays) and all(automaton.unique for automaton in arrays),
            values=_count_values(self.nonterminals, every),
            tight=any(_is_tight(self.nonterminals[conj]) for conj in every),
            keys=tuple((key, n) for key, g in keys.items() if (n := self.number_of(g)) >= 0),
            others=self.number_of(others),
            prefix=tuple(self.number_of(g) for g in prefix),
            items=self.number_of(items),
            may_repeat=any(_loose(self.nonterminals, automaton) for automaton in arrays if automaton.unique),
        )
        return node, below

    def number_of(self, group: set[Conj]) -> int:
        return self.numbers.get(frozenset(group), -1)


def _positions(arrays: list[MemberAutomaton]) -> tuple[list[set[Conj]], set[Conj]]:
    """The values of the items by position, as long as positions differ, then of all later ones."""
    prefix: list[set[Conj]] = []
    at = [(automaton, frozenset((0,))) for automaton in arrays]
    for _ in range(64):
        values: set[Conj] = set()
        following: list[tuple[MemberAutomaton, frozenset[int]]] = []
        settled = True
        for automaton, nodes in at:
            edges = [e for n in nodes for e in automaton.nodes[n].edges]
            runs = [e for n in nodes if automaton.nodes[n].run is not None for e in automaton.nodes[n].run[0]]  # type: ignore[index]
            values |= {e.value for e in (*edges, *runs)}
            after = frozenset(e.target for e in edges) | frozenset(
                n for n in nodes if automaton.nodes[n].run is not None
            )
            following.append((automaton, after))
            settled = settled and after <= nodes
        if settled:
            return prefix, values
        prefix.append(values)
        at = following
    return prefix, {e.value for automaton in arrays for node in automaton.nodes for e in node.all_edges()}


def _is_tight(nonterminal: Nonterminal) -> bool:
    """Whether a scalar may begin in a way that leaves only one end."""
    shape = nonterminal.shape
    if any(n != Numbers() for n in shape.numbers):  # an integer that begins with 0 ends there
        return True
    return shape.strings not in (NONE, ALL)


def _count_values(nonterminals: Nonterminals, group: set[Conj]) -> int:
    """The number of different scalars; 0 where they are not counted."""
    distinct: set[object] = set()
    for conj in group:
        values = nonterminals.values(conj)
        if values is None:
            return 0
        distinct |= values
    return len(distinct)


def key_bounds(nonterminals: Nonterminals) -> tuple[bool, int]:
    """``tight_keys`` and ``fewest_keys`` of `UniqueWatch`, by the languages of the keys of all objects together."""
    tight, fewest = False, 0
    for nonterminal in nonterminals.by_conj.values():
        for node in (node for automaton in nonterminal.objects for node in automaton.nodes):
            for edges in (node.run[0] if node.run is not None else (), *((edge,) for edge in node.edges)):
                languages = [edge.keys for edge in edges if edge.keys is not None]
                if all(map(_goes_on, languages)):
                    continue
                tight, words = True, count_words(languages)
                if words is not None:
                    fewest = min(fewest or words, max(1, words))
    return tight, fewest


def _goes_on(language: Regular) -> bool:
    """Whether every prefix can be continued in infinitely many ways; False where that is not easily seen."""
    match language.op:
        case "rep":
            return language.args[2] is None
        case "cat":
            return bool(language.args) and _goes_on(language.args[-1])
        case "alt":
            return all(map(_goes_on, language.args))
        case "not":
            return lengths(language.args[0])[1] is not None
        case "and":
            others = [part for part in language.args if part.op != "not" or not _goes_on(part)]
            return len(others) <= 1 and all(map(_goes_on, others))
    return False
