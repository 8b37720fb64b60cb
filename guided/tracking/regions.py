"""The region map: follows an answer from region to region by the table in its plan.

The table is compiled once per plan into one small automaton per region over *symbols*: bytes (0..255) and marker
tokens (256 + id).  Exits of a region are found on the very symbol that completes them, however the text is cut
into tokens.  `Position` is an immutable value, so undoing a token is forgetting a position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from grammars.plan.plan import Exit, Pieces, Plan, Region, RegionName
from guided.tracking.aho_corasick import AhoCorasick

__all__ = ["FIRST_MARKER", "Move", "Position", "RegionMap", "Span", "spans_of", "symbols_of"]

FIRST_MARKER = 256  # symbols: bytes below, 256 + id for marker tokens
_WHITE = b" \t\r\n"


class Position(NamedTuple):
    """A position in the table: state number and node of that state's automaton."""

    state: int
    node: int


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one token: its symbols ``first`` to ``last`` (exclusive), all read in one region.

    ``exit`` is the way out that the span completes, None where it completes none; ``left`` the number of symbols
    of that exit's trigger, which may reach back into earlier tokens.
    """

    first: int
    last: int
    exit: Exit | None = None
    left: int = 0


_Way: TypeAlias = tuple[Pieces, int, Exit | None]


class Move(NamedTuple):
    """The effect of one token: the position after it, and the exits that it completes, in order."""

    position: Position
    exits: tuple[Span, ...] = ()


class _Output(NamedTuple):
    """The trigger that a node completes: ``length`` symbols that lead to ``to``; ``exit``, if the region's own."""

    length: int
    to: int
    exit: Exit | None


class _State(AhoCorasick[_Output]):
    """A region or a quoted span of one, with the automaton of what leads out of it; of several the longest wins."""

    def __init__(self, region: int, exits: Sequence[_Way] = (), any_to: int | None = None) -> None:
        words = [(symbols_of(trigger), to, way) for trigger, to, way in exits]
        super().__init__((symbols, _Output(len(symbols), to, way)) for symbols, to, way in words)
        self.region = region
        self.any_to = any_to  #: the state after any one symbol (what follows an escape)
        self.has_bytes = any_to is not None or any(s < FIRST_MARKER for symbols, _, _ in words for s in symbols)
        self.after_start: int | None = None  #: the state of the same region after its start, where fewer exits lead out
        self.paths: list[tuple[int, ...]] = []  #: by node: the symbols that lead to it, for `after_start`


