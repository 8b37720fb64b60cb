"""The engine's matcher of one sequence: copied from one that all sequences of a plan share, and made anew with it.

What copies share with each other (a lock, the states of one lexer) can fail in one of them for all.  Then a sequence
goes on with a matcher compiled anew, at the very place where it was; only one whose own text is too much for the
engine ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from grammars.plan.plan import Plan
from guided.engine.engine import Engine, check_matcher, is_spoilt
from special_tokens.errors import GuidanceError, LimitExceeded, MatcherFailed

__all__ = ["Counters", "LiveMatcher"]

_NO_STATES = "no lexer states are left for the text"


@dataclass(slots=True)
class Counters:
    """What was done for one sequence since its last reset.

    ``masks`` are masks computed: asking twice in one place counts once.  ``forced`` are those with one legal token.
    ``revived``: the engine failed in another sequence, and this one went on with a matcher compiled anew.
    """

    masks: int = 0
    commits: int = 0
    rollbacks: int = 0
    repairs: int = 0
    forced: int = 0
    revived: int = 0


class LiveMatcher:
    """``matcher`` stands where the sequence does; ``pristine``, what it is copied from, is never advanced.

    Raises as `guided.engine.engine.Engine.pristine` does.
    """

    __slots__ = ("_engine", "_entry", "_plan", "matcher", "pristine")

    def __init__(self, plan: Plan, engine: Engine, entry: str) -> None:
        self._plan = plan
        self._engine = engine
        self._entry = entry
        self.pristine: Any = engine.pristine(plan, entry)
        self.matcher: Any = self.pristine.deep_copy()

    @property
    def is_spoilt(self) -> bool:
        """Has the matcher failed by what it shares with others?"""
        return is_spoilt(self.matcher)

    @property
    def is_worn(self) -> bool:
        """Has the lexer, which copies share, made as many expressions as it may?"""
        return self.matcher.is_error() and "too many expressions" in self.matcher.get_error()

    def reset(self) -> None:
        """Back to the beginning; what the copies of a matcher share may have failed with it."""
        if self.matcher.is_error():
            self.pristine = self._engine.pristine(self._plan, self._entry, spoilt=self.pristine)
        self.matcher = self.pristine.deep_copy()

    def fork(self) -> LiveMatcher:
        """An independent copy at the same place; it shares what it is copied from."""
        twin = object.__new__(LiveMatcher)
        twin._plan, twin._engine, twin._entry = self._plan, self._engine, self._entry
        twin.pristine, twin.matcher = self.pristine, self.matcher.deep_copy()
        return twin

    def renew(self, tokens: Sequence[int], counters: Counters, *, is_own: bool) -> None:
        """Go on behind ``tokens`` with a matcher compiled anew, one that nobody shares where it ``is_own``."""
        self._renew(counters, is_own)
        self.rebuild(tokens, counters, *() if is_own else (True,))

    def rebuild(self, tokens: Sequence[int], counters: Counters, *ways: bool) -> None:
        """A fresh copy behind ``tokens``: the only way out of the engine's error state.

        Where what it is copied from is spoilt, that is compiled anew in one way after the other: ``is_own`` or not.
        """
        self._replay(tokens)
        for is_own in ways:
            if not self.matcher.is_error():
                break
            self._renew(counters, is_own)
            self._replay(tokens)
        if self.matcher.is_error():
            place = f"token {len(tokens)}"
            if "satisfy the grammar" in self.matcher.get_error():  # which it did when it was written
                raise LimitExceeded(f"replaying after an error: {_NO_STATES}", place=place)
            self.fail("replaying after an error", place)

    def _replay(self, tokens: Sequence[int]) -> None:
        self.matcher = self.pristine.deep_copy()
        if tokens:
            self.matcher.consume_tokens(list(tokens))

    def _renew(self, counters: Counters, is_own: bool) -> None:
        counters.revived += 1
        make = self._engine.unshared if is_own else self._engine.pristine
        self.pristine = make(self._plan, self._entry, spoilt=self.pristine)

    def fail(self, doing: str, place: str) -> NoReturn:
        """Raise what the engine's error state means; never returns."""
        try:
            check_matcher(self.matcher, doing)
        except GuidanceError as error:
            error.place = place
            if isinstance(error, MatcherFailed) or self.is_spoilt:
                self._engine.forget(self._plan, self._entry, self.pristine)  # nobody else begins with what failed
            raise
        raise LimitExceeded(f"{doing}: {_NO_STATES}", place=place)  # the engine is at a loss and gives no reason
