"""Ways to the end of one row's answer: what is left of a known way, or what a search finds from the row's position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from grammars.plan.plan import RegionName
from guided.landing.byte_classes import Classes
from guided.landing.byte_twin import ByteMatcher
from guided.landing.effort import Effort
from guided.landing.landing import LandingSearch, write
from guided.landing.place import AnswerPlace, PlaceMap
from guided.landing.way import NOTHING, Way, rest_at
from guided.state.state import GuidanceState
from guided.watchers.json_scanner import NUMBER_BYTES
from special_tokens.errors import GuidanceError

__all__ = ["WayFinder", "in_tokens"]

#: Places that take as long as writing this many symbols of a way.
_WRITTEN = 25
_CHARACTER = 4  # bytes, at the most
#: Bytes next to which a key or an item of JSON may end, and so be a repeat.
_STRUCTURE = frozenset(b'"{}[],:')
#: What may be left of a character in UTF-8, also after its bytes 0xE0 and 0xF0, and where a way begins after it.
_TORN = tuple((0, tuple(rest)) for rest in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80"))
#: A number may have no more digits, or its exponent none that make it larger.
_DIGITS, _NUMBER = frozenset(b"0123456789"), frozenset(NUMBER_BYTES)


class WayFinder:
    """Finds ways from the positions of one row, in whose order it is asked.  Not thread-safe.

    ``refusal`` says why there are no ways any more, if the byte twin refuses the row's tokens.
    """

    def __init__(self, search: LandingSearch, classes: Classes) -> None:
        self.refusal = ""
        self._search = search
        self._classes = Classes(classes)  # a row's own, so that it does not depend on others
        self._matcher: ByteMatcher | None = None
        self._fed = 0  # tokens that the matcher has read
        self._place: tuple[AnswerPlace, int] | None = None  # and the tokens before it

    def copy(self) -> WayFinder:
        twin = copy(self)
        twin._classes = Classes(self._classes)
        twin._matcher = self._matcher.copy() if self._matcher is not None else None
        return twin

    def places(self, state: GuidanceState) -> PlaceMap:
        return self._search.places(state)

    def matcher(self, state: GuidanceState) -> ByteMatcher | None:
        """Return the byte twin's matcher, brought to the row's position; None if it refuses the answer so far."""
        tokens, size = state.tokens, state.num_tokens
        if self._matcher is None:
            self._matcher, self._fed = self._search.matcher(), 0
        new = tokens[self._fed : size]
        symbols = [symbol for token in new for symbol in state.regions.symbols(token)]
        if not state.plan.end_ids().isdisjoint(new) or not self._matcher.feed(symbols):
            self._matcher, self.refusal = None, "the byte twin refuses the answer so far"
        self._fed = size
        return self._matcher

    def place(self, state: GuidanceState) -> AnswerPlace:
        """Return the place at the row's position."""
        places, size = self.places(state), state.num_tokens
        place, read = self._place or (places.start(state.entry.region), 0)
        symbols = [symbol for token in state.tokens[read:size] for symbol in state.regions.symbols(token)]
        place = places.advance(place, symbols)._replace(is_refused=False)
        self._place = place, size
        return place

    def kept(
        self, state: GuidanceState, matcher: ByteMatcher, way: Way, symbols: Sequence[int], most: int
    ) -> Way | None:
        """Return ``way``, or what is left of it, if that still ends the answer after ``symbols``.

        Where these may end inside a character, also the end of a character and ``way``.
        """
        begun = matcher.ids(symbols)
        is_torn = bool(symbols) and 0x80 <= symbols[-1] < 0x100
        for at, more in ((0, ()), (len(symbols), ()), *(_TORN if is_torn else ())):
            rest = (*more, *way.symbols[at:]) if more else way.symbols[at:]
            if len(rest) < most and matcher.ends_after([*begun, *matcher.ids(more), *way.ids(matcher)[at:]]):
                places = self.places(state)
                is_longer = bool(symbols and rest) and symbols[-1] in _NUMBER and rest[0] in _DIGITS
                may_refuse = places.is_watched and (is_longer or not _STRUCTURE.isdisjoint(symbols))
                if not may_refuse or not places.refuses(places.advance(self.place(state), symbols), rest):
                    return way if rest is way.symbols else Way(rest, None, way.values)
        return None

    def found(
        self,
        state: GuidanceState,
        matcher: ByteMatcher,
        place: AnswerPlace,
        hint: Way,
        most: int,
        effort: Effort,
        reserve: Callable[[Way], int] | None = None,
        *,
        written: int = -1,
    ) -> Way | None:
        """Return a way of at most ``most`` tokens from ``place``: a rest of ``hint``, else the result of a search.

        ``state`` and ``matcher`` are those of the place.  ``written``: the number of symbols from the beginning of
        ``hint`` to the place, if that is known.  With ``reserve``, the number of tokens that a way must leave, the way
        must be written in tokens now, and only one search is made.
        """
        try:
            if state.region is RegionName.CONTENT and state.is_accepting:
                return NOTHING
        except GuidanceError:
            return None
        places, in_haste = self.places(state), reserve is not None
        tree = self._search.tree(state, matcher, place, self._classes)
        if state.region is RegionName.CONTENT and _is_torn(state):
            found = next(self._search.ends(tree, effort, in_haste=True), None)
            if found is not None and len(found.symbols) < _CHARACTER:
                return NOTHING  # free text, which may be cut after the character
        at = rest_at(matcher, place, places, hint, effort, written=written)
        if at >= 0:
            way = _fitting(state, Way(hint.symbols[at:], None, hint.values), most, effort, reserve)
            if way is not None or in_haste:
                return way  # a search would hardly find a shorter one
        repeated: Way | None = None  # taken if nothing else is found: what is not repeated may be as long
        if places.is_watched:
            again = rest_at(matcher, place, places, hint, effort, written=written, may_repeat=True)
            rest = Way(hint.symbols[again:], None, hint.values)
            repeated = _begun(state, _fitting(state, rest, most, effort, reserve)) if again >= 0 else None
        for found in self._search.ends(tree, effort, hint, at, in_haste=in_haste):
            way = _fitting(state, found, most, effort, reserve)
            if way is not None and not places.refuses(place, way.symbols):
                return way
            repeated = repeated or _begun(state, way)
        return repeated


def _fitting(
    state: GuidanceState, way: Way, most: int, effort: Effort, reserve: Callable[[Way], int] | None
) -> Way | None:
    """Return the way if it has at most ``most`` tokens, with ``reserve`` written in tokens that leave it."""
    effort.spend(1 + len(way.symbols) / _WRITTEN)
    if reserve is not None:
        return in_tokens(state, way, most - reserve(way))
    return way if way.size <= most else in_tokens(state, way, most)


def _begun(state: GuidanceState, way: Way | None) -> Way | None:
    """Return the way; None if a watcher already forbids its first token: the next one could not be chosen."""
    return way if way is not None and (not way.tokens or state.allows(int(way.tokens[0]))) else None


def _is_torn(state: GuidanceState) -> bool:
    """Whether the last token may have ended inside a character."""
    data = state.engine.token_bytes(state.tokens[-1]) if state.num_tokens else b""
    return bool(data) and data[-1] >= 0x80


def in_tokens(state: GuidanceState, way: Way, most: int) -> Way | None:
    """Return the way in tokens; None if it has more than ``most`` of them or the masks refuse them."""
    tokens = write(state, way.symbols, most)
    return None if tokens is None or len(tokens) > most else Way(way.symbols, tokens, way.values)
