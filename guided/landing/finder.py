"""Paths to the end from the positions of one row: what remains of a known path, or what a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from grammars.plan.plan import RegionName
from grammars.values.json_scanner import NUMBER_BYTES
from guided.landing.byte_classes import Classes
from guided.landing.byte_twin import ByteMatcher
from guided.landing.effort import Effort
from guided.landing.landing import LandingSearch, canonical_tokens, write
from guided.landing.path import EndPath, remaining_from
from guided.state.state import GuidanceState
from guided.tracking.places import AnswerPlace
from special_tokens.errors import GuidanceError

__all__ = ["Cursor", "FoundPath", "PathFinder", "is_free"]

_SYMBOLS_PER_PLACE = 25  # of a path, whose writing takes as long as one place of a search
#: Bytes next to which a key or an item of JSON may end, and so be a repeat.
_STRUCTURE = frozenset(b'"{}[],:')
#: What may remain of a character in UTF-8, also after its bytes 0xE0 and 0xF0.
_CONTINUATIONS = tuple(tuple(data) for data in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80"))
#: A number may have no more digits, or its exponent none that make it larger.
_DIGITS, _NUMBER = frozenset(b"0123456789"), frozenset(NUMBER_BYTES)
_MAX_EXCESS = 16  # tokens of a path above the limit, up to which another search is tried


class Cursor(NamedTuple):
    """A position in an answer: the state, the byte twin's matcher and the place there."""

    state: GuidanceState
    matcher: ByteMatcher
    place: AnswerPlace


class FoundPath(NamedTuple):
    """The path that a search found, or None if the search found no path that fits.

    With ``is_certain`` the search found only a path that is too long, or with two preferences only texts that cost more
    than one that fits may, so None very likely means that no path fits.
    Without it None means nothing: the search may have run out of places.
    """

    path: EndPath | None
    is_certain: bool = True


