"""The stop matcher of one row: finds a stop sequence on the very token that completes it.

What a token completes or begins, `guided.stops.compiled` knows.  The matcher keeps one state per token, so a rollback
drops states and a fork copies a list.

Of two stops the one that is complete at the earlier byte wins, of two at the same byte the one that began first:
the only rule whose answer does not depend on how text is split into tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grammars.plan.plan import Stops
from guided.stops.compiled import CompiledStops, CompletedStop, SearchState
from guided.tracking.commit_log import num_common
from guided.tracking.regions import Move
from special_tokens.errors import GuidanceError

__all__ = ["StopHit", "StopMatcher"]


@dataclass(frozen=True, slots=True)
class StopHit:
    """A completed stop.

    ``reason`` is the stop itself: its text, its token id or the source of the pattern.  ``num_tokens`` tokens were
    read, the completing one included.  The text before the stop is ``before`` whole tokens and ``before_bytes`` bytes
    of the next; with the stop it is ``until`` tokens and ``until_bytes`` bytes.
    """

    reason: str | int
    num_tokens: int
    before: int
    before_bytes: int
    until: int
    until_bytes: int


class StopMatcher:
    """The stops of one row, fed with the tokens that the row generates.

    `feed` reads one or several tokens; `rollback` undoes them exactly; `fork` returns an independent copy.
    """

    __slots__ = ("_compiled", "_states", "_tokens", "hit")

    def __init__(self, compiled: CompiledStops, *, entry: str = "fresh") -> None:
        self._compiled = compiled
        self._states: list[SearchState] = [compiled.begin(entry)]
        self._tokens: list[int] = []
        self.hit: StopHit | None = None

    @property
    def stops(self) -> Stops:
        return self._compiled.stops

    @property
    def num_tokens(self) -> int:
        """Tokens read so far."""
        return len(self._tokens)

    @property
    def is_stopped(self) -> bool:
        return self.hit is not None

    @property
    def held_bytes(self) -> int:
        """Number of bytes at the end of the text that may become part of a stop, so must not be shown yet."""
        return 0 if self.hit is not None else self._compiled.held_bytes(self._states[-1])

    def feed(self, tokens: Iterable[int]) -> StopHit | None:
        """Read ``tokens`` up to and including the one that completes a stop; the rest is not read."""
        for token in tokens:
            if self.push(token) is not None:
                break
        return self.hit

    def push(self, token: int, move: Move | None = None) -> StopHit | None:
        """Read one token.  Raises `GuidanceError` if a stop is already complete.

        ``move``: see `guided.stops.scope.Scope.step`.
        """
        if self.hit is not None:
            raise GuidanceError("the row has stopped", place=f"token {len(self._tokens)}", hint="roll back first")
        state, completed = self._compiled.step(self._states[-1], token, move)
        self._tokens.append(token)
        self._states.append(state)
        if completed is not None:
            self.hit = self._hit(completed)
        return self.hit

    def sync(self, tokens: Sequence[int]) -> StopHit | None:
        """Make ``tokens`` the tokens read: undo what differs, read what is new; nothing is read after a stop."""
        self.rollback(len(self._tokens) - self.num_common(tokens))
        return self.hit if self.hit is not None else self.feed(tokens[len(self._tokens) :])

    def num_common(self, tokens: Sequence[int]) -> int:
        """Return the length of the common prefix of ``tokens`` and the tokens read."""
        return num_common(self._tokens, list(tokens))

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` tokens."""
        if not 0 <= num_tokens <= len(self._tokens):
            most = len(self._tokens)
            raise GuidanceError(f"cannot undo {num_tokens} tokens", place="rollback", expected=f"0 to {most}")
        if num_tokens:
            del self._states[-num_tokens:], self._tokens[-num_tokens:]
            self.hit = None

    def reset(self) -> None:
        """Undo all tokens."""
        self.rollback(len(self._tokens))

    def fork(self) -> StopMatcher:
        """Return an independent copy at the same position."""
        twin = object.__new__(StopMatcher)
        twin._compiled, twin.hit = self._compiled, self.hit
        twin._states, twin._tokens = self._states.copy(), self._tokens.copy()
        return twin

    def _hit(self, completed: CompletedStop) -> StopHit:
        last = len(self._tokens) - 1
        until, until_bytes = self._place(last, completed.end)
        before, before_bytes = self._place(last, completed.end - completed.length)
        return StopHit(completed.reason, last + 1, before, before_bytes, until, until_bytes)

    def _place(self, token: int, offset: int) -> tuple[int, int]:
        """Return byte ``offset`` from the start of token number ``token`` as whole tokens and bytes of the next."""
        size = len(self._compiled.token_bytes(self._tokens[token]))
        while offset < 0:
            token -= 1
            size = len(self._compiled.token_bytes(self._tokens[token]))
            offset += size
        return (token + 1, 0) if offset >= size else (token, offset)
