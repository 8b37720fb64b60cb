"""Control of one answer under a token budget: an answer that fits stays as it is, and every other answer ends in time.

A path to the end that fits into the remaining tokens is known from the beginning.  Far from the budget, each token
takes a part of a credit: the most by which it can lengthen the path (`growth_bound`).  When the credit is used up, the
path is searched again.  Near the budget, or where no bound is sure, each token is tried before it is chosen: if the
known path does not end the answer after this token, a search on a copy of the state looks for another path.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from grammars.limits.deadline import time_limits
from grammars.plan.plan import RegionName
from guided.landing.byte_classes import FREE_TEXT, Classes
from guided.landing.effort import Effort
from guided.landing.finder import PathFinder, is_free
from guided.landing.growth import Growth
from guided.landing.landing import LandingSearch, canonical_tokens, write
from guided.landing.options import LandingOptions
from guided.landing.path import NOTHING, EndPath
from guided.state.state import GuidanceState

__all__ = ["LandingControl", "Marks", "PlanPath", "RowLanding"]

#: A search for a lost path is repeated after this many tokens (half of the remaining ones if they are few), or this
#: part of the remaining ones if that is more.
_RETRY_TOKENS, _RETRY_DIVISOR = 4, 8
_STEP_PLACES = 25  # that each step adds to those that its searches may try
_SAVED_PLACES = 1_000  # at most, that steps leave for later ones; an answer begins with as many
_MAX_STEP_PLACES = 400  # of the saved ones that one step may use
_MAX_LOOK_PLACES = 1_000  # of one search after tokens that were only counted
_MAX_LOST_PLACES = 125  # of one search where the path has been lost
_COMMIT_COST = 3.0  # of a token that is tried, in places
#: Tokens of margin far from the budget, in addition to the bound.
_MARGIN_TOKENS = 12
#: Positions whose paths are kept: drafts may be taken back, at most as many tokens.
_MAX_POSITIONS = 64
#: This many symbols of an opening in free text show that a call begins; fewer occur in other text as well.
_OPENING_SYMBOLS = 3
#: The most calls tried, by their openings: where an opening begins, one of them must fit.
_MAX_LEADS = 8
_MAX_NAMES, _NAME = 3, re.compile(r"[\w.-]+")  # names in a note
_NAME_TOKENS = 16  # before a refused one, in which its name may have begun


class Marks(NamedTuple):
    """The decisions of the budget in one answer, each with the index of its token."""

    begun: int | None = None  #: the first token that was chosen because of the budget; None if there is none
    answer_begun: int | None = None  #: the first such token after the reasoning; calls that end after it are landed
    names: tuple[tuple[int, str], ...] = ()  #: names that the model began to write and the budget had no room for

    def before(self, size: int) -> Marks:
        """Return what was decided before the token with index ``size``."""
        begun, answer_begun = (at if at is not None and at < size else None for at in self[:2])
        return Marks(begun, answer_begun, tuple(named for named in self.names if named[0] < size))

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the answer about its budget."""
        if not self.names:
            return ()
        names = ", ".join(f"`{name}`" for _, name in self.names)
        return (f"max_tokens left no room for {names}, which the model began",)


class PlanPath(NamedTuple):
    """The search of one plan and entry, the path of its shortest answer, and values that are computed once from both.

    ``num_strings`` and ``num_numbers`` count the JSON values on the path; both are 0 if no reasoning comes before them.
    ``classes`` are the classes of bytes that the search has found.
    """

    search: LandingSearch
    path: EndPath
    growth: Growth
    classes: Classes
    num_strings: int = 0
    num_numbers: int = 0


@dataclass(slots=True)
class _Position:
    """The knowledge of a row after ``size`` tokens."""

    size: int
    path: EndPath | None  #: None: no path is known
    credit: int  #: tokens by which the path may grow before it is searched again
    saved: float = _SAVED_PLACES  #: places that later searches may try
    #: Token -> the path after it: None if the token is refused, `_UNKNOWN` if no search has decided.
    tried: dict[int, EndPath | None] = field(default_factory=dict)

    def copy(self) -> _Position:
        return replace(self, tried=dict(self.tried))


#: Stands for the path after a token that is taken although no search has decided about it.
_UNKNOWN = EndPath(())


