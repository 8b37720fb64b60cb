"""States to grammar nodes: one rule for each state with arrays or objects, lexemes for the rest.

Lexemes end where JSON tokens end (a whole string, a whole number, one separator), in every rule alike: two rules
that are open at once would otherwise cut the text differently and the greedy lexer would lose one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grammars.json_schema.report.dependent_keywords import as_written, leaning
from grammars.limits.schema_limits import check_deadline
from grammars.regular.languages import ALL
from grammars.values.report import ReportRow
from grammars.json_schema.grammar.scalars import finite_values, scalar_nodes
from grammars.json_schema.shapes.shapes import TRUE, Conj
from grammars.json_schema.grammar.nonterminals import INFINITE, State, States
from grammars.regular.json_strings import STRING, lexeme, spell
from grammars.json_schema.tracks import Edge, Track
from grammars.json_schema.tracks import Node as TrackNode
from grammars.tree.nodes import (
    EMPTY,
    Group,
    Node,
    Ref,
    RuleDef,
    Text,
    When,
    alt,
    is_empty,
    opt,
    repeat,
    seq,
)

__all__ = ["Emitted", "emit"]

_OPEN, _CLOSE, _LEFT, _RIGHT = Text("["), Text("]"), Text("{"), Text("}")
_DEEPEST = 30  # options within each other that are written in one rule
_SET_SIZE = 63  # bits of a rule's parameter that can be counted up to


@dataclass(frozen=True, slots=True)
class Emitted:
    """The grammar of the start state, the rows that writing it down brought up, and the arrays to be watched."""

    node: Node
    rows: tuple[ReportRow, ...]
    watched: list[tuple[Conj, Track]]


def emit(states: States) -> Emitted:
    """The grammar of all states."""
    writer = _Writer(states)
    start = writer.value(states.start)
    writer.write_all()
    node = Group("json", start, writer.rules) if writer.rules else start
    root = states.space.documents.root.schema
    rows = [*writer.rows, *leaning(states.space, writer.rows)]
    return Emitted(node, tuple(dict.fromkeys(as_written(row, root) for row in rows)), writer.watched)


class _Writer:
    def __init__(self, states: States) -> None:
        self.states = states
        spelling = states.spelling
        self.space_node = spelling.space()
        self.comma = seq(self.space_node, spelling.item_text, self.space_node)
        self.colon = seq(self.space_node, spelling.key_text, self.space_node)
        self.options: Mapping[str, Any] = spelling.engine_options()
        self.rules: dict[str, RuleDef] = {}
        self.names: dict[Conj, str] = {}
        self.todo: list[Conj] = []
        self.taken: set[str] = set()
        self.numbers: dict[str, int] = {}  # the last that was put behind a hint
        self.rows: list[ReportRow] = []
        self.watched: list[tuple[Conj, Track]] = []
        self.scalars: dict[Conj, Node] = {}

    # -- states

    def value(self, conj: Conj) -> Node:
        """A reference to the state's rule, or the state itself where it is only scalars."""
        known = self.scalars.get(conj)
        if known is not None:
            return known
        if conj in self.names:
            return Ref(self.names[conj])
        state = self.states[conj]
        if not state.arrays and not state.objects:
            node = alt(*self.scalar_options(state))
            self.scalars[conj] = node
            return node
        name = self.free(self.hint(conj))
        self.names[conj] = name
        self.todo.append(conj)
        return Ref(name)

    def write_all(self) -> None:
        """Write the rules of all states that were named, and of those they name."""
        while self.todo:
            check_deadline()
            conj = self.todo.pop()
            state = self.states[conj]
            name = self.names[conj]
            options = self.scalar_options(state)
            for track in state.arrays:
                options += self.array(track, name, conj)
            for track in state.objects:
                options += self.track(track, name, _LEFT, _RIGHT)
            self.rules[name] = RuleDef(alt(*options))

    def hint(self, conj: Conj) -> str:
        if conj == TRUE:
            return "value"
        place = self.states.space.documents[conj[0]]
        step = next((s for s in reversed(place.steps) if isinstance(s, str) and s not in _DULL), "")
        return re.sub(r"[^a-z0-9]+", "_", step.lower()).strip("_")[:24] or "value"

    def free(self, hint: str) -> str:
        number = self.numbers.get(hint, 1)
        name = hint if number == 1 else f"{hint}_{number}"
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        self.numbers[hint] = number
        return name

    def rule(self, hint: str, body: Node) -> Ref:
        name = self.free(hint)
        self.rules[name] = RuleDef(body)
        return Ref(name)

    def scalar_options(self, state: State) -> list[Node]:
        """The state's scalars as nodes; called once per state, so what is to be said of the state is said here."""
        options, notes = scalar_nodes(state.shape, self.options)
        self.rows += state.notes
        place = self.states.space.documents[state.conj[0]] if state.conj else self.states.space.documents.root
        self.rows += [
            ReportRow(pointer, keyword, outcome, reason)
            for outcome, pointers, keyword, reason in notes
            for pointer in pointers or (place.pointer,)
        ]
        return options

    # -- arrays

    def array(self, track: Track, name: str, conj: Conj) -> list[Node]:
        if track.unique:
            bits = self.unique_set(track, name)
            if bits is not None:
                return [bits]
            self.watched.append((conj, track))
        return self.track(track, name, _OPEN, _CLOSE)

    def unique_set(self, track: Track, name: str) -> Node | None:
        """Distinct items out of at most `_SET_SIZE` values: a rule whose parameter holds those written."""
        if len(track.nodes) != 1 or track.nodes[0].run is None:
            return None
        (edge,), least, most = track.nodes[0].run
        values = finite_values(self.states[edge.value])
        if values is None or len(values) > _SET_SIZE:
            return None
        count = len(values)
        final = track.nodes[0].final
        if least > count:
            return seq(_OPEN, _CLOSE)  # only where that is enough: no other array was let through
        span = f"[0:{count}]"
        item, more = self.free(f"{name}_set"), self.free(f"{name}_more")
        top = count if most is None else min(most, count)
        self.rules[item] = RuleDef(
            alt(*(When(seq(v, Ref(more, f"set_bit({i})")), f"bit_clear({i})") for i, v in enumerate(values))),
            parametric=True,
        )
        end: Node = When(EMPTY, f"bit_count_ge({span}, {least})")
        go: Node = When(seq(self.comma, Ref(item, "_")), f"bit_count_lt({span}, {top})")
        self.rules[more] = RuleDef(alt(end, go), parametric=True)
        body = seq(_OPEN, self.space_node, Ref(item, "0x0"), self.space_node, _CLOSE)
        return alt(seq(_OPEN, self.space_node, _CLOSE), body) if final else body

    # -- tracks

    def track(self, track: Track, name: str, left: Node, right: Node) -> list[Node]:
        """The texts of a track between its brackets; no option when it has no end."""
        walk = _Walk(self, track, name)
        body = walk.first()
        return [] if body is None else [seq(left, self.space_node, body, self.space_node, right)]

    def member(self, edge: Edge) -> Node:
        value = self.value(edge.value)
        if edge.key is not None:
            return seq(Text(spell(edge.key)), self.colon, value)
        if edge.keys is not None:
            return seq(STRING if edge.keys == ALL else lexeme(edge.keys), self.colon, value)
        return value


