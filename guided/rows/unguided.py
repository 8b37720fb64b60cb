"""One unguided row: its logits are never changed, and a complete stop ends it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from grammars.plan.plan import Stops
from guided.engine.engine import Engine
from guided.rows.alone import attempt, row_error
from guided.rows.report import RowReport
from guided.stops.compiled import CompiledStops
from guided.stops.matcher import StopMatcher
from special_tokens.errors import GuidedError

__all__ = ["UnguidedSequence"]


class UnguidedSequence:
    """The stops of one unguided row, with what hosts ask of a `guided.rows.sequence.RowSequence`.

    ``failure`` is an error that was raised while the row was made: it ends the row before its first token.
    """

    is_guided = False
    ends_by_id = False  #: whether only an end token of a plan ends the row; here a stop does
    error: GuidedError | None = None
    overridden = rescued = 0  #: counters of `guided.engine.counters.Guidance`, which stay 0 without a mask
    on_error = "end"
    landing = None  #: its answer is cut at the limit

    def __init__(self, stops: Stops, engine: Engine, *, row: int = 0, failure: BaseException | None = None) -> None:
        self.row = row
        self.stops = StopMatcher(CompiledStops(stops, engine))
        self._failure = failure
        self._begin()

    def _begin(self) -> None:
        self.error = None
        if self._failure is not None:
            self.fail(self._failure)

    @property
    def is_done(self) -> bool:
        """Whether a stop is complete, or the row has failed."""
        return self.stops.is_stopped or self.error is not None

    @property
    def has_failed(self) -> bool:
        """Whether the row has ended because of an error."""
        return self.error is not None

    def fail(self, raised: BaseException) -> None:
        """End the row with what was raised in it; the first error of a row stays."""
        error = row_error(raised, self.row, self.num_tokens)
        self.error = self.error or error

    def ends_with(self, token: int) -> bool:
        """Whether the row would have ended after ``token``; also True if it has ended or failed already."""
        return self.is_done or attempt(self.fail, None, self.stops.fork().push, token) is not None

    @property
    def num_tokens(self) -> int:
        """Number of tokens read so far; those after a stop are not read."""
        return self.stops.num_tokens

    def num_common(self, generated: Sequence[int]) -> int:
        """Return the length of the common prefix of ``generated`` and the tokens read."""
        return self.stops.num_common(generated)

    def is_at(self, generated: Sequence[int]) -> bool:
        """Whether the row has read exactly ``generated``; tokens after a stop do not count."""
        same = self.num_common(generated)
        return same == self.num_tokens and (self.is_done or same == len(generated))

    def extend(self, tokens: Sequence[int]) -> None:
        """Read ``tokens``, which continue the tokens read; those after the stop are padding."""
        if not self.is_done:
            attempt(self.fail, None, self.stops.feed, tokens)

    def validate(self, tokens: Sequence[int]) -> int:
        """Return how many of ``tokens`` the row could read: all, or those up to and including the end of a stop."""
        if self.is_done:
            return 0
        hit = attempt(self.fail, None, self.stops.fork().feed, tokens)
        return len(tokens) if hit is None else hit.num_tokens - self.num_tokens

    def token_mask(self) -> None:
        """Return None: nothing is masked."""

    def is_landing(self) -> bool:
        """Return False: every token may be next."""
        return False

    def forced_run(self, room: int) -> list[int]:
        """Return no tokens: nothing is forced."""
        return []

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` tokens read; raises `GuidanceError` where fewer were read."""
        self.stops.rollback(num_tokens)

    def sync(self, generated: Sequence[int]) -> None:
        """Bring the stops to ``generated``, the tokens after the prompt: undo what differs, read what is new."""
        if self.error is None:
            attempt(self.fail, None, self.stops.sync, generated)

    def restart(self) -> None:
        """Go back to the beginning, as if nothing had been written."""
        self.stops.reset()
        self._begin()

    def fork(self) -> UnguidedSequence:
        """Return an independent copy at the same position."""
        twin = copy(self)
        twin.stops = self.stops.fork()
        return twin

    def report(self) -> RowReport:
        """Return counters of 0, as nothing was guided, and the error."""
        return RowReport(error=self.error)
