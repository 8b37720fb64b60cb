"""Make the row of a plan; an error that is raised while a row is made ends this row and no other."""

from __future__ import annotations

from grammars.plan.plan import RowPlan, Stops, checked_plan
from guided.engine.engine import Engine, checked_engine
from guided.landing.control import RowLanding
from guided.landing.options import Budgeting, checked_max_tokens
from guided.landing.row_landing import row_landing
from guided.rows.sequence import OnError, RowSequence
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin
from special_tokens.errors import GuidedError, PlanError

__all__ = ["make_row"]


def make_row(
    plan: RowPlan,
    engine: Engine,
    *,
    begin: Begin = FRESH,
    max_tokens: int | None = None,
    budget: Budgeting | None = None,
    number: int = 0,
    on_error: OnError = "end",
    max_rollbacks: int | None = None,
    lands_in_masks: bool = False,
) -> RowSequence | UnguidedSequence | None:
    """Return the row of ``plan``, None without one; a row that could not be made has failed.

    Its answer ends within ``max_tokens`` as ``budget`` says; None: there is no limit.  ``lands_in_masks``: the masks
    alone see to that, since the host asks nothing else (see `RowSequence.is_landing`).  A `GuidedError` is raised: the
    caller asked for what cannot be made.
    """
    if plan is None:
        return None
    _check(plan, engine, begin, max_tokens, budget)
    try:
        if isinstance(plan, Stops):
            return UnguidedSequence(plan, engine, row=number)
        landing = RowLanding()
        if max_tokens is not None:
            landing = row_landing(plan, engine, begin, max_tokens, budget, in_masks=lands_in_masks)
        return RowSequence(
            plan,
            engine,
            begin=begin,
            on_error=on_error,
            max_rollbacks=max_rollbacks,
            row=number,
            landing=landing,
        )
    except GuidedError:
        raise
    except BaseException as error:
        return UnguidedSequence(Stops(), engine, row=number, failure=error)


def _check(plan: object, engine: object, begin: object, max_tokens: object, budget: object) -> None:
    """Raise `PlanError` or `RequestError` for values of other types: the caller is at fault, not the row."""
    if not isinstance(plan, Stops):
        checked_plan(plan)
    checked_engine(engine)
    if not isinstance(begin, Begin):
        raise PlanError(f"{type(begin).__name__} is no place", place="begin", expected="what context.begin() gave")
    if max_tokens is not None:
        checked_max_tokens(max_tokens)
    if not isinstance(budget, Budgeting | None):
        raise PlanError(f"{type(budget).__name__} is no budget", place="budget", expected="what budgeting() gave")
