"""Control of one answer under a token budget: near the budget an end that fits into its rest is known.

Far from the budget, tokens are only counted, with the most by which they can lengthen the way (`growth_bound`); when
this credit is used up, the way is searched again.  Near the budget each token is tried before it is chosen, on a copy
of the state: with the rest of the known way if that still ends the answer, else with a short search.  A token after
which no way fits is refused.  The next token of the known way is always allowed, so the answer ends in time, whatever
the sampler draws.  Where no bound is sure, tokens are tried from the beginning, far from the budget without a reserve.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

from grammars.limits.time_limits import time_limits
from grammars.plan.plan import RegionName
from guided.landing.byte_classes import Classes
from guided.landing.effort import Effort, SearchLimits
from guided.landing.finder import WayFinder, in_tokens
from guided.landing.growth import Growth
from guided.landing.landing import LandingSearch
from guided.landing.options import LandingOptions
from guided.landing.place import AnswerPlace
from guided.landing.way import NOTHING, Way, rest_at, values_of
from guided.state.state import GuidanceState
from guided.watchers.persistent_set import Mode
from special_tokens.errors import GuidanceError

__all__ = ["LandingControl", "RowLanding"]

#: A search that found no way is repeated after this many tokens (half of the remaining ones if they are few), or this
#: part of the remaining ones if that is more.
_RETRY, _RETRIES = 4, 8
#: How often the places of a look are halved after looks that found no way.
_HALVED = 3
#: The most places that searches try in one step near the budget, in one far from it (fewer where it is not very far),
#: and in one look after tokens that were only counted.
_STEP_PLACES, _FAR_PLACES, _LOOK_PLACES = 50, 600, 1_000
#: The share of a far step's places for the first token that needs a search.
_FIRST = 0.8
#: The places that may be spent, far from the budget, on what is left of the way after one token.
_CHECKS = 10
#: Places that take as long as committing a token that is tried.
_TRIED = 3.0
#: Tokens of margin far from the budget, in addition to the bound.
_NEAR = 12
#: Positions whose ways are kept: drafts may be taken back, at most as many tokens.
_POSITIONS = 64
#: The most digits of a number near the budget.
_MOST_DIGITS = 15
#: No word is begun in a string that has fewer tokens left than this: it would be cut.
_WORD_TOKENS = 3
_SPACES = (b" ", b"\n", b"\t", b"\r")
_DIGITS = b"0123456789"


class _Known(NamedTuple):
    """The knowledge at a position where tokens were tried; the fields are those of `LandingControl`."""

    way: Way
    tried: dict[int, Way | None]
    credit: int
    ratio: float
    wanted: int
    failures: int


class LandingControl:
    """The control of one row.  ``way`` are the tokens of a whole answer, ``growth`` is `growth_bound` of the plan,
    ``classes`` is what the search for the way remembers.

    Not thread-safe.  The caller passes the row's state, which stays as it is, and reports its rollbacks.
    """

    def __init__(
        self,
        search: LandingSearch,
        max_tokens: int,
        way: Sequence[int],
        growth: Growth,
        options: LandingOptions | None = None,
        classes: Classes | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        #: the index of the first token that was chosen because of the budget; None if there is none
        self.begun: int | None = None
        #: the same for tokens after the reasoning: what it chose in the reasoning leaves calls the model's own
        self.answer_begun: int | None = None
        #: the reason why no way is known, "" if one is known
        self.lost = ""
        self._search = search
        self._first = tuple(way)
        self._growth = growth
        self._is_tried = not growth.is_sure
        self._margin = _NEAR + (0 if self._is_tried else growth.most)
        self._options = options or LandingOptions()
        self._ends_in_text = False  # whether the shortest answer is free text
        self._known_classes = classes or Classes()
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning of the answer."""
        self.begun, self.answer_begun, self.lost = None, None, ""
        self._counted = 0  # tokens that have been counted
        self._credit = self.max_tokens - len(self._first) - self._margin
        self._at = 0  # tokens after which the way is known
        self._way: Way | None = None
        self._hint = NOTHING  # the last way that was known
        self._tried: dict[int, Way | None] = {}  # by candidate after _at: the way after it, None for a refused one
        self._is_near = False
        self._finder = WayFinder(self._search, self._known_classes)
        self._failures, self._again = 0, 0  # looks that found no way since one did, and tokens after which one is due
        self._ratio, self._wanted = 1.0, -1
        self._ways: dict[int, _Known] = {}  # by the number of tokens before the position

    def rolled_back(self, size: int) -> None:
        """Forget what is known of tokens after the first ``size``, which have been undone."""
        begun, answer_begun = (at if at is not None and at < size else None for at in (self.begun, self.answer_begun))
        self.begun, self.answer_begun = begun, answer_begun
        if size >= self._counted:
            return
        ways = {at: known for at, known in self._ways.items() if at <= size}
        self.restart()
        self.begun, self.answer_begun, self._ways = begun, answer_begun, ways
        if size in ways:
            self._way, self._tried, self._credit, self._ratio, self._wanted, self._failures = ways[size]
            self._hint, self._at, self._counted, self._is_near = self._way, size, size, True

    def fork(self) -> LandingControl:
        """Return an independent copy."""
        twin = copy(self)
        twin._ways = {at: known._replace(tried=dict(known.tried)) for at, known in self._ways.items()}
        known = self._ways.get(self._at)
        is_kept = known is not None and known.tried is self._tried
        twin._tried = twin._ways[self._at].tried if is_kept else dict(self._tried)
        twin._finder = self._finder.copy()
        return twin

    # -- where the row is

    def is_near(self, state: GuidanceState) -> bool:
        """Whether `allows` must be asked for the next token.

        In most cases this only counts the new tokens.
        """
        size = state.num_tokens
        while self._counted < size:
            self._credit -= 1 + self._growth.of(state.engine.token_bytes(state.tokens[self._counted]))
            self._counted += 1
        if size < self._again if self.lost else self._credit > 0 and not self._is_tried:
            return False
        if not (self._is_near and self._at == size):
            self._is_near = self._look_up(state)
        return self._is_near

    @property
    def is_far(self) -> bool:
        """Whether the budget is far where tokens are tried, because no bound on their growth is sure."""
        return self._credit > 0 and self._is_tried

    def _look_up(self, state: GuidanceState) -> bool:
        """Find the way from the row's position, and return whether tokens must be tried there."""
        remaining = self.max_tokens - state.num_tokens
        way = self._fitting(state, self._brought(state), remaining)
        if way is None:
            way = self._fitting(state, self._searched(state, remaining), remaining)
        self._way, self._tried = way, {}
        if way is None:
            self._failures += 1
            self._again = state.num_tokens + max(1, min(_RETRY, remaining // 2), remaining // _RETRIES)
            self.lost = self._finder.refusal or self.lost or f"no end was found within {remaining} tokens"
            return False
        if self.lost or not self._is_tried:
            self._failures, self.lost = 0, ""
        if self._credit > 0 and not self._is_tried:
            return False
        known = _Known(way, self._tried, self._credit, self._ratio, self._wanted, self._failures)
        self._ways[state.num_tokens] = known
        if len(self._ways) > _POSITIONS:
            del self._ways[next(iter(self._ways))]
        return True

    def _searched(self, state: GuidanceState, remaining: int) -> Way | None:
        """Return a way that a look from the row's position finds."""
        matcher = self._finder.matcher(state)
        if matcher is None:
            return None
        most = _LOOK_PLACES >> min(self._failures, _HALVED)
        effort = Effort(SearchLimits(cpu_s=time_limits().landing_look_cpu_s, expansions=most))
        return self._finder.found(state, matcher, self._finder.place(state), self._hint, remaining, effort)

    def _fitting(self, state: GuidanceState, way: Way | None, remaining: int) -> Way | None:
        """Return the way, where tokens must be tried after it written in tokens; None if the masks refuse these.

        The credit is that of the way.
        """
        if way is None:
            return None
        self._credit = self._left(state, way, remaining)
        if way.tokens is not None or self._credit > 0:
            return way
        way = in_tokens(state, way, remaining)
        return self._fitting(state, way, remaining)

    def _left(self, state: GuidanceState, way: Way, remaining: int) -> int:
        """Return the number of tokens that may be written before each must be tried.

        If other values are on the way than before, the reserve for them is computed again.
        """
        wanted = self._wanted_tokens(way)
        slack = remaining - way.size
        if wanted != self._wanted:
            whole = max(wanted, self._wanted)
            self._ratio = min(1.0, max(0, slack) / whole) if whole else 1.0
            self._wanted = wanted
        return slack - self._kept(state, way) - self._margin

    def _brought(self, state: GuidanceState) -> Way | None:
        """Return the rest of the way after the new tokens, if they are on the way or have been tried; else None."""
        tokens, size = state.tokens, state.num_tokens
        if self._at == 0 and self._way is None and self._hint is NOTHING:
            symbols = [symbol for token in self._first[:-1] for symbol in state.regions.symbols(token)]
            places = self._search.places(state)
            start = places.start(state.entry.region)
            values = values_of(places, start, symbols)
            self._ends_in_text = places.region(places.advance(start, symbols)) is RegionName.CONTENT
            self._way = Way(tuple(symbols), self._first, values)
        while self._at < size:
            token, way = tokens[self._at], self._way
            if way is not None:
                self._hint = way
                self._way = way.after(token, state.regions.symbols(token)) or self._tried.get(token)
                self._tried = {}
            self._at += 1
        return self._way

    # -- the next token, where `is_near` is true

    def next_token(self, state: GuidanceState) -> int | None:
        """Return the next token of the known way, or an end token if the answer may end here.

        None if there is no such token, or if a watcher forbids it.
        """
        if self._way is not None and self._way.tokens is None:
            self._way = in_tokens(state, self._way, self.max_tokens - state.num_tokens)
        if self._way is not None and self._way.tokens:
            token = int(self._way.tokens[0])
            return token if state.allows(token) else None
        ends = state.open_end_ids()
        return ends[0] if ends else None

    def allows(self, state: GuidanceState, token: int, effort: Effort) -> bool:
        """Whether a way to the end that fits into the budget was found after ``token``, which the mask allows.

        ``effort`` is what the searches of this step may still take, see `step_effort`; when it is spent, far from the
        budget only what is left of the known way is tried.
        """
        if token in state.open_end_ids() or (not self.is_far and token == self.next_token(state)):
            return True
        if token not in self._tried and (self.is_far or not effort.is_spent):
            effort.spend(_TRIED)
            self._tried[token] = self._after(state, token, effort)
        return self._tried.get(token) is not None

    def step_effort(self) -> Effort:
        """Return what all searches of one step, which begins now, may take."""
        most = _STEP_PLACES
        if self.is_far:
            most = min(_FAR_PLACES, 4 * _STEP_PLACES + 5 * self._credit) >> min(self._failures, _HALVED)
        return Effort(SearchLimits(cpu_s=time_limits().landing_step_cpu_s, expansions=most))

    def _after(self, state: GuidanceState, token: int, effort: Effort) -> Way | None:
        """Return a way after ``token`` that fits into the budget; None if none was found."""
        way, is_far = self._way, self.is_far
        matcher = self._finder.matcher(state)
        if way is None or matcher is None:
            return None
        most, symbols = self.max_tokens - state.num_tokens - 1, state.regions.symbols(token)
        if is_far and (kept := self._finder.kept(state, matcher, way, symbols, most)) is not None:
            return kept
        places, place = self._search.places(state), self._finder.place(state)
        if not is_far and self._is_unwise(state, way, place, token):
            return None
        after, place = matcher.copy(), places.advance(place, symbols)
        if not after.feed(symbols):
            return None
        if is_far:
            checks = Effort(SearchLimits(cpu_s=time_limits().landing_step_cpu_s, expansions=_CHECKS))
            at = rest_at(after, place, places, way, checks, written=len(symbols))
            if at >= 0 and len(way.symbols) - at < most:
                return Way(way.symbols[at:], None, way.values)
            if effort.is_spent:
                return None
        twin = state.fork()
        try:
            twin.commit([token])
        except GuidanceError:
            return None
        if twin.is_stopped:
            return NOTHING
        part = effort.part(max(_STEP_PLACES, _FIRST * effort.left)) if is_far else effort
        part.cost = 2.0 * most + 8
        reserve = None if is_far else partial(self._kept, twin)
        found = self._finder.found(twin, after, place, way, most, part, reserve, written=len(symbols))
        if not is_far:
            return found
        effort.left += max(0.0, part.left)
        self._failures = 0 if found is not None else self._failures + 1
        return found

    # -- the reserve

    def _wanted_tokens(self, way: Way) -> int:
        whole = self._options.string_tokens
        return sum(whole if is_string else whole // 2 for is_string in way.open_values()) if way.values else 0

    def _kept(self, state: GuidanceState, way: Way) -> int:
        """Return the number of tokens in reserve for the values that begin on a way."""
        wanted = self._wanted_tokens(way)
        if state.region not in (RegionName.REASONING, RegionName.CONTENT):
            return int(self._ratio * wanted)
        if state.region is RegionName.REASONING and self._ends_in_text:
            wanted += self._options.string_tokens  # text after it counts as one string
        return min(wanted, int(self._options.answer_share * (self.max_tokens - len(self._first))))

    def _is_unwise(self, state: GuidanceState, way: Way, place: AnswerPlace, token: int) -> bool:
        """Whether ``token`` begins a word for which no tokens are left, or more digits than a number needs."""
        if place.scan is None or not way.symbols or not self._options.string_tokens:
            return False
        data = state.engine.token_bytes(token)
        if place.scan.mode is Mode.STRING and way.symbols[0] == 0x22 and data.startswith(_SPACES):
            left = self.max_tokens - state.num_tokens - way.size - self._kept(state, way)
            return left < _WORD_TOKENS
        if place.scan.mode is Mode.NUMBER and way.symbols[0] not in _DIGITS and data[:1].isdigit():
            text = place.scan.text
            return len(text) - len(text.rstrip(_DIGITS)) + len(data) > _MOST_DIGITS
        return False


class RowLanding(NamedTuple):
    """The control of one row; None where its answer is not landed, and ``note`` says why it cannot be."""

    control: LandingControl | None = None
    note: str = ""
