"""The engine's matcher of one sequence, and the recovery of one that failed.

Matchers of one plan are copies of one compiled grammar and share parts of it: a lock, which a panic in one of them
leaves unusable for all, and the states of one lexer, which one of them can use up.  So a matcher that fails is replaced
by one that is compiled for its sequence alone, and the tokens of the sequence are replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from grammars.plan.plan import Plan
from guided.engine.engine import SIMPLER, Engine, check_matcher
from special_tokens.errors import GuidanceError, LimitExceeded

__all__ = ["RecoveringMatcher"]

_NO_STATES = "no lexer states are left for the text"


class RecoveringMatcher:
    """The engine's matcher of one sequence: ``current`` is at the sequence's position.

    Raises as `guided.engine.engine.Engine.pristine` does.
    """

    __slots__ = ("_engine", "_entry", "_plan", "_shared", "current")

    def __init__(self, plan: Plan, engine: Engine, entry: str) -> None:
        self._plan = plan
        self._engine = engine
        self._entry = entry
        #: the matcher that all sequences of the plan copy; None after a recovery
        self._shared: Any = engine.pristine(plan, entry)
        self.current: Any = self._shared.deep_copy()

    def recover(self, tokens: Sequence[int]) -> None:
        """Replace a failed matcher by one compiled for this sequence alone, after ``tokens``.

        Later requests compile the grammar anew.  Raises `MatcherFailed` or `LimitExceeded` if that matcher fails on the
        tokens as well.
        """
        self._drop_shared()
        self.current = self._engine.compile_private(self._plan, self._entry)
        if tokens:
            self.current.consume_tokens(list(tokens))
        if self.current.is_error():
            place = f"token {len(tokens)}"
            if "satisfy the grammar" in self.current.get_error():  # the tokens did when they were committed
                raise LimitExceeded(f"replaying after an error: {_NO_STATES}", place=place, hint=SIMPLER)
            self.fail("replaying after an error", place)

    def reset(self) -> None:
        """Go back to the beginning; after a failure, with the compiled grammar that new sequences get."""
        if self.current.is_error():
            self._drop_shared()
        if self._shared is None:
            self._shared = self._engine.pristine(self._plan, self._entry)
        self.current = self._shared.deep_copy()

    def _drop_shared(self) -> None:
        if self._shared is not None:
            self._engine.forget(self._plan, self._entry, self._shared)
            self._shared = None

    def fork(self) -> RecoveringMatcher:
        """Return an independent copy at the same position."""
        twin = object.__new__(RecoveringMatcher)
        twin._plan, twin._engine, twin._entry = self._plan, self._engine, self._entry
        twin._shared, twin.current = self._shared, self.current.deep_copy()
        return twin

    def fail(self, doing: str, place: str) -> NoReturn:
        """Raise the error that describes the engine's error state, with ``place``; never returns."""
        try:
            check_matcher(self.current, doing)
        except GuidanceError as error:
            error.place = place
            raise
        raise LimitExceeded(f"{doing}: {_NO_STATES}", place=place, hint=SIMPLER)  # a full lexer sets no error
