"""All conjunctions that the grammar needs, with the cost of the shortest value of each.

`explore` follows values from the start until nothing new appears, then works out, as a least fixed point, how long
the shortest text of every state is.  States without one can never be finished: edges to them are cut, so that the
grammar has no dead ends, and a start without one is an unsatisfiable schema.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from grammars.json_schema.grammar.array_order import array_track
from grammars.json_schema.solver.case_split import cases
from grammars.json_schema.grammar.unsatisfiable import culprit
from grammars.json_schema.grammar.distinct_items import is_short, values_of
from grammars.regular.lexer_cost import bearable
from grammars.json_schema.shapes.extreme_numbers import far_text
from grammars.json_schema.report.document_rows import asks_for_borders
from grammars.limits.schema_limits import check_deadline
from grammars.json_schema.grammar.property_order import naming_order
from grammars.json_schema.shapes.numbers import MAX_DIGITS, shortest_number
from grammars.json_schema.shapes.numbers import writable as writable_numbers
from grammars.json_schema.grammar.object_order import key_orders, narrow, object_track
from grammars.json_schema.document.places import Place
from grammars.regular.languages import NONE, UNKNOWN, Regular, lengths, shortest
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.solver.propagation import settle_array, settle_object
from grammars.json_schema.shapes.shapes import ArrayForm, Conj, ObjectForm, Shape
from grammars.json_schema.solver.solver import Overrun, Space
from grammars.values.spelling import Spelling
from grammars.regular.json_strings import spell, writable
from grammars.json_schema.tracks import Edge, Node, TooManyNodes, Track
from special_tokens.errors import SchemaError

__all__ = ["INFINITE", "State", "States", "explore"]

INFINITE = 1 << 60

_MOST_ITEMS = 500_000  # that an array, or keys that an object, must have
_COUNTING = 400  # rules that one array may take for counting items, beside those of its positions
_NODES_PER_KEY = 40  # rules that one object may take for conditions across its keys
_WORD_BUDGET = 1_500  # states of the search for a shortest string
_MAX_TWICE = 24  # with more forms than this only the schema's order is written


@dataclass(slots=True)
class State:
    """One conjunction: its scalars as texts to choose from, its arrays and objects as tracks."""

    conj: Conj
    shape: Shape
    arrays: list[Track] = field(default_factory=list)
    objects: list[Track] = field(default_factory=list)
    scalar: str | None = None
    cost: int = INFINITE
    notes: list[ReportRow] = field(default_factory=list)


class States:
    """The states by conjunction; ``start`` is the whole schema's."""

    def __init__(self, space: Space, spelling: Spelling, start: Conj) -> None:
        self.space = space
        self.limits = space.limits
        self.spelling = spelling
        self.comma = len(spelling.item_text)
        self.colon = len(spelling.key_text)
        self.start = start
        self.by_conj: dict[Conj, State] = {}
        self.users: dict[Conj, list[Conj]] = {}
        self.order: list[Conj] = []
        self.num_edges = 0
        self.short: list[Place] = []  #: places of arrays that lack values for distinct items
        self.unwritten: list[Place] = []  #: places whose numbers no text was found for
        self._values: dict[Conj, frozenset[Hashable] | None] = {}
        self._key_costs: dict[Regular, int] = {}

    def __getitem__(self, conj: Conj) -> State:
        return self.by_conj[conj]

    def explore(self) -> None:
        """Make every state that can be reached."""
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
            state = self._make(conj)
            self.by_conj[conj] = state
            self.order.append(conj)
            for track in (*state.arrays, *state.objects):
                for value in track.values():
                    self.users.setdefault(value, []).append(conj)
                    if value not in self.by_conj:
                        todo.append(value)

    def _count_edges(self, tracks: list[Track], place: Place) -> None:
        self.num_edges += sum(1 + len(node.edges) for track in tracks for node in track.nodes)
        if self.num_edges > self.limits.edges:
            raise Overrun(
                f"the schema needs more than {self.limits.edges} members in its rules, the limit 'edges'",
                pointer=place.pointer,
                hint="use fewer alternatives that share keys",
            )

    def _place(self, conj: Conj) -> Place:
        return self.space.documents[conj[0]] if conj else self.space.documents.root

    def _make(self, conj: Conj) -> State:
        shape, costly = _without_costly_strings(self.space.shape(conj))
        state = State(conj, shape, notes=[*shape.notes, *(self._costly_rows(conj) if costly else ())])
        state.scalar = self._scalar(shape)
        place = self._place(conj)
        if state.scalar is None and not all(numbers.is_empty() for numbers in shape.numbers):
            self.unwritten.append(place)
        for form in shape.arrays:
            settled = settle_array(form, self.space.is_empty)
            if settled is not None and is_short(settled, self.values):
                self.short += [self.space.documents[number] for number in settled.unique]
            elif settled is not None:
                self._check_items(settled, place)
                state.arrays.append(self._array(settled, state, place))
                self._count_edges(state.arrays[-1:], place)
        forms = [f for f in (settle_object(form, self.space.is_empty) for form in shape.objects) if f is not None]
        order = naming_order(self.space, conj) if forms else []
        for obj in forms:
            if obj.least > _MOST_ITEMS:
                raise SchemaError(
                    f"at least {obj.least} keys, the limit is {_MOST_ITEMS}",
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
            tracks = self._objects(obj, order, state, place, alone=len(forms) <= _MAX_TWICE)
            self._count_edges(tracks, place)
            state.objects += tracks
        return state

    def _costly_rows(self, conj: Conj) -> Iterator[ReportRow]:
        """What to say of a conjunction whose strings are wider than asked for."""
        reason = "not all enforced: counts that run at once multiply the states of the engine's lexer"
        places = [self.space.documents[abs(literal)] for literal in conj]
        found = [(p, k) for p in places if isinstance(p.schema, dict) for k in _ASKING_OF_STRINGS if k in p.schema]
        for place, keyword in found or [(self._place(conj), "pattern")]:
            yield ReportRow(place.pointer, keyword, Outcome.RELAXED, reason)

    def values(self, conj: Conj) -> frozenset[Hashable] | None:
        """The values of a conjunction where they are few scalars; None for others."""
        if conj not in self._values:
            self._values[conj] = values_of(self.space.shape(conj))
        return self._values[conj]

    def _check_items(self, form: ArrayForm, place: Place) -> None:
        if len(form.prefix) > self.limits.items:
            raise SchemaError(
                f"an array lists {len(form.prefix)} positions, the limit 'items' is {self.limits.items}",
                pointer=place.pointer,
                keyword="prefixItems",
                hint="use items for the positions that are alike",
            )
        if form.least > _MOST_ITEMS:
            raise SchemaError(
                f"at least {form.least} items, the limit is {_MOST_ITEMS}",
                pointer=place.pointer,
                keyword="minItems",
                hint="ask for fewer items",
            )

    def _array(self, form: ArrayForm, state: State, place: Place) -> Track:
        try:
            return array_track(form, _COUNTING + len(form.prefix))
        except TooManyNodes:
            reason = f"not enforced: counting items needs more than {_COUNTING} rules"
            state.notes += [ReportRow(place.pointer, k, Outcome.RELAXED, reason) for k in _blamed(place)]
            bare = ArrayForm(form.prefix, form.rest, form.least, form.most, (), form.unique)
            return array_track(bare, 1 << 30)

    def _objects(self, form: ObjectForm, order: list[str], state: State, place: Place, *, alone: bool) -> list[Track]:
        """The form's tracks: in the schema's order, and in its own where that is another."""
        found, left_out = cases(form, self.space)
        if left_out:
            reason = "branches that many conditions would have to tell apart are left out"
            state.notes.append(ReportRow(place.pointer, "required", Outcome.NARROWED, reason))
        tracks: list[Track] = []
        for case in found:
            tracks += self._case(case, order, state, place, alone=alone and len(found) <= _MAX_TWICE)
        return tracks

    def _case(self, form: ObjectForm, order: list[str], state: State, place: Place, *, alone: bool) -> list[Track]:
        orders = key_orders(form, order)[: 2 if alone else 1]
        limit = _NODES_PER_KEY * (len(orders[0]) + 25)
        try:
            return [object_track(form, keys, limit) for keys in orders]
        except TooManyNodes:
            pass
        narrowed = narrow(form)
        settled = None if narrowed is None else settle_object(narrowed, self.space.is_empty)
        if settled is not None:
            keys = ", ".join(sorted(settled.required - form.required)) or "some keys"
            reason = f"{keys} always written: following the branches without would need too many rules"
            state.notes.append(ReportRow(place.pointer, "required", Outcome.NARROWED, reason))
            return [object_track(settled, key_orders(settled, order)[0], 1 << 30)]
        keyword = "minProperties" if form.least else "maxProperties" if form.most is not None else "required"
        reason = f"not enforced: it needs more than {limit} rules"
        state.notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, reason))
        bare = ObjectForm(form.props, form.cells, form.required, late=form.late)
        return [object_track(bare, orders[0], 1 << 30)]

    # -- costs, in characters of the shortest text

    def _scalar(self, shape: Shape) -> str | None:
        texts = ["null"] if shape.null else []
        texts += ["false"] if shape.booleans & 1 else []
        texts += ["true"] if shape.booleans & 2 else []
        for numbers in shape.numbers:
            found = far_text(numbers) or shortest_number(writable_numbers(numbers))
            texts += [found] if found is not None else []
        word = shortest_word(shape.strings)
        texts += [spell(word)] if word is not None else []
        return min(texts, key=len, default=None)

    def settle_costs(self) -> None:
        """The least fixed point of the states' costs."""
        for conj in self.by_conj:
            self.by_conj[conj].cost = INFINITE
        todo = deque(reversed(self.order))
        waiting = set(todo)
        while todo:
            conj = todo.popleft()
            waiting.discard(conj)
            check_deadline()
            state = self.by_conj[conj]
            cost = self._cost(state)
            if cost < state.cost:
                state.cost = cost
                for user in self.users.get(conj, ()):
                    if user not in waiting:
                        waiting.add(user)
                        todo.append(user)

    def _cost(self, state: State) -> int:
        best = len(state.scalar) if state.scalar is not None else INFINITE
        for track in (*state.arrays, *state.objects):
            best = min(best, 2 + self.track_costs(track)[0])
        return min(best, INFINITE)

    def track_costs(self, track: Track) -> list[int]:
        """For each node what it costs to finish from there; separators count for each written edge but the first.

        Node 0 is charged as the start (nothing written yet); all others as if something were.
        """
        nodes = track.nodes
        costs = [INFINITE] * len(nodes)
        changed = True
        while changed:  # tracks are chains with loops: few rounds, from the end
            changed = False
            for i in range(len(nodes) - 1, -1, -1):
                cost = self._node_cost(nodes[i], costs, self.comma)
                if cost < costs[i]:
                    costs[i], changed = cost, True
        if nodes:
            costs[0] = self._first_cost(nodes, costs)
        return costs

    def _first_cost(self, nodes: list[Node], costs: list[int]) -> int:
        """The start and the nodes skipped to from it write their first member without a separator."""
        best, i, after = INFINITE, 0, list(costs)
        chain: int | None = i
        seen: set[int] = set()
        while chain is not None and chain not in seen:
            seen.add(chain)
            best = min(best, self._node_cost(nodes[chain], after, 0, skip=False))
            chain = nodes[chain].skip
        return best

    def _node_cost(self, node: Node, costs: list[int], separator: int, *, skip: bool = True) -> int:
        best = 0 if node.final else INFINITE
        for edge in node.edges:
            best = min(best, separator + self.edge_cost(edge) + costs[edge.target])
        if skip and node.skip is not None:
            best = min(best, costs[node.skip])
        if node.run is not None:
            edges, least, _ = node.run
            each = min(map(self.edge_cost, edges))
            best = min(best, least * (each + self.comma) - self.comma + separator)
        return min(best, INFINITE)

    def edge_cost(self, edge: Edge) -> int:
        """Characters of the shortest member or item that the edge can write."""
        cost = self.by_conj[edge.value].cost
        if edge.key is not None:
            cost += len(spell(edge.key)) + self.colon
        elif edge.keys is not None:
            if edge.keys not in self._key_costs:
                word = shortest_word(edge.keys)
                self._key_costs[edge.keys] = INFINITE if word is None else len(spell(word))
            cost += self._key_costs[edge.keys] + self.colon
        return min(cost, INFINITE)