class RegionMap:
    """The compiled table of one plan.  Immutable; share it."""

    def __init__(
        self, regions: Sequence[Region], marker_ids: Iterable[int], token_bytes: Callable[[int], bytes]
    ) -> None:
        self.regions = tuple(regions)
        self.markers = frozenset(marker_ids)
        self._token_bytes = token_bytes
        self._states: list[_State] = []
        for number, region in enumerate(self.regions):
            self._states.append(_State(number, [(e.trigger, e.to, e) for e in region.exits]))
        for number, region in enumerate(self.regions):
            if any(way.at_start for way in region.exits):
                self._add_start(number, region)
            if region.exits and region.quotes:
                self._add_quotes(number, region)
        #: by state: an ordinary token may change the position there, even at node 0
        self.reads_bytes = tuple(state.has_bytes for state in self._states)

    @classmethod
    def of(cls, plan: Plan, marker_ids: Iterable[int], token_bytes: Callable[[int], bytes]) -> RegionMap:
        return cls(plan.regions, marker_ids, token_bytes)

    def _add_start(self, number: int, region: Region) -> None:
        """Make the region's state one of its start, and add that of the text after it."""
        state = self._states[number]
        state.after_start, state.has_bytes, state.paths = len(self._states), True, [()] * len(state.goto)
        for node, children in enumerate(state.goto):  # a child's number is greater than its parent's
            for symbol, child in children.items():
                state.paths[child] = (*state.paths[node], symbol)
                output = state.output[child]
                if output and output.exit and output.exit.at_start and output.length < len(state.paths[child]):
                    state.output[child] = None  # it would not begin at the start
        self._states.append(_State(number, [(e.trigger, e.to, e) for e in region.exits if not e.at_start]))

    def _add_quotes(self, number: int, region: Region) -> None:
        ways: dict[int, list[_Way]] = {number: [(e.trigger, e.to, e) for e in region.exits]}
        outermost = number
        for quote in region.quotes:
            around, inside = outermost if quote.is_inner else number, len(self._states)
            outermost = around if quote.is_inner else inside
            ways[around].append((quote.open, inside, None))
            ways[inside] = [(quote.close, around, None)]
            self._states.append(_State(number))
            if quote.escape:
                ways[inside].append(((quote.escape,), inside + 1, None))
                self._states.append(_State(number, any_to=inside))
        for at, targets in ways.items():
            self._states[at] = _State(number, targets)

    def start(self, region: int) -> Position:
        """The position at the beginning of a region."""
        return Position(region, 0)

    def region_number(self, position: Position) -> int:
        return self._states[position.state].region

    def name(self, position: Position) -> RegionName:
        """The part of the answer that ``position`` is in."""
        return self.regions[self._states[position.state].region].name

    def matched(self, position: Position) -> int:
        """Symbols of a possible exit that have been read so far."""
        return self._states[position.state].depth[position.node]

    def rests_of_exits(self, position: Position, most: int) -> list[tuple[int, ...]]:
        """Return what remains of the exits that have begun: at most ``most`` of them, the shortest ones."""
        state, rests = self._states[position.state], list[tuple[int, ...]]()
        todo: deque[tuple[int, tuple[int, ...]]] = deque([(position.node, ())])
        while todo and len(rests) < most:
            node, symbols = todo.popleft()
            output = state.output[node]
            if output is not None and output.exit is not None:
                rests.append(symbols)
            todo.extend((after, (*symbols, symbol)) for symbol, after in state.goto[node].items())
        return rests

    def next_of_exits(self, position: Position) -> frozenset[int]:
        """Return the symbols that begin an exit at ``position``, or continue one that has begun."""
        state = self._states[position.state]
        return frozenset((*state.goto[0], *state.goto[position.node]))

    def follow(self, position: Position, token_id: int) -> Move:
        """Return the position after one more token, and the exits that it completes."""
        return self._follow(position, self.symbols(token_id))

    def symbols(self, token_id: int) -> tuple[int, ...]:
        """A token as symbols: its bytes, or itself when it is a marker."""
        return (FIRST_MARKER + token_id,) if token_id in self.markers else tuple(self._token_bytes(token_id))

    def num_staying(self, position: Position, symbols: Sequence[int]) -> int:
        """Return how many of ``symbols`` leave a position as it is, up to the first that may begin to lead out."""
        state = self._states[position.state]
        if position.node or state.any_to is not None or state.after_start is not None:
            return 0
        leading = state.goto[0]
        if leading.keys().isdisjoint(symbols):
            return len(symbols)
        return next(i for i, symbol in enumerate(symbols) if symbol in leading)

    def spans(self, position: Position, symbols: Sequence[int]) -> tuple[list[Span], Position]:
        """Return the parts of ``symbols`` by region, and the position after them."""
        after, exits = self._follow(position, symbols)
        return spans_of(exits, len(symbols)), after

    def _follow(self, position: Position, symbols: Sequence[int]) -> Move:
        exits: tuple[Span, ...] = ()
        first = 0
        if self.num_staying(position, symbols) == len(symbols):
            return Move(position)
        for i, symbol in enumerate(symbols):
            position, done = self.step(position, symbol)
            if done is not None and done.exit is not None:
                exits += (Span(first, i + 1, done.exit, done.length),)
                first = i + 1
        return Move(position, exits)

    def step(self, position: Position, symbol: int) -> tuple[Position, _Output | None]:
        """Return the position after one more symbol, and the trigger that the symbol completes."""
        state = self._states[position.state]
        if state.any_to is not None:
            return Position(state.any_to, 0), None
        if state.after_start is not None and symbol not in state.goto[position.node]:
            if position.node == 0 and symbol < FIRST_MARKER and symbol in _WHITE:
                return position, None
            number, path = state.after_start, state.paths[position.node]
            state = self._states[number]
            position = Position(number, state.node_of(path))  # it completes none of the exits
        target = state.next(position.node, symbol)
        output = state.output[target]
        if output is not None:
            return Position(output.to, 0), output
        return Position(position.state, target), None


def spans_of(exits: Sequence[Span], size: int) -> list[Span]:
    """Return the spans of a token of ``size`` symbols that completes ``exits``."""
    first = exits[-1].last if exits else 0
    return [*exits, Span(first, size)] if first < size else list(exits)


def symbols_of(pieces: Pieces) -> tuple[int, ...]:
    """Marker text as symbols."""
    out: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            out.append(FIRST_MARKER + piece)
        else:
            out.extend(piece.encode("utf-8"))
    return tuple(out)
