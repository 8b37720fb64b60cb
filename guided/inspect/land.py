"""Create the landing control of a row: from the shortest answer of its plan, which is searched once per plan."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from grammars.plan.plan import Plan, RowPlan
from guided.engine.engine import Engine
from guided.inspect.shortest import shortest_output
from guided.landing.byte_classes import Classes
from guided.landing.control import LandingControl, RowLanding
from guided.landing.growth import Growth, growth_bound
from guided.landing.landing import LandingSearch
from guided.landing.options import Budgeting
from guided.rows.sequence import RowSequence
from guided.state.entry import Begin
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, LimitExceeded, RequestError

__all__ = ["row_landing"]

#: Plans whose shortest answers are kept.
_KEPT = 64


class _Start(NamedTuple):
    """The start of the rows of one plan and entry; ``way`` is None if no end was found, for this ``reason``."""

    plan: Plan
    search: LandingSearch | None
    way: tuple[int, ...] | None
    growth: Growth
    reason: str
    classes: Classes


class _Starts:
    """The starts of one engine's plans."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._kept: OrderedDict[tuple[int, str, bool], _Start] = OrderedDict()

    def of(self, plan: Plan, entry: str, max_tokens: int) -> _Start:
        """Return the start of an entry of a plan, with the shortest answer if a quicker search finds a longer one."""
        found = self._once((id(plan), entry, False), lambda: self._searched(plan, entry))
        if found.search is None or (found.way is not None and len(found.way) <= max_tokens):
            return found
        return self._once((id(plan), entry, True), lambda: self._shortest(found, entry))

    def _once(self, key: tuple[int, str, bool], make: Callable[[], _Start]) -> _Start:
        """Return what ``make`` returns for ``key``, or returned before: it does not depend on other requests."""
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = make()
            with self._lock:
                self._kept[key] = found  # it holds the plan, so the id stays its own
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return found

    def _searched(self, plan: Plan, entry: str) -> _Start:
        try:
            search, state = (
                LandingSearch(plan, self._engine, entry=entry),
                GuidanceState(plan, self._engine, entry=entry),
            )
        except GuidanceError as error:
            return _Start(plan, None, None, Growth(0), str(error), Classes())
        classes = Classes()
        landing = search.shortest_end(state, classes=classes)
        size = sum(len(state.regions.symbols(token)) for token in landing.tokens or ())
        return _Start(plan, search, landing.tokens, growth_bound(plan, size), landing.reason, classes)

    def _shortest(self, start: _Start, entry: str) -> _Start:
        """The start with the answer that `guided.inspect.shortest.min_tokens` counts."""
        try:
            tokens = shortest_output(start.plan, self._engine, entry=entry)
        except LimitExceeded as error:
            return start._replace(reason=start.reason or str(error))
        if start.way is not None and len(start.way) <= len(tokens):
            return start
        return start._replace(way=tokens)


def row_landing(
    plan: RowPlan, engine: Engine, begin: Begin, max_tokens: int, budget: Budgeting | None = None
) -> RowLanding:
    """Return the control of a row of at most ``max_tokens`` tokens; none for a row without a plan.

    Raises `RequestError` where these cannot hold the shortest answer that was found, and ``budget`` says so.
    """
    options, must_fit = budget or Budgeting()
    if not isinstance(plan, Plan) or (options is None and not must_fit):
        return RowLanding()
    start = engine.derived(_Starts).of(plan, begin.entry, max_tokens)
    if start.way is not None and len(start.way) > max_tokens:
        least = len(start.way)
        note = f"{max_tokens} tokens cannot hold the shortest answer found, which has {least}"
        if must_fit:
            raise RequestError(note, place="max_tokens", expected=f"at least {least}")
    else:
        note = start.reason
    if options is None:
        return RowLanding()
    if start.search is None or start.way is None or len(start.way) > max_tokens:
        return RowLanding(None, f"the answer may be cut: {note}")
    if plan.stops and _is_stopped(plan, engine, begin, start.way):
        return RowLanding(note="the answer may be cut: the shortest answer found contains a stop sequence")
    growth, classes = start.growth, start.classes
    return RowLanding(LandingControl(start.search, max_tokens, start.way, growth, options, classes))


def _is_stopped(plan: Plan, engine: Engine, begin: Begin, way: tuple[int, ...]) -> bool:
    """Whether a stop sequence of the request ends an answer of these tokens before its end."""
    row = RowSequence(plan, engine, begin=begin)
    row.extend(way[:-1])
    return row.is_done
