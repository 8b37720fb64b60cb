"""From nonterminals to grammar nodes: one rule for each with arrays or objects, lexemes for the others.

Lexemes end where JSON tokens end (a whole string, a whole number, one separator), in all rules alike: two rules that
are active at once would otherwise cut the text differently, and the greedy lexer would lose one of them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge, MemberNode
from grammars.json_schema.grammar.nonterminals import Nonterminal, Nonterminals
from grammars.json_schema.grammar.scalars import finite_values, scalar_nodes
from grammars.json_schema.report.dependent_keywords import as_written, dependent_rows
from grammars.json_schema.shapes.shapes import TRUE, Conj
from grammars.limits.schema_limits import check_deadline
from grammars.regular.json_strings import is_free, lexeme, loses_escapes, spell
from grammars.regular.terms import NONE, text
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
from grammars.values.report import ReportRow

__all__ = ["Emitted", "emit"]

_OPEN, _CLOSE, _LEFT, _RIGHT = Text("["), Text("]"), Text("{"), Text("}")
_MAX_DEPTH = 30  # nesting depth of options in one rule
_SET_SIZE = 63  # bits of a rule's parameter


@dataclass(frozen=True, slots=True)
class Emitted:
    """The grammar of the start, the report rows found while writing it, and the arrays to be watched.

    ``loses_escapes``: some strings are written without ``\\u`` escapes of characters that they have;
    ``keys_lose_escapes``: some keys are.
    """

    node: Node
    rows: tuple[ReportRow, ...]
    watched: list[tuple[Conj, MemberAutomaton]]
    loses_escapes: bool
    keys_lose_escapes: bool


def emit(nonterminals: Nonterminals, digits: int) -> Emitted:
    """The grammar of all nonterminals, with numbers of at most ``digits`` digits on each side of the point."""
    writer = _NonterminalWriter(nonterminals, digits)
    start = writer.value(nonterminals.start)
    writer.write_all()
    node = Group("json", start, writer.rules) if writer.rules else start
    root = nonterminals.solver.documents.root.schema
    rows = [*writer.rows, *dependent_rows(nonterminals.solver, writer.rows)]
    report = tuple(dict.fromkeys(as_written(row, root) for row in rows))
    return Emitted(node, report, writer.watched, writer.loses_escapes, writer.keys_lose_escapes)


class _NonterminalWriter:
    def __init__(self, nonterminals: Nonterminals, digits: int) -> None:
        self.nonterminals = nonterminals
        self.digits = digits
        spelling = nonterminals.spelling
        self.space_node = spelling.space()
        self.comma = seq(self.space_node, spelling.item_text, self.space_node)
        self.colon = seq(self.space_node, spelling.key_text, self.space_node)
        self.rules: dict[str, RuleDef] = {}
        self.names: dict[Conj, str] = {}
        self.todo: deque[Conj] = deque()
        self.taken: set[str] = set()
        self.numbers: dict[str, int] = {}  # the last suffix that each hint was given
        self.rows: list[ReportRow] = []
        self.watched: list[tuple[Conj, MemberAutomaton]] = []
        self.scalars: dict[Conj, Node] = {}
        self.loses_escapes = self.keys_lose_escapes = False
        self.compares = any(
            array.unique for nonterminal in nonterminals.by_conj.values() for array in nonterminal.arrays
        )

    # -- nonterminals

    def value(self, conj: Conj) -> Node:
        """A reference to the nonterminal's rule, or its lexemes if it has only scalars."""
        scalar = self.scalars.get(conj)
        if scalar is not None:
            return scalar
        if conj in self.names:
            return Ref(self.names[conj])
        nonterminal = self.nonterminals[conj]
        if not nonterminal.arrays and not nonterminal.objects:
            node = alt(*self.scalar_options(nonterminal))
            self.scalars[conj] = node
            return node
        name = self.unused_name(self.hint(conj))
        self.names[conj] = name
        self.todo.append(conj)
        return Ref(name)

    def write_all(self) -> None:
        """Write the rules of all nonterminals that are referenced, including those that these rules reference."""
        while self.todo:
            check_deadline()
            conj = self.todo.popleft()
            nonterminal = self.nonterminals[conj]
            name = self.names[conj]
            options = self.scalar_options(nonterminal)
            for automaton in nonterminal.arrays:
                options += self.array(automaton, name, conj)
            for automaton in nonterminal.objects:
                options += self.object(automaton, name)
            self.rules[name] = RuleDef(alt(*options))

    def hint(self, conj: Conj) -> str:
        if conj == TRUE:
            return "value"
        place = self.nonterminals.solver.documents[conj[0]]
        step = next((s for s in reversed(place.steps) if isinstance(s, str) and s not in _UNNAMED), "")
        return re.sub(r"[^a-z0-9]+", "_", step.lower()).strip("_")[:24] or "value"

    def unused_name(self, hint: str) -> str:
        number = self.numbers.get(hint, 1)
        name = hint if number == 1 else f"{hint}_{number}"
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        self.numbers[hint] = number
        return name

    def rule(self, hint: str, body: Node) -> Ref:
        name = self.unused_name(hint)
        self.rules[name] = RuleDef(body)
        return Ref(name)

    def scalar_options(self, nonterminal: Nonterminal) -> list[Node]:
        """The scalars as nodes.  Called once per nonterminal, so it also adds the report rows."""
        options, notes = scalar_nodes(nonterminal.shape, self.digits, compared=self.compares)
        strings = nonterminal.shape.strings
        self.loses_escapes |= strings != NONE and (self.compares or not is_free(strings)) and loses_escapes(strings)
        self.rows += nonterminal.notes
        documents = self.nonterminals.solver.documents
        place = documents[nonterminal.conj[0]] if nonterminal.conj else documents.root
        self.rows += [
            ReportRow(pointer, keyword, outcome, reason)
            for outcome, pointers, keyword, reason in notes
            for pointer in pointers or (place.pointer,)
        ]
        return options

    # -- arrays

    def array(self, automaton: MemberAutomaton, name: str, conj: Conj) -> list[Node]:
        if automaton.unique:
            bits = self.unique_set(automaton, name)
            if bits is not None:
                return [bits]
            self.watched.append((conj, automaton))
        return self.automaton(automaton, name, _OPEN, _CLOSE)

    def unique_set(self, automaton: MemberAutomaton, name: str) -> Node | None:
        """Distinct items out of at most `_SET_SIZE` values: a rule whose parameter is the set of those written."""
        if len(automaton.nodes) != 1 or automaton.nodes[0].run is None:
            return None
        (edge,), least, most = automaton.nodes[0].run
        values = finite_values(self.nonterminals[edge.value])
        if values is None or len(values) > _SET_SIZE:
            return None
        count = len(values)
        final = automaton.nodes[0].final
        if least > count:
            return seq(_OPEN, _CLOSE)  # the empty array suffices here: other arrays were excluded before
        span = f"[0:{count}]"
        top = count if most is None else min(most, count)
        end, go = f"bit_count_ge({span}, {least})", f"bit_count_lt({span}, {top})"
        body = seq(_OPEN, self.space_node, self.each_once(name, values, end, go), self.space_node, _CLOSE)
        return alt(seq(_OPEN, self.space_node, _CLOSE), body) if final else body

    def each_once(
        self, name: str, options: Sequence[Node], end: str | None, go: str | None, others: Node | None = None
    ) -> Node:
        """Options in any order, each at most once, and ``others`` between them: at least one of all.

        The parameter of its rules is the set of the options that are written; the text may end where the condition
        ``end`` holds of it, and go on where ``go`` holds.
        """
        item, more = self.unused_name(f"{name}_set"), self.unused_name(f"{name}_more")
        nodes: list[Node] = [
            When(seq(node, Ref(more, f"set_bit({i})")), f"bit_clear({i})") for i, node in enumerate(options)
        ]
        if others is not None:
            nodes.append(seq(others, Ref(more, "_")))
        self.rules[item] = RuleDef(alt(*nodes), parametric=True)
        again = seq(self.comma, Ref(item, "_"))
        ways = [EMPTY if end is None else When(EMPTY, end), again if go is None else When(again, go)]
        self.rules[more] = RuleDef(alt(*ways), parametric=True)
        return Ref(item, "0x0")

    # -- automata

    def object(self, automaton: MemberAutomaton, name: str) -> list[Node]:
        """The texts of an object's automaton; with the spelling's ``any_order`` it is a chain of keys to reorder."""
        if not self.nonterminals.spelling.any_order or not automaton.nodes[0].edges:
            return self.automaton(automaton, name, _LEFT, _RIGHT)
        needed: list[Node] = []
        optional: list[Node] = []
        node = automaton.nodes[0]
        while node.edges:
            (edge,) = node.edges
            if self.nonterminals.can_write(edge):
                (needed if node.skip is None else optional).append(self.member(edge))
            elif node.skip is None:
                return []
            node = automaton.nodes[edge.target]
        edges = list(filter(self.nonterminals.can_write, node.run[0] if node.run else ()))
        others = alt(*map(self.member, edges)) if edges else None
        members = (*needed, *optional)
        if not members and others is None:
            return [seq(_LEFT, self.space_node, _RIGHT)]
        end = f"is_ones([0:{len(needed)}])" if needed else None
        go = None if edges else f"bit_count_lt([0:{len(members)}], {len(members)})"
        body = self.each_once(name, members, end, go, others)
        return [seq(_LEFT, self.space_node, body if needed else opt(body), self.space_node, _RIGHT)]

    def automaton(self, automaton: MemberAutomaton, name: str, left: Node, right: Node) -> list[Node]:
        """The texts of an automaton with its brackets; no option when it has no end."""
        walk = _AutomatonWriter(self, automaton, name)
        body = walk.first()
        return [] if body is None else [seq(left, self.space_node, body, self.space_node, right)]

    def member(self, edge: MemberEdge) -> Node:
        value = self.value(edge.value)
        if edge.key is not None:
            self.keys_lose_escapes |= loses_escapes(text(edge.key))
            return seq(Text(spell(edge.key)), self.colon, value)
        if edge.keys is not None:
            self.keys_lose_escapes |= loses_escapes(edge.keys)
            return seq(lexeme(edge.keys), self.colon, value)
        return value