_ASKING_OF_STRINGS = (
    "pattern", "format", "minLength", "maxLength", "not", "allOf", "anyOf", "oneOf", "if", "then", "else", "$ref",
    "$dynamicRef", "$recursiveRef",
)  # fmt: skip


def _without_costly_strings(shape: Shape) -> tuple[Shape, bool]:
    """The shape with strings that the engine bears, and whether they are wider for it."""
    strings = shape.strings
    if strings.plain:
        return shape, False
    undecided = shortest(writable(strings), _WORD_BUDGET) is UNKNOWN
    found = bearable(strings, undecided=undecided)
    if found is strings or found == strings:
        return shape, False
    return replace(shape, strings=found), found != NONE


def _blamed(place: Place) -> list[str]:
    """The keywords of a place that may have asked for counts of items, by themselves or by a negation."""
    found = [k for k in ("contains", "oneOf", "not", "if", "anyOf", "allOf", "$ref") if k in place.schema]
    return found or ["contains"]


def shortest_word(term: Regular) -> str | None:
    """A shortest string of a language that text can spell; a guess by length where the search gives up."""
    if term == NONE:
        return None
    word = shortest(writable(term), _WORD_BUDGET)
    if word is UNKNOWN:
        return "a" * max(1, lengths(term)[0])  # surely not empty is not known: the engine's own probe decides
    assert word is None or isinstance(word, str)
    return word


