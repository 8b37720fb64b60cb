"""Create the landing control of a row: from the shortest answer of its plan, which is searched once per plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from grammars.limits.bounded_cache import BoundedCache
from grammars.limits.time_limits import time_limits
from grammars.plan.plan import Plan, RegionName, RowPlan
from grammars.values.persistent_set import Mode
from guided.engine.engine import Engine
from guided.landing.byte_classes import Classes
from guided.landing.control import LandingControl, PlanPath, RowLanding
from guided.landing.effort import Effort
from guided.landing.growth import growth_bound
from guided.landing.landing import LandingSearch
from guided.landing.mask_landing import MaskLanding
from guided.landing.options import Budgeting
from guided.landing.path import EndPath
from guided.state.entry import Begin
from guided.state.state import GuidanceState
from guided.stops.compiled import CompiledStops
from guided.stops.matcher import StopMatcher
from special_tokens.errors import GuidanceError, LimitExceeded, RequestError

__all__ = ["row_landing", "shortest_output"]

#: Plans whose shortest answers are kept.
_MAX_CACHED_PLANS = 64
#: Places of a search: more than a step of a loop may take, since an answer of hundreds of members has as many places.
_MAX_PLACES = 16_000


class _Start(NamedTuple):
    """The start of the rows of one plan and entry; ``path`` is None if no end was found, for this ``reason``."""

    plan: Plan
    path: PlanPath | None
    reason: str = ""


class _Starts:
    """The starts of one engine's plans."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: BoundedCache[_Start] = BoundedCache(_MAX_CACHED_PLANS)

    def of(self, plan: Plan, entry: str, max_tokens: int) -> _Start:
        """Return the start of an entry of a plan, with the shortest answer if a quicker search finds a longer one."""
        start = self._once((id(plan), entry, False), lambda: self._searched(plan, entry))
        if start.path is None or start.path.path.size <= max_tokens:
            return start
        return self._once((id(plan), entry, True), lambda: self._shortest(start, entry))

    def _once(self, key: tuple[int, str, bool], make: Callable[[], _Start]) -> _Start:
        """Return what ``make`` returns for ``key``, or returned before: it does not depend on other requests."""
        start = self._kept.get(key)
        if start is None:
            start = make()
            self._kept.put(key, start)  # it holds the plan, so the id stays its own
        return start

    def _searched(self, plan: Plan, entry: str) -> _Start:
        try:
            search = LandingSearch(plan, self._engine, entry=entry)
            state = GuidanceState(plan, self._engine, entry=entry)
        except GuidanceError as error:
            return _Start(plan, None, str(error))
        classes = Classes()
        landing = search.shortest_end(state, classes=classes)
        tokens, reason = landing.tokens, landing.reason
        if tokens is None:
            try:
                tokens = shortest_output(plan, self._engine, entry=entry)
            except LimitExceeded as error:
                return _Start(plan, None, reason or str(error))
        return _Start(plan, _plan_path(plan, search, state, tokens, classes))

    def _shortest(self, start: _Start, entry: str) -> _Start:
        """The start with the answer that `guided.inspect.shortest.min_tokens` counts."""
        assert start.path is not None
        try:
            tokens = shortest_output(start.plan, self._engine, entry=entry)
        except LimitExceeded:
            return start
        if start.path.path.size <= len(tokens):
            return start
        state = GuidanceState(start.plan, self._engine, entry=entry)
        return start._replace(path=_plan_path(start.plan, start.path.search, state, tokens, start.path.classes))


def _plan_path(
    plan: Plan, search: LandingSearch, state: GuidanceState, tokens: tuple[int, ...], classes: Classes
) -> PlanPath:
    """Return the shortest answer, ``tokens``, as a path, and what is worked out once from it."""
    symbols = tuple(symbol for token in tokens[:-1] for symbol in state.regions.symbols(token))
    places, values = search.places(state), [0, 0]
    place = places.start(state.entry.region)
    for symbol in symbols:
        if (
            place.scan is not None
            and place.scan.mode is Mode.VALUE
            and (symbol == 0x22 or chr(symbol) in "-0123456789")
        ):
            values[symbol != 0x22] += 1
        place = places.advance(place, (symbol,))
    values[0] += places.region(place) is RegionName.CONTENT  # text after reasoning counts as a string
    if all(region.name is not RegionName.REASONING for region in plan.regions):
        values = [0, 0]
    growth = growth_bound(plan, len(symbols))
    return PlanPath(search, EndPath(symbols, tokens), growth, classes, *values)


def row_landing(
    plan: RowPlan,
    engine: Engine,
    begin: Begin,
    max_tokens: int,
    budget: Budgeting | None = None,
    *,
    in_masks: bool = False,
) -> RowLanding:
    """Return the control of a row of at most ``max_tokens`` tokens; none for a row without a plan.

    ``in_masks``: one that narrows masks.  Raises `RequestError` where these tokens cannot hold the shortest answer that
    was found, and ``budget`` says so.
    """
    options, must_fit = budget or Budgeting()
    if not isinstance(plan, Plan) or (options is None and not must_fit):
        return RowLanding()
    start = engine.derived(_Starts).of(plan, begin.entry, max_tokens)
    path = start.path.path if start.path is not None else None
    note = start.reason
    if path is not None and path.size > max_tokens:
        note = f"{max_tokens} tokens cannot hold the shortest answer found, which has {path.size}"
        if must_fit:
            raise RequestError(note, place="max_tokens", expected=f"at least {path.size}")
    if options is None:
        return RowLanding()
    if start.path is None or path is None or path.size > max_tokens:
        return RowLanding(None, f"the answer may be cut: {note}")
    if plan.stops and _is_stopped(plan, engine, begin, path.tokens or ()):
        return RowLanding(note="the answer may be cut: the shortest answer found contains a stop sequence")
    control = MaskLanding if in_masks else LandingControl
    return RowLanding(control(start.path, max_tokens, options))


def _is_stopped(plan: Plan, engine: Engine, begin: Begin, tokens: Sequence[int]) -> bool:
    """Whether a stop sequence of the request ends an answer of these tokens before its end."""
    stops = StopMatcher(CompiledStops(plan.stops, engine, plan), entry=begin.entry)
    return stops.feed(tokens[:-1]) is not None


def shortest_output(plan: Plan, engine: Engine, *, entry: str = "fresh") -> tuple[int, ...]:
    """Return the tokens of the shortest output found; raises `LimitExceeded` with the reason where none is."""
    effort = Effort(time_limits().landing_cpu_s, _MAX_PLACES)
    search, state = LandingSearch(plan, engine, entry=entry), GuidanceState(plan, engine, entry=entry)
    path = search.shortest_end(state, effort=effort)
    if path.tokens is None:
        raise LimitExceeded(path.reason, place="plan", hint="use fewer required values")
    places = search.places(state)
    symbols = [symbol for token in path.tokens[:-1] for symbol in state.regions.symbols(token)]
    if places.refuses(places.start(state.entry.region), symbols):
        raise LimitExceeded("no end without repeats was found", place="plan", hint="require fewer values")
    return path.tokens
