"""Create the landing control of a row: from the shortest answer of its plan, which is searched once per plan."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from grammars.limits.bounded_cache import BoundedCache
from grammars.limits.deadline import time_limits
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
#: What begins a string, and what begins a number.
_FIRST_BYTES = frozenset(b'"-0123456789')


class _Start(NamedTuple):
    """The start of the rows of one plan and entry; ``reason`` says why there is no path, or that it has a repeat."""

    path: PlanPath | None
    reason: str = ""


def _starts(_: Engine) -> BoundedCache[_Start]:
    """The starts of one engine's plans; none depends on other requests."""
    return BoundedCache(_MAX_CACHED_PLANS)


def _kept_start(plan: Plan, engine: Engine, entry: str) -> _Start:
    plan = replace(plan, notes=(), max_tokens=None)  # which differ from call to call, and matter to no search
    starts = engine.derived(_starts)
    start = starts.get((plan, entry))
    if start is None:
        try:
            start = _start(plan, engine, entry)
        except GuidanceError as error:
            start = _Start(None, str(error))
        starts.put((plan, entry), start)
    return start


def _start(plan: Plan, engine: Engine, entry: str) -> _Start:
    """Return the shortest answer as a path, and what is worked out once from it."""
    search, state = LandingSearch(plan, engine, entry=entry), GuidanceState(plan, engine, entry=entry)
    classes, effort = Classes(), Effort(time_limits().landing_cpu_s, _MAX_PLACES)
    tokens, reason = search.shortest_end(state, effort=effort, classes=classes)
    if tokens is None:
        return _Start(None, reason)
    symbols = tuple(symbol for token in tokens[:-1] for symbol in state.regions.symbols(token))
    places, place, values = search.places, search.start, [0, 0]
    for symbol in symbols:
        if place.scan is not None and place.scan.mode is Mode.VALUE and symbol in _FIRST_BYTES:
            values[symbol != 0x22] += 1
        place = places.advance(place, (symbol,))
    values[0] += places.region(place) is RegionName.CONTENT  # text after reasoning counts as a string
    if all(region.name is not RegionName.REASONING for region in plan.regions):
        values = [0, 0]
    path = PlanPath(search, EndPath(symbols, tokens), growth_bound(plan, len(symbols)), classes, *values)
    return _Start(path, "no end without repeats was found" if place.is_refused else "")


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
    path, note = start = _kept_start(plan, engine, begin.entry)
    least = path.path.size if path is not None else 0
    if least > max_tokens:
        note = f"{max_tokens} tokens cannot hold the shortest answer found, which has {least}"
        if must_fit and not start.reason:  # without the repeat it may be shorter
            raise RequestError(note, place="max_tokens", expected=f"at least {least}")
    if options is None:
        return RowLanding()
    if path is None or least > max_tokens:
        return RowLanding(None, f"the answer may be cut: {note}")
    if plan.stops:
        stops = StopMatcher(CompiledStops(plan.stops, engine, plan), entry=begin.entry)
        if stops.feed((path.path.tokens or ())[:-1]) is not None:
            return RowLanding(None, "the answer may be cut: the shortest answer found contains a stop sequence")
    return RowLanding((MaskLanding if in_masks else LandingControl)(path, max_tokens, options))


def shortest_output(plan: Plan, engine: Engine, *, entry: str = "fresh") -> tuple[int, ...]:
    """Return the tokens of the shortest output found; raises `LimitExceeded` with the reason where none is."""
    start = _start(plan, engine, entry)
    if start.path is None or start.reason:
        raise LimitExceeded(start.reason, place="plan", hint="require fewer values")
    return tuple(start.path.path.tokens or ())