def explore(space: Space, spelling: Spelling, start: Conj) -> States:
    """All states from ``start``, costs settled; raises `SchemaError` when the start has no value at all."""
    states = States(space, spelling, start)
    states.explore()
    states.settle_costs()
    if states[start].cost >= INFINITE and states.short:
        raise SchemaError(
            "unsatisfiable schema: more different items are wanted than there are values",
            pointer=states.short[0].pointer,
            keyword="uniqueItems",
            hint="ask for fewer items, or leave out uniqueItems",
        )
    if states[start].cost >= INFINITE and states.unwritten and not space.is_empty(start):
        raise SchemaError(
            f"no number of it was found that at most {MAX_DIGITS} digits on each side of the point write",
            pointer=states.unwritten[0].pointer,
            hint="use bounds and steps that are nearer to 1",
        )
    if states[start].cost >= INFINITE:
        hint = "look for required keys whose schema is false, or bounds that exclude each other"
        if asks_for_borders(space.documents.root.schema):
            hint += "; and borders of words (\\b, \\B) beside letters that are not ASCII are those of ECMA-262 here"
        elif not space.stays(lambda widest: widest.is_empty(start), start):
            hint += "; and by some reading of its patterns, formats or contains there may be values, but not by all"
        raise SchemaError("unsatisfiable schema: no value satisfies it", pointer=culprit(space, start), hint=hint)
    return states