class LandingControl:
    """The control of one row.  Not thread-safe.

    The caller passes the state of the row, which is not changed, and reports the rollbacks of the row.
    """

    def __init__(self, plan_path: PlanPath, max_tokens: int, options: LandingOptions) -> None:
        self.max_tokens = max_tokens
        self._plan = plan_path
        #: the tokens beyond a path that must be left where tokens are only counted
        self.margin = _MARGIN_TOKENS + (plan_path.growth.most if plan_path.growth.is_sure else 0)
        wanted = options.string_tokens * plan_path.num_strings + options.string_tokens // 2 * plan_path.num_numbers
        #: tokens that reasoning leaves for the values after it
        self.reserve = max(0, min(wanted, int(options.answer_share * (max_tokens - plan_path.path.size))))
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning of the answer."""
        self.marks = Marks()
        self._begin({})

    def _begin(self, kept: dict[int, _Position], size: int = 0) -> None:
        """Go back to the position after ``size`` tokens, of which ``kept`` may know something."""
        self.lost = ""  #: the reason why no path is known, "" if one is known
        self._finder = PathFinder(self._plan.search, self._plan.classes)
        self._kept = kept  # positions at which tokens were tried, by size
        path = self._plan.path
        first = _Position(0, path, self.max_tokens - path.size - self.reserve - self.margin)
        self._here = kept.get(size) or first
        self._num_counted = self._here.size  # tokens that have been taken off the credit

    def rolled_back(self, size: int) -> None:
        """Forget what is known of tokens after the first ``size``, which have been undone."""
        self.marks = self.marks.before(size)
        if size < self._num_counted:
            self._begin({at: position for at, position in self._kept.items() if at <= size}, size)

    def fork(self) -> LandingControl:
        """Return an independent copy."""
        twin = copy(self)
        twin._kept = {at: position.copy() for at, position in self._kept.items()}
        twin._here = twin._kept.get(self._here.size) or self._here.copy()
        twin._finder = self._finder.copy()
        return twin

    # -- where the row is

    def is_near(self, state: GuidanceState) -> bool:
        """Whether `allows` must be asked for the next token.

        In most cases this only counts the new tokens.
        """
        size, here, growth = state.num_tokens, self._here, self._plan.growth
        for token in state.tokens[self._num_counted :]:
            here.credit -= 1 if here.path is None else 1 + growth.of(state.engine.token_bytes(token))
        self._num_counted = size
        if here.credit > 0 and (growth.is_sure or here.path is None):
            return False
        if here.size != size or size not in self._kept:
            here = self._here = self._position(state)
        return here.path is not None and (here.credit <= 0 or not growth.is_sure)

    def _position(self, state: GuidanceState) -> _Position:
        """Return what is known at the row's position: what remains of the path, else what a search finds."""
        remaining, size = self.max_tokens - state.num_tokens, state.num_tokens
        before = self._here
        path = self._followed(state)
        if path is None or path.size > remaining:
            path = self._looked_up(state, path or before.path or NOTHING, remaining)
        if path is None:
            self.lost = self._finder.refusal or self.lost or f"no end was found within {remaining} tokens"
            retry = max(1, min(_RETRY_TOKENS, remaining // 2), remaining // _RETRY_DIVISOR)
            return _Position(size, None, retry, before.saved)
        self.lost = ""
        room = remaining - self._reserved(state.region) - self.margin
        if path.tokens is None and path.size >= room:  # as many tokens as bytes is too high a bound
            path = write(state, path.symbols, remaining) or path
        here = _Position(size, path, room - path.size, before.saved)
        self._kept[size] = here
        if len(self._kept) > _MAX_POSITIONS:
            del self._kept[next(iter(self._kept))]
        return here

    def _followed(self, state: GuidanceState) -> EndPath | None:
        """Return what remains of the path after the new tokens, if they are on it or have been tried; else None."""
        path, tried = self._here.path, self._here.tried
        for token in state.tokens[self._here.size :]:
            if path is not None:
                path = path.after(token, state.regions.symbols(token)) or tried.get(token)
            tried = {}
        return None if path is _UNKNOWN else path

    def _looked_up(self, state: GuidanceState, known_path: EndPath, remaining: int) -> EndPath | None:
        """Return a path that a search from the row's position finds."""
        cursor = self._finder.cursor(state)
        if cursor is None:
            return None
        if is_free(state):
            return NOTHING
        places = _MAX_LOST_PLACES if self.lost else _MAX_LOOK_PLACES
        effort = Effort(cpu_s=time_limits().landing_look_cpu_s, places=places)
        return self._finder.find(cursor, known_path, remaining, effort).path

    def _reserved(self, region: RegionName) -> int:
        return self.reserve if region is RegionName.REASONING else 0

    # -- the next token, where `is_near` is true

    def next_token(self, state: GuidanceState) -> int | None:
        """Return the next token of the known path, or an end token if the answer may end here.

        None if there is no such token, or if a watcher forbids it.
        """
        here = self._here
        if here.path is not None and here.path.symbols:
            for _ in range(2):
                if here.path.tokens is None:  # canonical ones may be more than its size, and so than what remains
                    here.path = write(state, here.path.symbols, len(here.path.symbols) + 1) or here.path
                if here.path.tokens and state.allows(token := int(here.path.tokens[0])):
                    return token
                here.path = EndPath(here.path.symbols)  # other tokens of the same text may be the allowed ones
            return None
        ends = state.open_end_ids()
        return ends[0] if ends else None

    def step_effort(self) -> Effort:
        """Return what all searches of one step, which begins now, may take."""
        places = _STEP_PLACES + min(self._here.saved, _MAX_STEP_PLACES)
        return Effort(cpu_s=time_limits().landing_step_cpu_s, places=int(places))

    # A token is refused where ends were found and each of them is too long, or where with two preferences all that was
    # left cost more than a text that fits may.  A search that was cut before decides nothing: the model's own token is
    # taken, and the answer may be cut, until the budget has chosen a token; from there on only tokens with a known path
    # are taken.
    def allows(self, state: GuidanceState, token: int, effort: Effort, *, is_own: bool = True) -> bool:
        """Whether a path to the end that fits into the budget is known after ``token``, which the mask allows.

        ``effort`` is what the searches of this step may still take, see `step_effort`.  Where they do not decide, a
        token that ``is_own``, the model's choice, is allowed as long as the budget has chosen none, if the growth of
        paths has a bound: then few searches are cut.
        """
        here = self._here
        if token in state.open_end_ids():
            return True
        if token not in here.tried:
            left, brought = effort.left, 0 if here.tried else _STEP_PLACES
            here.tried[token] = self._after(state, token, effort, is_own)
            here.saved = max(0.0, min(_SAVED_PLACES, here.saved + brought - (left - effort.left)))
        path = here.tried[token]
        may_be_cut = is_own and self.marks.begun is None and self._plan.growth.is_sure
        return path is not None and (path is not _UNKNOWN or may_be_cut)

    def _after(self, state: GuidanceState, token: int, effort: Effort, is_own: bool) -> EndPath | None:
        """Return a path after ``token`` that fits; None if there is none, `_UNKNOWN` if the search was cut."""
        here, cursor = self._here, self._finder.cursor(state)
        if here.path is None or cursor is None:
            return None
        places, symbols = self._plan.search.places, state.regions.symbols(token)
        place = places.advance(cursor.place, symbols)
        region, most = places.region(place), self.max_tokens - state.num_tokens - 1
        most -= self._reserved(region)
        begun = self.marks.begun if region is RegionName.REASONING else self.marks.answer_begun
        is_settled = is_own and begun is not None  # masks are narrowed by what is found, so there each search goes on
        num_matched = state.regions.matched(place.position) if region is RegionName.CONTENT else 0
        is_call = num_matched >= (_OPENING_SYMBOLS if most > 0 else 1) and is_free(state)
        leads = state.regions.rests_of_exits(place.position, _MAX_LEADS) if is_call else [()]
        kept = self._finder.kept(cursor, here.path, token, place)
        is_kept = kept is not None and any(tuple(kept.symbols[: len(lead)]) == lead for lead in leads)
        if kept is not None and is_kept:
            if kept.size <= most:
                return kept
            if kept.symbols and effort.is_small and len(canonical_tokens(state.engine, kept.symbols)) >= most:
                return _UNKNOWN
        effort.spend(_COMMIT_COST)
        after = self._finder.after(cursor, token, place._replace(is_refused=False))
        if after is None:
            return None
        if after.state.is_stopped or (not is_call and is_free(after.state)):
            return NOTHING
        effort.cost = 4.0 * most + 32
        is_certain = True
        for lead in leads:
            end = self._finder.find(
                after, here.path, most, effort, written=len(symbols), lead=lead, is_settled=is_settled
            )
            if end.path is not None:
                return end.path
            is_certain = is_certain and end.is_certain
        return None if is_certain else _UNKNOWN

    # -- what the budget decided

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the control's own work, besides `Marks.notes`."""
        return ()

    def note(self, state: GuidanceState, refused: int | None) -> None:
        """Note that the budget decides about the next token, where the model's own is ``refused``, if it is known."""
        size, marks = state.num_tokens, self.marks
        is_answer = state.region is not RegionName.REASONING
        names = marks.names
        if is_answer and refused is not None and len(names) < _MAX_NAMES and (name := self._name(state, refused)):
            names = names if name in dict(names).values() else (*names, (size, name))
        self.marks = Marks(
            size if marks.begun is None else marks.begun,
            size if marks.answer_begun is None and is_answer else marks.answer_begun,
            names,
        )

    def _name(self, state: GuidanceState, token: int) -> str:
        """Return the name of what ``token`` chooses: a tool, a member or a value of few; "" where it names nothing."""
        cursor = self._finder.cursor(state)
        if cursor is None or cursor.matcher.mask().byte_bits.bit_count() > FREE_TEXT:
            return ""
        after = cursor.matcher.copy()
        if not after.feed(state.regions.symbols(token)):
            return ""
        before = b"".join(map(state.engine.token_bytes, state.tokens[-_NAME_TOKENS:])).decode(errors="replace")
        forced = bytes(symbol for symbol in after.forced() if symbol < 256)
        text = before + (state.engine.token_bytes(token) + forced).decode(errors="replace")
        name = next((match for match in _NAME.finditer(text) if match.end() > len(before)), None)
        return name[0] if name is not None else ""


class RowLanding(NamedTuple):
    """The control of one row.  It is None if the answer is not landed; ``note`` says why landing is impossible."""

    control: LandingControl | None = None
    note: str = ""