_DULL = {
    "properties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "additionalProperties",
    "$defs",
    "definitions",
}


class _Walk:
    """One track as nodes; a node of the track that several lead to becomes a rule."""

    def __init__(self, writer: _Writer, track: Track, name: str) -> None:
        self.writer = writer
        self.nodes = track.nodes
        self.name = name
        states = writer.states
        self.costs = states.track_costs(track)
        self.rest_costs = list(self.costs)
        if self.nodes:
            self.rest_costs[0] = states._node_cost(self.nodes[0], self.costs, states.comma)
        self.alive = {id(edge) for node in self.nodes for edge in _all_edges(node) if states.edge_cost(edge) < INFINITE}
        self.refs: dict[int, int] = {}
        self.bodies: dict[int, Node] = {}
        self.rule_names: dict[int, str] = {}

    def first(self) -> Node | None:
        """What may stand between the brackets; None when nothing can."""
        chain = self.start_chain()
        self.count_refs(chain)
        self.build_rests()
        options: list[Node] = []
        for i in chain:
            node = self.nodes[i]
            options += [seq(self.writer.member(edge), self.rest(edge.target)) for edge in self.live(node)]
            if node.run is not None:
                run = self.run(node, first=True)
                options += [run] if run is not None else []
            if node.final:
                options.append(EMPTY)
        if not options:
            return None
        empty = [o for o in options if is_empty(o)]
        full = [o for o in options if not is_empty(o)]
        if not full:
            return EMPTY
        return opt(alt(*full)) if empty else alt(*full)

    def start_chain(self) -> list[int]:
        chain, at = [], 0 if self.nodes else None
        while at is not None and at not in chain:
            chain.append(at)
            at = self.nodes[at].skip
        return chain

    def live(self, node: TrackNode) -> list[Edge]:
        return [e for e in node.edges if id(e) in self.alive and self.rest_costs[e.target] < INFINITE]

    def skip(self, node: TrackNode) -> int | None:
        return node.skip if node.skip is not None and self.rest_costs[node.skip] < INFINITE else None

    def count_refs(self, chain: list[int]) -> None:
        """How often each node is continued into, over the nodes that are continued into at all."""
        todo = [e.target for i in chain for e in self.live(self.nodes[i])]
        while todo:
            i = todo.pop()
            self.refs[i] = self.refs.get(i, 0) + 1
            if self.refs[i] > 1:
                continue
            node = self.nodes[i]
            targets = [e.target for e in self.live(node)]
            skip = self.skip(node)
            if skip is not None and not (targets and set(targets) == {skip}):
                targets.append(skip)
            elif targets and skip is not None:
                targets = [skip]
            elif targets and len(set(targets)) == 1:
                targets = targets[:1]
            todo += targets

    def build_rests(self) -> None:
        order = sorted(self.refs, reverse=True)
        for i in order:
            if self.refs[i] > 1 or self.is_loop(i):
                self.rule_names[i] = self.writer.free(f"{self.name}_{i}")
        depths: dict[int, int] = {}
        for i in order:  # later nodes first, so that what is used once can be put in place
            body = self.rest_body(i)
            depths[i] = 1 + max((depths.get(to, 0) for to in self.targets(i) if to in self.bodies), default=0)
            if depths[i] > _DEEPEST and i not in self.rule_names:
                self.rule_names[i] = self.writer.free(f"{self.name}_{i}")
            if i in self.rule_names:
                self.writer.rules[self.rule_names[i]] = RuleDef(body)
            else:
                self.bodies[i] = body

    def targets(self, i: int) -> list[int]:
        skip = self.nodes[i].skip
        return [edge.target for edge in self.live(self.nodes[i])] + ([skip] if skip is not None else [])

    def is_loop(self, i: int) -> bool:
        """Does the node lead back to an earlier one (or itself)?  Then its body cannot be put in place there."""
        node = self.nodes[i]
        return any(e.target <= i for e in self.live(node))

    def rest(self, i: int) -> Node:
        if i in self.rule_names:
            return Ref(self.rule_names[i])
        if i in self.bodies:
            return self.bodies[i]
        self.rule_names[i] = self.writer.free(f"{self.name}_{i}")
        return Ref(self.rule_names[i])

    def rest_body(self, i: int) -> Node:
        node, comma = self.nodes[i], self.writer.comma
        edges, skip = self.live(node), self.skip(node)
        run = self.run(node, first=False) if node.run is not None else None
        if edges and run is None and not node.final:
            targets = {e.target for e in edges} | ({skip} if skip is not None else set())
            if len(targets) == 1:
                step = seq(comma, alt(*map(self.writer.member, edges)))
                return seq(opt(step) if skip is not None else step, self.rest(targets.pop()))
        options = [seq(comma, self.writer.member(e), self.rest(e.target)) for e in edges]
        if skip is not None:
            options.append(self.rest(skip))
        if run is not None:
            options.append(run)
        if node.final and not any(is_empty(o) for o in options):
            if run is not None and len(options) == 1:
                return opt(run) if not _is_star(run) else run
            options.append(EMPTY)
        return alt(*options) if options else EMPTY

    def run(self, node: TrackNode, *, first: bool) -> Node | None:
        """Repeated members; ``first`` without a separator before the first of them."""
        assert node.run is not None
        edges, least, most = node.run
        members = [self.writer.member(e) for e in edges if id(e) in self.alive]
        if not members:
            return None
        member = alt(*members)
        again = seq(self.writer.comma, member)
        if first:
            # left recursion: the separator after a member, as the engine's own sequences have it
            ahead = repeat(seq(member, self.writer.comma), least - 1, None if most is None else most - 1)
            return seq(ahead, member)
        if node.final and least == 1:
            return repeat(again, 0, most)
        return repeat(again, least, most)


def _is_star(node: Node) -> bool:
    return getattr(node, "least", None) == 0


def _all_edges(node: TrackNode) -> list[Edge]:
    return [*node.edges, *(node.run[0] if node.run is not None else ())]
