"""Landing: the tokens that end an answer from where it is, found over bytes and verified on the answer's state.

A `LandingSearch` belongs to one plan and entry and holds nothing of a sequence; `LandingSearch.shortest_end` takes a
state and leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import inf
from typing import NamedTuple

from grammars.limits.deadline import time_limits
from grammars.plan.plan import Plan
from grammars.tree.markers import Markers
from guided.engine.engine import Engine
from guided.landing.byte_classes import Classes
from guided.landing.byte_twin import ByteMatcher, ByteTwin
from guided.landing.candidates import Candidates, Preference
from guided.landing.effort import Effort
from guided.landing.known_texts import response_text
from guided.landing.path import NOTHING, EndPath, remaining_from
from guided.landing.search import SearchResult, SearchTree, search
from guided.state.state import GuidanceState
from guided.tracking.places import AnswerPlace, PlaceMap
from guided.tracking.regions import RegionMap
from special_tokens.errors import GuidanceError, LimitExceeded, TokenRefused

__all__ = ["Landing", "LandingSearch", "canonical_tokens", "write"]

#: Preferences of the searches, each of which is tried: the answer of fewest tokens wins.
_PREFERENCES = (
    Preference({}),
    Preference(dict.fromkeys(b"0123456789-", 2.0) | dict.fromkeys(b"tfn", 1.0), by_tokens=True),
    Preference(dict.fromkeys(b'0123456789-"', 2.0), heeds_extra=False),
)
#: Places of each other search, in addition to those of the first end: near the budget, and for the shortest end.
_EXTRA_PLACES, _PLACES_BESIDES = 20, 100
#: The last tokens before a search, in which the end of a text may already have begun.
_LAST_TOKENS = 32
#: Texts whose tokens are kept.
_MAX_CACHED_TEXTS = 4_096


class Landing(NamedTuple):
    """Tokens that end an answer, its end token included; None with a ``reason`` where no end was found."""

    tokens: Sequence[int] | None
    reason: str = ""


class LandingSearch:
    """The search for the ends of one plan's answers.

    Raises `GrammarError` or `LimitExceeded` where the byte twin refuses the grammar.
    """

    def __init__(self, plan: Plan, engine: Engine, *, entry: str = "fresh") -> None:
        self._engine = engine
        begin = plan.entry(entry)
        self._begin = engine.derived(ByteTwin).matcher(plan, begin.name)
        self._known_path = EndPath(response_text(plan))  # of which a part may end the answer
        markers = Markers(engine.tokens)
        regions = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
        #: the places of the plan's answers, and the first of them
        self.places = PlaceMap(plan, markers, regions)
        self.start = self.places.start(begin.region)
        self._candidates = Candidates(plan, markers)

    def shortest_end(
        self, state: GuidanceState, *, effort: Effort | None = None, classes: Classes | None = None
    ) -> Landing:
        """Return the fewest tokens found that end ``state``, each of them allowed by its masks.

        Nothing is raised: if no end is found, or if the state refuses the end found, the reason says so.
        """
        effort = effort or Effort(time_limits().landing_cpu_s)
        try:
            matcher, place = self.follow(state)
        except GuidanceError as error:
            return Landing(None, str(error))
        known_path, reason = self._known_path, ""
        tree = self.tree(state, matcher, place, Classes() if classes is None else classes)
        found: dict[tuple[bool, int, int], EndPath] = {}
        at = remaining_from(matcher, place, self.places, known_path, effort)
        if at >= 0:
            effort = effort.part(_PLACES_BESIDES)
        known = [SearchResult(tuple(known_path.symbols[at:]))] if at >= 0 else []
        for end in chain(known, self.ends(tree, effort, known_path, at, extra=_PLACES_BESIDES)):
            path = None if end.symbols is None else write(state, end.symbols)
            if path is None:
                reason = reason or end.reason or "the masks refuse the text that was found"
            else:
                rank = (self.places.refuses(place, path.symbols), path.size, len(path.symbols))
                found.setdefault(rank, path)
        return Landing(found[min(found)].tokens) if found else Landing(None, reason)

    def tree(self, state: GuidanceState, matcher: ByteMatcher, place: AnswerPlace, classes: Classes) -> SearchTree:
        """Return the places of all searches from that of ``state``, ``matcher`` and ``place``.

        ``classes`` is what the caller remembers of bytes.
        """
        last = [symbol for token in state.tokens[-_LAST_TOKENS:] for symbol in state.regions.symbols(token)]
        num_since = next((len(last) - i for i, symbol in enumerate(reversed(last)) if symbol >= 256), 0)
        written = bytes(last[num_since:])
        return SearchTree(matcher, place, self.places, self._candidates, classes, written, self._num_tokens)

    def _num_tokens(self, symbols: Sequence[int]) -> int:
        """Return the number of canonical tokens of symbols."""
        return len(canonical_tokens(self._engine, symbols))

    def ends(
        self, tree: SearchTree, effort: Effort, known_path: EndPath = NOTHING, too_long: int = -1, *, extra: float = 0.0
    ) -> Iterator[SearchResult]:
        """Yield what the searches with all preferences yield, see `search`.

        The first search may take all of ``effort``, and each other one little more than its first end took.  With
        ``extra`` the first one may take half of it, and each other one ``extra`` places more than its first end took.
        """
        before, used = effort.left, 0.0
        for i, preference in enumerate(_PREFERENCES):
            least = effort.left - used - (extra or _EXTRA_PLACES) if i else before / 2 * (extra > 0)
            for result in search(tree, preference, effort, known_path, too_long, least):
                used = used or before - effort.left
                yield result

    def matcher(self) -> ByteMatcher:
        """Return the twin's matcher at the beginning of the answer."""
        return self._begin.copy()

    def follow(self, state: GuidanceState) -> tuple[ByteMatcher, AnswerPlace]:
        """Return the twin's matcher and the place after the state's tokens."""
        matcher = self.matcher()
        symbols = [symbol for token in state.tokens for symbol in state.regions.symbols(token)]
        if not matcher.feed(symbols):
            raise LimitExceeded("the byte twin refuses the answer so far", place=f"token {state.num_tokens}")
        return matcher, self.places.advance(self.start, symbols)._replace(is_refused=False)


