"""Budgets of regions, and the tokens that close a region whose budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grammars.plan.plan import Budget
from guided.tracking.history import Trail
from guided.tracking.regions import RegionMap

__all__ = ["Closings"]


class Closings:
    """The budgets of one plan.  Immutable; share it."""

    def __init__(self, budgets: Sequence[Budget], regions: RegionMap, tokenize: Callable[[str], Sequence[int]]) -> None:
        self._budgets = {budget.region: budget for budget in budgets}
        self._regions = regions
        self._tokenize = tokenize

    def is_spent(self, trail: Trail) -> bool:
        """Has the region in which the next token begins used up its budget?"""
        budget = self._budgets.get(trail.region)
        return budget is not None and trail.count >= budget.max_tokens

    def forced(self, trail: Trail, matcher: Any) -> tuple[int, ...]:
        """Tokens that close a region whose budget is spent, from the next one on; () where none is."""
        closing = trail.closing
        if closing:
            return closing
        if not self.is_spent(trail):
            return ()
        close = self._tokens(self._budgets[trail.region], trail)
        # Inside a character that needs several tokens the close is refused: at most three tokens over.
        return close if int(matcher.validate_tokens(list(close))) == len(close) else ()

    def _tokens(self, budget: Budget, trail: Trail) -> tuple[int, ...]:
        """The tokens of what is still missing of the closing marker."""
        done = self._regions.matched(trail.position)
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