#: Steps of a pointer that give no name to a rule.
_UNNAMED = {
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


class _AutomatonWriter:
    """One automaton as grammar nodes; a node with several predecessors becomes a rule."""

    def __init__(self, writer: _NonterminalWriter, automaton: MemberAutomaton, name: str) -> None:
        self.writer = writer
        self.nodes = automaton.nodes
        self.name = name
        nonterminals = writer.nonterminals
        self.ends = automaton.ends
        self.alive = {id(edge) for node in self.nodes for edge in node.all_edges() if nonterminals.can_write(edge)}
        self.refs: dict[int, int] = {}
        self.bodies: dict[int, Node] = {}
        self.rule_names: dict[int, str] = {}

    def first(self) -> Node | None:
        """The text between the brackets; None when there is none."""
        for node in self.nodes:  # in their order, which is that of names and of the report
            runs = node.run[0] if node.run is not None else ()
            for edge in (*self.live(node), *(edge for edge in runs if id(edge) in self.alive)):
                self.writer.value(edge.value)
        chain = self.start_chain()
        self.count_refs(chain)
        self.build_tails()
        options: list[Node] = []
        for i in chain:
            node = self.nodes[i]
            options += [seq(self.writer.member(edge), self.tail(edge.target)) for edge in self.live(node)]
            if node.run is not None:
                run = self.run(node, first=True)
                options += [run] if run is not None else []
            if node.final:
                options.append(EMPTY)
        if not options:
            return None
        full = [o for o in options if not is_empty(o)]
        if not full:
            return EMPTY
        return opt(alt(*full)) if len(full) < len(options) else alt(*full)

    def start_chain(self) -> list[int]:
        chain, at = [], 0 if self.nodes else None
        while at is not None and at not in chain:
            chain.append(at)
            at = self.nodes[at].skip
        return chain

    def live(self, node: MemberNode) -> list[MemberEdge]:
        return [e for e in node.edges if id(e) in self.alive and self.ends[e.target]]

    def skip(self, node: MemberNode) -> int | None:
        return node.skip if node.skip is not None and self.ends[node.skip] else None

    def count_refs(self, chain: list[int]) -> None:
        """Count the references to each node that is reachable."""
        todo = [e.target for i in chain for e in self.live(self.nodes[i])]
        while todo:
            i = todo.pop()
            self.refs[i] = self.refs.get(i, 0) + 1
            if self.refs[i] > 1:
                continue
            targets = self.targets(i)
            todo += targets[:1] if len(set(targets)) == 1 else targets

    def build_tails(self) -> None:
        order = sorted(self.refs, reverse=True)
        for i in order:
            if self.refs[i] > 1 or self.is_loop(i):
                self.rule_names[i] = self.writer.unused_name(f"{self.name}_{i}")
        depths: dict[int, int] = {}
        for i in order:  # later nodes first, so that those used once can be inlined
            body = self.tail_body(i)
            depths[i] = 1 + max((depths.get(to, 0) for to in self.targets(i) if to in self.bodies), default=0)
            if depths[i] > _MAX_DEPTH and i not in self.rule_names:
                self.rule_names[i] = self.writer.unused_name(f"{self.name}_{i}")
            if i in self.rule_names:
                self.writer.rules[self.rule_names[i]] = RuleDef(body)
            else:
                self.bodies[i] = body

    def targets(self, i: int) -> list[int]:
        skip = self.skip(self.nodes[i])
        return [edge.target for edge in self.live(self.nodes[i])] + ([skip] if skip is not None else [])

    def is_loop(self, i: int) -> bool:
        """Whether the node leads back to itself or an earlier one, so that its body cannot be inlined."""
        return any(e.target <= i for e in self.live(self.nodes[i]))

    def tail(self, i: int) -> Node:
        if i in self.rule_names:
            return Ref(self.rule_names[i])
        if i in self.bodies:
            return self.bodies[i]
        self.rule_names[i] = self.writer.unused_name(f"{self.name}_{i}")
        return Ref(self.rule_names[i])

    def tail_body(self, i: int) -> Node:
        node, comma = self.nodes[i], self.writer.comma
        edges, skip = self.live(node), self.skip(node)
        run = self.run(node, first=False) if node.run is not None else None
        if edges and run is None and not node.final:
            targets = {e.target for e in edges} | ({skip} if skip is not None else set())
            if len(targets) == 1:
                step = seq(comma, alt(*map(self.writer.member, edges)))
                return seq(opt(step) if skip is not None else step, self.tail(targets.pop()))
        options = [seq(comma, self.writer.member(e), self.tail(e.target)) for e in edges]
        if skip is not None:
            options.append(self.tail(skip))
        if run is not None:
            options.append(run)
        if node.final and not any(is_empty(o) for o in options):
            if run is not None and len(options) == 1:
                return run if getattr(run, "least", None) == 0 else opt(run)
            options.append(EMPTY)
        return alt(*options) if options else EMPTY

    def run(self, node: MemberNode, *, first: bool) -> Node | None:
        """Repeated members; ``first``: without a separator before the first of them."""
        assert node.run is not None
        edges, least, most = node.run
        members = [self.writer.member(e) for e in edges if id(e) in self.alive]
        if not members:
            return None
        member = alt(*members)
        again = seq(self.writer.comma, member)
        if first:
            # left recursion: the separator follows each member, as in the engine's own sequences
            ahead = repeat(seq(member, self.writer.comma), least - 1, None if most is None else most - 1)
            return seq(ahead, member)
        if node.final and least == 1:
            return repeat(again, 0, most)
        return repeat(again, least, most)