def write(state: GuidanceState, symbols: Sequence[int], most: float = inf) -> EndPath | None:
    """Return ``symbols`` and the tokens that write them and an end after ``state``, ``most`` of them at most.

    None if the masks allow none that do.  Canonical tokens are taken where the masks allow them, else the longest
    allowed one.  Watchers are not asked: a search goes where they forbid nothing if it finds such an end.  The state
    stays as it is.
    """
    engine, unwritten = state.engine, tuple(symbols)
    planned = canonical_tokens(engine, unwritten)
    if len(planned) >= most + (not state.plan.end_ids()):
        return None
    twin = state.fork(is_watched=False)
    done: list[int] = []
    try:
        while unwritten:
            token = twin.forced_next()
            if token is not None:
                planned = planned[1:] if planned and planned[0] == token else []
            else:
                planned = planned or canonical_tokens(engine, unwritten)
                token = planned.pop(0)
            try:
                twin.commit([token])
            except TokenRefused:  # by the grammar
                fitting = [i for i in engine.tokens_within(_text(unwritten)) if twin.allows(i)]
                token, planned = max(fitting, key=lambda i: len(engine.token_bytes(i)), default=token), []
                twin.commit([token])
            written = state.regions.symbols(token)
            if unwritten[: len(written)] != written or not written:
                return None
            unwritten = unwritten[len(written) :]
            done.append(token)
            if twin.is_stopped:
                break
        else:
            if (end := twin.end_id()) is None:
                return None
            done.append(end)
    except GuidanceError:
        return None
    return EndPath(symbols, tuple(done)) if not unwritten and len(done) <= most else None


def canonical_tokens(engine: Engine, symbols: Sequence[int]) -> list[int]:
    """Return the canonical tokens of symbols, without an end token."""
    tokens_of, tokens = engine.derived(_tokens_of), []
    while symbols:
        text = _text(symbols)
        tokens += tokens_of(text) if text else [symbols[0] - 256]
        symbols = symbols[len(text) or 1 :]
    return tokens


def _tokens_of(engine: Engine) -> Callable[[bytes], list[int]]:
    """The canonical tokens of a text, not to be changed, remembered: the same ends of paths are asked for often."""
    return lru_cache(_MAX_CACHED_TEXTS)(engine.ll_tokenizer.tokenize_bytes)


def _text(symbols: Sequence[int]) -> bytes:
    """The bytes before the first marker."""
    end = next((i for i, symbol in enumerate(symbols) if symbol >= 256), len(symbols))
    return bytes(symbols[:end])
