"""The nonterminals of a grammar: all conjunctions that it needs, and whether each has a value.

`explore` is a worklist from the start until nothing new appears; then it finds, as a least fixed point, the
nonterminals of which a text can be finished.  Edges to the others are removed, so that the grammar has no dead ends; a
start without a text is an unsatisfiable schema.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from grammars.json_schema.document.places import Place
from grammars.json_schema.grammar.array_order import array_automaton
from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge, MemberNode
from grammars.json_schema.grammar.object_order import key_orders, object_automaton
from grammars.json_schema.grammar.property_order import property_order
from grammars.json_schema.report.misspelt import unlisted_keys
from grammars.json_schema.shapes.numbers import MAX_DIGITS, has_text, within_digits
from grammars.json_schema.shapes.shapes import ArrayForm, Conj, ObjectForm, Shape
from grammars.json_schema.solver.propagation import propagate_array, propagate_object
from grammars.json_schema.solver.solver import Overrun, Solver, Unsatisfiable
from grammars.limits.schema_limits import check_deadline
from grammars.limits.work import TooMuch
from grammars.regular.finite import finite_words
from grammars.regular.json_strings import may_hold_text
from grammars.regular.terms import NONE, Regular
from grammars.values.json_pointer import value_at
from grammars.values.report import Outcome, ReportRow
from grammars.values.spelling import Spelling
from special_tokens.errors import SchemaError

__all__ = ["Nonterminal", "Nonterminals", "explore"]

_MAX_ITEMS = 500_000  # required items of an array, or keys of an object
_COUNTING_RULES = 400  # rules of one array for counting items, in addition to those of its positions
_NODES_PER_KEY = 40  # rules per key of one object for conditions across its keys
MAX_ANY_ORDER = 63  #: keys of an object that are written in any order: bits of the parameter of a rule
_WORD_BUDGET = 1_500  # states searched for a string
_MAX_FORMS_TWICE = 24  # with more forms only the schema's order is written


@dataclass(slots=True)
class Nonterminal:
    """One conjunction: its scalars as texts to choose from, its arrays and objects as member-order automata."""

    conj: Conj
    shape: Shape
    arrays: list[MemberAutomaton] = field(default_factory=list)
    objects: list[MemberAutomaton] = field(default_factory=list)
    has_scalar: bool = False
    ends: bool = False  #: whether some value of it can be finished
    notes: list[ReportRow] = field(default_factory=list)


class Nonterminals:
    """The nonterminals by conjunction; ``start`` is that of the whole schema."""

    def __init__(self, solver: Solver, spelling: Spelling, start: Conj) -> None:
        self.solver = solver
        self.limits = solver.limits
        self.spelling = spelling
        self.start = start
        self.by_conj: dict[Conj, Nonterminal] = {}
        self.users: dict[Conj, list[Conj]] = {}
        self.order: list[Conj] = []
        self.num_edges = 0
        self.too_few_values: list[Place] = []  #: places of arrays with too few values for distinct items
        self.unwritable: list[Place] = []  #: places with numbers for which no text was found
        self._values: dict[Conj, frozenset[Hashable] | None] = {}
        self._known_keys: dict[Regular, bool] = {}

    def __getitem__(self, conj: Conj) -> Nonterminal:
        return self.by_conj[conj]

    def explore(self) -> None:
        """Make every nonterminal that can be reached."""
        todo = deque([self.start])
        while todo:
            conj = todo.popleft()
            if conj in self.by_conj:
                continue
            check_deadline(self._place(conj))
            if len(self.by_conj) >= self.limits.states:
                raise Overrun(
                    f"the schema needs more than {self.limits.states} rules, the limit 'states'",
                    pointer=self._place(conj).pointer,
                    hint="use fewer nested allOf, anyOf and oneOf",
                )
            nonterminal = self._make(conj)
            self.by_conj[conj] = nonterminal
            self.order.append(conj)
            for automaton in (*nonterminal.arrays, *nonterminal.objects):
                for value in automaton.values():
                    self.users.setdefault(value, []).append(conj)
                    if value not in self.by_conj:
                        todo.append(value)

    def _count_edges(self, automata: list[MemberAutomaton], place: Place) -> None:
        self.num_edges += sum(1 + len(node.edges) for automaton in automata for node in automaton.nodes)
        if self.num_edges > self.limits.edges:
            raise Overrun(
                f"the schema needs more than {self.limits.edges} members in its rules, the limit 'edges'",
                pointer=place.pointer,
                hint="use fewer alternatives that share keys",
            )

    def _place(self, conj: Conj) -> Place:
        return self.solver.documents[conj[0]] if conj else self.solver.documents.root

    def _make(self, conj: Conj) -> Nonterminal:
        shape = self.solver.shape(conj)
        if not may_hold_text(shape.strings, _WORD_BUDGET):
            shape = replace(shape, strings=NONE)
        nonterminal = Nonterminal(conj, shape, notes=[*shape.notes])
        nonterminal.has_scalar = self._has_scalar(shape)
        place = self._place(conj)
        if not nonterminal.has_scalar and not all(numbers.is_empty() for numbers in shape.numbers):
            self.unwritable.append(place)
        for form in shape.arrays:
            settled = propagate_array(form, self.solver.is_empty)
            if settled is not None and _has_too_few_values(settled, self.values):
                self.too_few_values += [self.solver.documents[number] for number in settled.unique]
            elif settled is not None:
                self._check_items(settled, place)
                nonterminal.arrays.append(self._array(settled, nonterminal, place))
                self._count_edges(nonterminal.arrays[-1:], place)
        forms = [f for f in (propagate_object(form, self.solver.is_empty) for form in shape.objects) if f is not None]
        order = property_order(self.solver, conj) if forms else []
        for obj in forms:
            if obj.least > _MAX_ITEMS:
                raise SchemaError(
                    f"at least {obj.least} keys, the limit is {_MAX_ITEMS}",
                    pointer=place.pointer,
                    keyword="minProperties",
                    hint="ask for fewer keys",
                )
            if len(obj.props) > self.limits.keys:
                raise SchemaError(
                    f"an object lists {len(obj.props)} keys, the limit 'keys' is {self.limits.keys}",
                    pointer=place.pointer,
                    keyword="properties",
                    hint="use patternProperties or additionalProperties",
                )
            automata = self._objects(obj, order, nonterminal, place, alone=len(forms) <= _MAX_FORMS_TWICE)
            self._count_edges(automata, place)
            nonterminal.objects += automata
        return nonterminal

    def values(self, conj: Conj) -> frozenset[Hashable] | None:
        """The values of a conjunction; None unless they are few scalars."""
        if conj not in self._values:
            self._values[conj] = _values_of(self.solver.shape(conj))
        return self._values[conj]

    def _check_items(self, form: ArrayForm, place: Place) -> None:
        if len(form.prefix) > self.limits.items:
            raise SchemaError(
                f"an array lists {len(form.prefix)} positions, the limit 'items' is {self.limits.items}",
                pointer=place.pointer,
                keyword="prefixItems",
                hint="use items for the positions that are alike",
            )
        if form.least > _MAX_ITEMS:
            raise SchemaError(
                f"at least {form.least} items, the limit is {_MAX_ITEMS}",
                pointer=place.pointer,
                keyword="minItems",
                hint="ask for fewer items",
            )

    def _array(self, form: ArrayForm, nonterminal: Nonterminal, place: Place) -> MemberAutomaton:
        try:
            return array_automaton(form, _COUNTING_RULES + len(form.prefix))
        except TooMuch:
            reason = f"not enforced: counting items needs more than {_COUNTING_RULES} rules"
            nonterminal.notes += [ReportRow(place.pointer, k, Outcome.RELAXED, reason) for k in _blamed(place)]
            bare = ArrayForm(form.prefix, form.items, form.least, form.most, (), form.unique)
            return array_automaton(bare, 1 << 30)

    def _objects(
        self, form: ObjectForm, order: list[str], nonterminal: Nonterminal, place: Place, *, alone: bool
    ) -> list[MemberAutomaton]:
        """The form's automata: in the schema's order, and in its own if that differs."""
        orders = key_orders(form, order)[: 2 if alone else 1]
        if self.spelling.any_order:
            _check_any_order(form, place)
            orders = orders[:1]
        limit = _NODES_PER_KEY * (len(orders[0]) + 25)
        try:
            return [object_automaton(form, keys, limit) for keys in orders]
        except TooMuch:
            pass
        keyword = "minProperties" if form.least else "maxProperties" if form.most is not None else "required"
        reason = f"not enforced: it needs more than {limit} rules"
        nonterminal.notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, reason))
        bare = ObjectForm(form.props, form.cells, form.required, late=form.late)
        return [object_automaton(bare, orders[0], 1 << 30)]

    # -- what can be finished

    def _has_scalar(self, shape: Shape) -> bool:
        """Whether some scalar of the shape can be written."""
        if shape.null or shape.booleans or shape.strings != NONE:
            return True
        return any(has_text(within_digits(numbers)) for numbers in shape.numbers)

    def find_ends(self) -> None:
        """Find which nonterminals can be finished: the least fixed point."""
        todo = deque(reversed(self.order))
        waiting = set(todo)
        while todo:
            conj = todo.popleft()
            waiting.discard(conj)
            check_deadline()
            nonterminal = self.by_conj[conj]
            ends = nonterminal.has_scalar
            for automaton in (*nonterminal.arrays, *nonterminal.objects):
                automaton.ends = self._ends(automaton.nodes)
                ends = ends or automaton.ends[0]
            if ends and not nonterminal.ends:
                nonterminal.ends = True
                for user in self.users.get(conj, ()):
                    if user not in waiting:
                        waiting.add(user)
                        todo.append(user)

    def _ends(self, nodes: list[MemberNode]) -> list[bool]:
        """For each node whether the text can be finished from there."""
        ends = [False] * len(nodes)
        changed = True
        while changed:  # automata are chains with loops: few rounds suffice, from the end
            changed = False
            for i in range(len(nodes) - 1, -1, -1):
                if not ends[i] and self._node_ends(nodes[i], ends):
                    ends[i] = changed = True
        return ends

    def _node_ends(self, node: MemberNode, ends: list[bool]) -> bool:
        if node.final or (node.skip is not None and ends[node.skip]):
            return True
        runs = node.run[0] if node.run is not None else ()
        return any(map(self.can_write, runs)) or any(ends[e.target] and self.can_write(e) for e in node.edges)

    def can_write(self, edge: MemberEdge) -> bool:
        """Whether the edge has a member or item that can be finished."""
        return self.by_conj[edge.value].ends and (edge.keys is None or self._has_key(edge.keys))

    def _has_key(self, keys: Regular) -> bool:
        known = self._known_keys.get(keys)
        if known is None:
            known = self._known_keys[keys] = may_hold_text(keys, _WORD_BUDGET)
        return known


def _check_any_order(form: ObjectForm, place: Place) -> None:
    """Raise `SchemaError` for an object whose keys the grammar cannot count in any order."""
    wrong = ""
    if len(form.props) > MAX_ANY_ORDER:
        wrong = f"{len(form.props)} keys in any order, the limit is {MAX_ANY_ORDER}"
    elif form.clauses or form.most is not None or form.least > len(form.required):
        wrong = "keys in any order under a condition on several keys"
    if wrong:
        hint = "leave key_order at 'schema', or name the keys that come first"
        raise SchemaError(wrong, pointer=place.pointer, keyword="properties", hint=hint)


def _blamed(place: Place) -> list[str]:
    """The keywords of a place that may have required counts of items, directly or by a negation."""
    keywords = [k for k in ("contains", "oneOf", "not", "if", "anyOf", "allOf", "$ref") if k in place.schema]
    return keywords or ["contains"]


def explore(solver: Solver, spelling: Spelling, start: Conj) -> Nonterminals:
    """All nonterminals from ``start``.  Raises `SchemaError` when the start has no value at all."""
    nonterminals = Nonterminals(solver, spelling, start)
    nonterminals.explore()
    nonterminals.find_ends()
    if nonterminals[start].ends:
        return nonterminals
    if nonterminals.too_few_values:
        raise Unsatisfiable(
            "unsatisfiable: more different items are wanted than there are values",
            pointer=nonterminals.too_few_values[0].pointer,
            keyword="uniqueItems",
            hint="ask for fewer items, or leave out uniqueItems",
        )
    if nonterminals.unwritable and not solver.is_empty(start):
        raise SchemaError(
            f"no number with at most {MAX_DIGITS} digits on each side of the point was found for it",
            pointer=nonterminals.unwritable[0].pointer,
            hint="use bounds and steps that are nearer to 1",
        )
    hint = "look for required keys whose schema is false, or bounds that exclude each other"
    if solver.may_be_wider(start):
        hint += "; some readings of its patterns, formats or contains may allow values, but not all do"
    pointer = _locate_unsatisfiable(solver, start)
    lost = unlisted_keys(value_at(solver.documents.root.schema, pointer))
    if lost:
        hint = f"{', '.join(map(repr, lost[:3]))} {'is' if len(lost) == 1 else 'are'} required, not among properties"
    raise Unsatisfiable("unsatisfiable: no value satisfies it", pointer=pointer, hint=hint)


def _locate_unsatisfiable(solver: Solver, start: Conj) -> str:
    """The JSON pointer of the innermost place that must have a value and has none, or else of ``start``."""
    conj, visited = start, {start}
    while True:
        below = _needed_and_empty(solver, solver.shape(conj))
        if below is None or below in visited:
            place = next((literal for literal in conj if literal > 0), None)
            return solver.documents.root.pointer if place is None else solver.documents[place].pointer
        conj = below
        visited.add(conj)


def _needed_and_empty(solver: Solver, shape: Shape) -> Conj | None:
    """A value that the only form requires and that nothing satisfies."""
    if len(shape.objects) + len(shape.arrays) != 1:
        return None
    for form in shape.objects:
        for key, value in form.props.items():
            if key in form.required and value is not None and solver.is_empty(value):
                return value
    for array in shape.arrays:
        for i in range(min(array.least, len(array.prefix) + 1)):
            value = array.item(i)
            if value is not None and solver.is_empty(value):
                return value
    return None


#: The values of a conjunction; None unless they are few scalars.
_Values: TypeAlias = Callable[[Conj], frozenset[Hashable] | None]

_MAX_VALUES = 1_000  # more different items in one array do not occur


def _values_of(shape: Shape) -> frozenset[Hashable] | None:
    """The values of a shape; None unless they are few scalars."""
    if shape.arrays or shape.objects:
        return None
    values: set[Hashable] = {("null",)} if shape.null else set()
    values |= {("boolean", bit) for bit in (1, 2) if shape.booleans & bit}
    for numbers in shape.numbers:
        listed = numbers.listed().values
        if listed is None:
            return None
        values |= {("number", value) for value, _ in listed}
    if shape.strings != NONE:
        words = finite_words(shape.strings, _MAX_VALUES)
        if words is None:
            return None
        values |= {("string", word) for word in words}
    return frozenset(values) if len(values) <= _MAX_VALUES else None


def _has_too_few_values(form: ArrayForm, values: _Values) -> bool:
    """Whether the positions with few values have fewer different ones together than the items that must stand there."""
    if not form.unique:
        return False
    wanted = [(1, form.item(at)) for at in range(min(form.least, len(form.prefix)))]
    wanted.append((max(0, form.least - len(form.prefix)), form.item(len(form.prefix))))
    kinds = [[(count.least, count.item)] for count in form.counts] + [wanted]
    for kind in kinds:
        few = [(least, frozenset() if item is None else values(item)) for least, item in kind if least]
        counted = [(least, of_item) for least, of_item in few if of_item is not None]
        if sum(least for least, _ in counted) > len(frozenset().union(*(of_item for _, of_item in counted))):
            return True
    return False
