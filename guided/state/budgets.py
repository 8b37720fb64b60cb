"""Budgets of regions, and the tokens that close a region whose budget is used up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grammars.plan.plan import Budget
from guided.tracking.commit_log import CommitLog
from guided.tracking.regions import RegionMap

__all__ = ["BudgetEnforcer"]


class BudgetEnforcer:
    """The budgets of one plan.  Immutable; share it."""

    def __init__(self, budgets: Sequence[Budget], regions: RegionMap, tokenize: Callable[[str], Sequence[int]]) -> None:
        self._budgets = {budget.region: budget for budget in budgets}
        self._regions = regions
        self._tokenize = tokenize

    def is_spent(self, log: CommitLog) -> bool:
        """Whether the region in which the next token begins has used up its budget."""
        budget = self._budgets.get(log.region)
        return budget is not None and log.count >= budget.max_tokens

    def closing_tokens(self, log: CommitLog, matcher: Any) -> tuple[int, ...]:
        """Return the tokens that must come next to close a region whose budget is used up; () if none is."""
        closing = log.closing_tokens
        if closing:
            return closing
        if not self.is_spent(log):
            return ()
        close = self._tokens(self._budgets[log.region], log)
        # The marker cannot come inside a character of several tokens: the budget is then exceeded by at most three.
        return close if int(matcher.validate_tokens(list(close))) == len(close) else ()

    def _tokens(self, budget: Budget, log: CommitLog) -> tuple[int, ...]:
        """Return the tokens of the part of the closing marker that is still missing."""
        done = self._regions.matched(log.position)
        out: list[int] = []
        for piece in budget.close:
            if isinstance(piece, int):
                if done:
                    done -= 1
                else:
                    out.append(piece)
                continue
            data = piece.encode("utf-8")
            out += self._tokenize(data[done:].decode("utf-8", "ignore"))
            done = max(0, done - len(data))
        return tuple(out)
