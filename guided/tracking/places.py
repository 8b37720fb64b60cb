"""The place in an answer, symbol by symbol: its region, and the JSON value that is being written there.

A JSON value is never guessed from a bracket: the response is JSON if its format is, inside tool calls the table of
steps of the syntax says where a value begins, and in structural tags and clients' grammars the text before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from grammars.plan.plan import Plan, RegionName
from grammars.text_grammars.schemas import placed_schemas
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.values.json_scanner import ScanState, read_value
from grammars.values.watchers import CallStep, UniqueNode, Watcher
from guided.tracking.aho_corasick import AhoCorasick
from guided.tracking.regions import Position, RegionMap, symbols_of

__all__ = ["AnswerPlace", "PlaceMap"]

_BEGIN = ScanState()
_MARKER = re.compile("[^\\x00-\\xff]")  # among symbols as characters


class AnswerPlace(NamedTuple):
    """One place in an answer."""

    position: Position
    call: Position | None = None  #: the step in a tool call
    scan: ScanState | None = None  #: the position in a JSON value; None outside of values
    is_refused: bool = False  #: whether a watcher forbids the last symbols
    text: str | None = None  #: in a tag or a grammar with JSON in it: the last characters outside of JSON values
    num_values: int = 0  #: the JSON values of the tag or grammar that have begun


def _nodes(watchers: Sequence[Watcher]) -> tuple[UniqueNode, ...]:
    """Return what must differ in one JSON value."""
    return next((watcher.nodes for watcher in watchers), ())


class PlaceMap:
    """The places of one plan.  Immutable; share it."""

    def __init__(self, plan: Plan, markers: Markers, regions: RegionMap) -> None:
        self.regions = regions
        self._json = plan.response is not None and plan.response.kind == "json"
        self._openings, self._longest = _openings(plan, markers)
        self._response = _nodes(plan.watchers)
        form, steps = plan.format.tool_calls, plan.call_values
        if form is not None and plan.tools and not steps:
            steps = syntax(form.syntax).value_table(form, plan.tools, markers)
        self._calls = _CallValueTable(steps) if steps else None
        self.steps = steps
        self._values = [_nodes(step.watchers) for step in steps]
        #: whether JSON values may be written whose places are known
        self.has_json = self._json or self._openings is not None or bool(steps)
        #: whether items may be repeats, and whether a watcher may forbid symbols
        self.has_unique = any((self._response, *self._values))
        self.is_watched = bool(plan.watchers) or any(step.watchers for step in steps)

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
            staying = self.regions.num_staying(place.position, symbols[at:])
            if not staying:
                place = self._step(place, symbols[at])
                at += 1
            elif place.text is not None:
                place = self._in_parts(place, symbols[at : at + staying])
                at += staying
            elif place.call is None:
                if place.scan is not None:
                    place = self._scanned(place, self._response, _bytes_of(symbols[at : at + staying]))
                at += staying
            else:
                place, used = self._in_calls(place, symbols[at : at + staying])
                at += used
        return place

    def _scanned(self, place: AnswerPlace, nodes: tuple[UniqueNode, ...], data: bytes) -> AnswerPlace:
        assert place.scan is not None
        scan, _ = read_value(place.scan, data, nodes)
        if scan is place.scan:
            return place
        return AnswerPlace(place.position, place.call, scan, place.is_refused or scan.is_duplicate)

    def _step(self, place: AnswerPlace, symbol: int) -> AnswerPlace:
        (position, spans) = self.regions.step(place.position, symbol)
        if spans is not None:
            return self._entered(position, symbols_of(spans.trigger))._replace(is_refused=place.is_refused)
        place = place._replace(position=position)
        if self.regions.name(position) is RegionName.TOOL_CALLS and place.call is not None:
            return self._in_calls(place, (symbol,))[0]
        if place.text is not None:
            return self._in_parts(place, (symbol,))
        if place.scan is not None and symbol < 256:
            return self._scanned(place, self._response, bytes((symbol,)))
        return place

    def _entered(self, position: Position, opening: Sequence[int]) -> AnswerPlace:
        """Return the place after an exit led to ``position``."""
        name = self.regions.name(position)
        if name is RegionName.RESPONSE and self._json:
            return AnswerPlace(position, None, _BEGIN)
        if name is RegionName.RESPONSE and self._openings is not None:
            before = "".join(map(chr, opening))  # a client's grammar may write the same text
            return self._in_parts(AnswerPlace(position, text=before + _BETWEEN), ())
        if name is RegionName.TOOL_CALLS and self._calls is not None:
            return self._with_value(AnswerPlace(position, self._calls.enter(opening)))
        return AnswerPlace(position)

    def _in_parts(self, place: AnswerPlace, symbols: Sequence[int]) -> AnswerPlace:
        """Return the place after ``symbols`` of a response with JSON in it."""
        assert self._openings is not None
        written, at, end = "".join(map(chr, symbols)), 0, -1
        while True:
            if place.scan is not None:
                if end < at:
                    marker = _MARKER.search(written, at)
                    end = marker.start() if marker is not None else len(written)
                scan, used = read_value(place.scan, written[at:end].encode("latin-1"), ())
                at += used
                if at == len(written) and not scan.is_complete:
                    return place._replace(scan=scan)
                # a marker where a value may begin is not a value, and none begins after it
                place = place._replace(scan=None, text=_BETWEEN if used or place.scan != _BEGIN else "")
            before = place.text or ""
            match = self._openings.search(before + written[at:])
            if match is None:
                return place._replace(text=f"{before}{written[at:]}"[-self._longest :])
            at += match.end() - len(before)
            place = place._replace(scan=_BEGIN, text="", num_values=place.num_values + 1)

    def _with_value(self, place: AnswerPlace) -> AnswerPlace:
        assert place.call is not None
        return place._replace(scan=_BEGIN if self.steps[place.call.state].is_value else None)

    def _in_calls(self, place: AnswerPlace, symbols: Sequence[int]) -> tuple[AnswerPlace, int]:
        """Return the place after the first of ``symbols``, up to the end or the beginning of a value, and their number.

        In a region of tool calls, which none of them leaves.
        """
        assert self._calls is not None
        if place.scan is not None:
            size = next((i for i, symbol in enumerate(symbols) if symbol >= 256), len(symbols))
            place, used = self._in_value(place, bytes(symbols[:size]))
            if used:
                return place, used
        position, used = place.call, 0
        for symbol in symbols:
            assert position is not None
            position, used = self._calls.advance(position, symbol), used + 1
            if self.steps[position.state].is_value:
                break
        return self._with_value(place._replace(call=position)), used

    def _in_value(self, place: AnswerPlace, data: bytes) -> tuple[AnswerPlace, int]:
        """Return the place after what belongs to the value of ``data``, and its size; without data the value ends."""
        assert place.call is not None
        assert place.scan is not None
        assert self._calls is not None
        scan, used = read_value(place.scan, data, self._values[place.call.state])
        is_refused = place.is_refused or scan.is_duplicate
        if not scan.is_complete and used:
            return place._replace(scan=scan, is_refused=is_refused), used
        after = place._replace(call=self._calls.after_value(place.call.state), scan=None, is_refused=is_refused)
        return self._with_value(after), used


#: The beginning of a response and the end of a value in it, next to symbols as characters.
_BETWEEN = "\U0010ffff"


def _openings(plan: Plan, markers: Markers) -> tuple[re.Pattern[str] | None, int]:
    """The texts after which JSON values begin in a tag or a grammar, symbols as characters, and the longest's size.

    A marker in them is a token where the caller was trusted, else text.
    """
    response = plan.response
    if response is None:
        return None, 0
    texts = [placed.opening for placed in placed_schemas(response.kind, response.source)]
    pieces = [written for text in texts if text is not None for written in ((text,), markers.pieces(text))]
    placed = {"".join(map(chr, symbols_of(written))) or _BETWEEN for written in pieces}
    return (re.compile("|".join(map(re.escape, sorted(placed)))) if placed else None), max(map(len, placed), default=0)


def _bytes_of(symbols: Sequence[int]) -> bytes:
    """The bytes, without the markers among them."""
    return bytes(symbol for symbol in symbols if symbol < 256) if max(symbols) >= 256 else bytes(symbols)


_START = Position(0, 0)


class _CallValueTable:
    """Finds the JSON values in the text of tool calls, by the compiled table of one plan.  Immutable; share it."""

    def __init__(self, steps: Sequence[CallStep]) -> None:
        self.steps = tuple(steps)
        self._states = [AhoCorasick((symbols_of(way.trigger), way) for way in step.ways) for step in self.steps]

    def enter(self, opening: Sequence[int]) -> Position:
        """Return the position at the beginning of a section, after the symbols that opened it."""
        position = _START
        for symbol in opening:
            position = self.advance(position, symbol)
        return position

    def after_value(self, step: int) -> Position:
        """Return the position after the value at ``step``."""
        return Position(self.steps[step].to, 0)

    def advance(self, position: Position, symbol: int) -> Position:
        """Return the position after one more symbol."""
        state = self._states[position.state]
        node = state.next(position.node, symbol)
        output = state.output[node]
        if output is None:
            return Position(position.state, node)
        return Position(output.to, self._states[output.to].node_of(symbols_of(output.trigger)))
