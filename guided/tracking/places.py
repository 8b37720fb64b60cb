"""The place in an answer, symbol by symbol: its region, and the JSON value that is being written there.

A JSON value is never guessed from a bracket: a table of steps says where one begins.  Inside tool calls it is that of
the syntax; the response is one value, and in structural tags and clients' grammars values follow constant texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from grammars.plan.plan import Plan, RegionName
from grammars.text_grammars.schemas import placed_schemas
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.values.json_scanner import ScanState, read_value
from grammars.values.watchers import CallStep, CallWay
from guided.tracking.aho_corasick import AhoCorasick
from guided.tracking.regions import Position, RegionMap, symbols_of

__all__ = ["AnswerPlace", "PlaceMap"]

_BEGIN = ScanState()


class AnswerPlace(NamedTuple):
    """One place in an answer."""

    position: Position
    step: Position | None = None  #: in the table of steps; None in a region without JSON values
    scan: ScanState | None = None  #: the position in a JSON value; None outside of values
    is_refused: bool = False  #: whether a watcher forbids the last symbols
    num_values: int = 0  #: the JSON values of the response that have begun


class PlaceMap:
    """The places of one plan.  Immutable; share it."""

    def __init__(self, plan: Plan, markers: Markers, regions: RegionMap) -> None:
        self.regions = regions
        form, calls = plan.format.tool_calls, plan.call_values
        if form is not None and plan.tools and not calls:
            calls = syntax(form.syntax).value_table(form, plan.tools, markers)
        response, first = _steps_of_response(plan, markers, len(calls))
        #: the steps through calls, then those through the response
        self.steps = (*calls, *response)
        self._response = len(calls)
        self._firsts = {RegionName.TOOL_CALLS: 0} if calls else {}
        self._firsts |= {RegionName.RESPONSE: first} if response else {}
        self._automata = [AhoCorasick((symbols_of(way.trigger), way) for way in step.ways) for step in self.steps]
        self._nodes = [next((watcher.nodes for watcher in step.watchers), ()) for step in self.steps]
        #: whether JSON values may be written whose places are known
        self.has_json = bool(self.steps)
        #: whether items may be repeats, and whether a watcher may forbid symbols
        self.has_unique = any(self._nodes)
        self.is_watched = any(step.watchers for step in self.steps)

    def start(self, region: int) -> AnswerPlace:
        """Return the place at the beginning of an entry in region number ``region``."""
        return self._entered(self.regions.start(region), ())

    def refuses(self, place: AnswerPlace, symbols: Sequence[int]) -> bool:
        """Whether a watcher forbids ``symbols`` after a place: a key or an item is repeated."""
        return self.is_watched and self.advance(place, symbols).is_refused

    def region(self, place: AnswerPlace) -> RegionName:
        return self.regions.name(place.position)

    def advance(self, place: AnswerPlace, symbols: Sequence[int]) -> AnswerPlace:
        """Return the place after ``symbols``: bytes, and markers as 256 + id."""
        at, size = 0, len(symbols)
        while at < size:
            end = at + self.regions.num_staying(place.position, symbols[at:])
            if at == end:
                place = self._across(place, symbols[at])
                at += 1
            elif place.step is None:
                at = end
            while at < end:
                place, used = self._within(place, symbols[at:end])
                at += used
        return place

    def _across(self, place: AnswerPlace, symbol: int) -> AnswerPlace:
        """Return the place after a symbol that may lead to another region."""
        position, done = self.regions.step(place.position, symbol)
        if done is not None and done.exit is not None:
            return self._entered(position, symbols_of(done.exit.trigger))._replace(is_refused=place.is_refused)
        place = place._replace(position=position)
        return place if place.step is None else self._within(place, (symbol,))[0]

    def _entered(self, position: Position, opening: Sequence[int]) -> AnswerPlace:
        """Return the place at the beginning of a region, after the symbols that opened it."""
        first = self._firsts.get(self.regions.name(position))
        if first is None:
            return AnswerPlace(position)
        step = Position(first, 0)
        for symbol in opening:  # a client's grammar may write the same text before a value
            step = self._after(step, symbol)
        return self._at(AnswerPlace(position), step)

    def _within(self, place: AnswerPlace, symbols: Sequence[int]) -> tuple[AnswerPlace, int]:
        """Return the place after the first of ``symbols``, up to the end or the beginning of a value, and their number.

        None of them leaves the region.
        """
        while place.scan is not None:
            place, used = self._in_value(place, place.scan, symbols)
            if used:
                return place, used
        step, used = place.step, 0
        for symbol in symbols:
            assert step is not None
            step, used = self._after(step, symbol), used + 1
            if self.steps[step.state].is_value:
                break
        assert step is not None
        return self._at(place, step), used

    def _in_value(self, place: AnswerPlace, begun: ScanState, symbols: Sequence[int]) -> tuple[AnswerPlace, int]:
        """Return the place after what belongs to the value of ``symbols``, and its size; a marker ends the value."""
        assert place.step is not None
        number = place.step.state
        data = bytes(symbols if max(symbols) < 256 else takewhile(lambda symbol: symbol < 256, symbols))
        scan, used = read_value(begun, data, self._nodes[number])
        if scan is begun and used:
            return place, used
        if scan.is_duplicate and self.steps[number].watchers:
            place = place._replace(is_refused=True)
        if used and not scan.is_complete:
            return place._replace(scan=scan), used
        # a marker where a value may begin is not a value, and none begins after it
        is_value = used or begun != _BEGIN
        waiting = 0 if number < self._response else self._response
        return self._at(place, Position(self.steps[number].to if is_value else waiting, 0)), used

    def _at(self, place: AnswerPlace, step: Position) -> AnswerPlace:
        """Return the place at a step, where a value may begin."""
        if not self.steps[step.state].is_value:
            return place._replace(step=step, scan=None)
        return place._replace(step=step, scan=_BEGIN, num_values=place.num_values + (step.state > self._response))

    def _after(self, step: Position, symbol: int) -> Position:
        """Return the step after one more symbol outside of values."""
        automaton = self._automata[step.state]
        node = automaton.next(step.node, symbol)
        way = automaton.output[node]
        if way is None:
            return Position(step.state, node)
        return Position(way.to, self._automata[way.to].node_of(symbols_of(way.trigger)))


def _steps_of_response(plan: Plan, markers: Markers, number: int) -> tuple[tuple[CallStep, ...], int]:
    """Return the steps through the response, which get the numbers from ``number`` on, and the number of its first.

    They are the text outside of values, and a value.  A value begins after one of the constant texts that are written
    before values; a marker in these is a token where the caller was trusted, else text.
    """
    response = plan.response
    if response is None:
        return (), 0
    is_json = response.kind == "json"
    texts = {""} if is_json else {placed.opening for placed in placed_schemas(response.kind, response.source)}
    if not texts - {None}:
        return (), 0
    triggers = {pieces for text in texts if text for pieces in ((text,), markers.pieces(text))}
    ways = tuple(CallWay(trigger, number + 1) for trigger in sorted(triggers, key=str))
    after = number + ("" in texts and not is_json)
    steps = CallStep(ways), CallStep(is_value=True, to=after, watchers=plan.watchers)
    return steps, number + ("" in texts)