class PathFinder:
    """Finds paths from the positions of one row; callers ask in the order of the positions.  Not thread-safe.

    If the byte twin refuses tokens of the row, no paths are found any more, and ``refusal`` says why.
    """

    def __init__(self, search: LandingSearch, classes: Classes) -> None:
        self.refusal = ""
        self._search, self._places = search, search.places
        self._classes = Classes(classes)  # a row's own, so that it does not depend on others
        self._matcher, self._place = search.matcher(), search.start
        self._num_read = 0  # tokens that both have read

    def copy(self) -> PathFinder:
        twin = copy(self)
        twin._classes = Classes(self._classes)
        twin._matcher = self._matcher.copy()
        return twin

    def cursor(self, state: GuidanceState) -> Cursor | None:
        """Return the cursor at the row's position; None if the byte twin has refused a part of the answer so far."""
        new = [] if self.refusal else state.tokens[self._num_read :]
        if new:
            symbols = [symbol for token in new for symbol in state.regions.symbols(token)]
            if not state.plan.end_ids().isdisjoint(new) or not self._matcher.feed(symbols):
                self.refusal = "the byte twin refuses the answer so far"
            self._place = self._places.advance(self._place, symbols)._replace(is_refused=False)
            self._num_read = state.num_tokens
        return None if self.refusal else Cursor(state, self._matcher, self._place)

    def after(self, cursor: Cursor, token: int, place: AnswerPlace) -> Cursor | None:
        """Return the cursor after ``token``, which leads to ``place``, on copies; None where it is refused."""
        matcher, state = cursor.matcher.copy(), cursor.state.fork()
        try:
            state.commit([token])
        except GuidanceError:
            return None
        is_end = state.is_stopped
        return Cursor(state, matcher, place) if is_end or matcher.feed(state.regions.symbols(token)) else None

    def kept(self, cursor: Cursor, path: EndPath, token: int, place: AnswerPlace) -> EndPath | None:
        """Return ``path``, or what remains of it, if that still ends the answer after ``token``; else None.

        ``place`` is that after it.  Where it may end inside a character, also the end of a character and ``path``.
        """
        matcher, symbols = cursor.matcher, cursor.state.regions.symbols(token)
        new, whole = matcher.to_ids(symbols), path.ids(matcher)
        path_after: EndPath | None = None
        if whole and (new == whole[: len(new)] or matcher.ends_after([*new, *whole[len(new) :]])):
            path_after = path.after(token, symbols) or path.from_symbol(len(symbols), cursor.state.regions)
        elif matcher.ends_after([*new, *whole]):
            is_filler = place.scan is None and len(whole) > 1 and matcher.ends_after([*new, *whole[1:]])
            path_after = path.from_symbol(1, cursor.state.regions) if is_filler else path
        elif symbols and 0x80 <= symbols[-1] < 0x100:
            fitting = (data for data in _CONTINUATIONS if matcher.ends_after([*new, *matcher.to_ids(data), *whole]))
            path_after = next((path.prefixed(data) for data in fitting), None)
        if path_after is None or not path_after.symbols:
            return path_after
        places, remaining = self._places, path_after.symbols
        is_longer = bool(symbols) and symbols[-1] in _NUMBER and remaining[0] in _DIGITS
        may_refuse = places.is_watched and (is_longer or not _STRUCTURE.isdisjoint(symbols))
        return None if may_refuse and places.refuses(place, remaining) else path_after

    def find(
        self,
        cursor: Cursor,
        known_path: EndPath,
        most: int,
        effort: Effort,
        *,
        written: int = -1,
        lead: Sequence[int] = (),
        is_settled: bool = False,
    ) -> FoundPath:
        """Return a path of at most ``most`` tokens from ``cursor``: the end of ``known_path``, or what a search finds.

        ``written``: the number of symbols from the beginning of ``known_path`` to the cursor, -1 if unknown.  The
        path is to begin with ``lead``.  With ``is_settled`` the first end that is found decides: others take nine
        tenths of the places and seldom fit.
        """
        (state, matcher, place), places = cursor, self._places
        if lead:
            matcher, place = matcher.copy(), places.advance(place, lead)
            if not matcher.feed(lead):
                return FoundPath(None)
        repeated: EndPath | None = None  # taken if nothing else is found: what is not repeated may be as long
        at = remaining_from(matcher, place, places, known_path, effort, written=written)
        if at >= 0:
            path = _fitting(state, known_path.from_symbol(at, state.regions), most, effort, lead)
            if path is not None:
                return FoundPath(path)
        tree, is_found, num_far = self._search.tree(state, matcher, place, self._classes), False, 0
        # ``num_far`` counts the searches, one for each preference, to which all that was left costs too much.
        for end in self._search.ends(tree, effort, known_path, at):
            if end.symbols is None:
                num_far += end.is_far
                continue
            is_found = True
            path = _fitting(state, EndPath(end.symbols), most, effort, lead)
            if path is not None and not places.refuses(place, end.symbols):
                return FoundPath(path)
            repeated = repeated or _begun(state, path, most)
            excess = len(canonical_tokens(state.engine, (*lead, *end.symbols))) - most
            if excess > _MAX_EXCESS or (is_settled and path is None):
                return FoundPath(repeated)
        return FoundPath(repeated, repeated is not None or is_found or num_far > 1)


def is_free(state: GuidanceState) -> bool:
    """Whether the answer is text that may be cut where it is."""
    try:
        return state.region is RegionName.CONTENT and state.is_accepting
    except GuidanceError:
        return False


def _fitting(state: GuidanceState, path: EndPath, most: int, effort: Effort, lead: Sequence[int]) -> EndPath | None:
    """Return the path after ``lead`` if both have at most ``most`` tokens."""
    path = path.prefixed(lead)
    effort.spend(1 + len(path.symbols) / _SYMBOLS_PER_PLACE)
    return path if path.size <= most else write(state, path.symbols, most)


def _begun(state: GuidanceState, path: EndPath | None, most: int) -> EndPath | None:
    """Return the path in tokens; None if a watcher already forbids the first one: it could not be chosen."""
    if path is None or not path.symbols:
        return path
    path = write(state, path.symbols, most) if path.tokens is None else path
    return path if path is not None and path.tokens and state.allows(int(path.tokens[0])) else None
