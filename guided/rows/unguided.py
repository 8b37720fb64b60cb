"""A row without a plan whose stops we watch: its logits are never touched, only its end is ours."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.plan.plan import Stops
from guided.engine.engine import Engine
from guided.output.message import Guidance
from guided.stops.automaton import compile_stops
from guided.stops.matcher import StopMatcher
from special_tokens.errors import GuidedError

__all__ = ["FreeSequence"]


class FreeSequence:
    """The stops of one unguided row, with the verbs of `guided.rows.sequence.RowSequence`."""

    is_guided = False
    has_failed = False
    ends_by_id = False
    error: GuidedError | None = None
    overridden = 0
    rescued = 0
    on_error = "end"

    def __init__(self, stops: Stops, engine: Engine, *, row: int = 0) -> None:
        self.row = row
        self.stops = StopMatcher(compile_stops(stops, engine))

    @property
    def is_done(self) -> bool:
        """Is a stop complete?"""
        return self.stops.is_stopped

    def mask(self) -> None:
        """There is never a mask."""

    def open_end_ids(self) -> tuple[int, ...]:
        """No id ends the row by our doing."""
        return ()

    def ends_with(self, token: int) -> bool:
        """Would a stop be complete after ``token``?"""
        return self.is_done or self.stops.fork().push(token) is not None

    @property
    def num_tokens(self) -> int:
        """Tokens read so far; what follows a stop is not read."""
        return self.stops.num_tokens

    def num_common(self, generated: Sequence[int]) -> int:
        """How many tokens ``generated`` and what was read begin with in common."""
        return self.stops.num_common(generated)

    def is_at(self, generated: Sequence[int]) -> bool:
        """Is the row where ``generated`` leads, what follows a stop apart?"""
        same = self.num_common(generated)
        return same == self.num_tokens and (self.is_done or same == len(generated))

    def extend(self, tokens: Sequence[int]) -> None:
        """Read ``tokens``, which continue what was read; those behind the stop are padding."""
        if not self.is_done:
            self.stops.feed(tokens)

    def sync(self, generated: Sequence[int]) -> None:
        """Bring the stops to ``generated``, the tokens after the prompt: undo what differs, read what is new."""
        self.stops.sync(generated)

    def restart(self) -> None:
        """Back to the beginning, as if nothing had been written."""
        self.stops.reset()

    def fork(self) -> FreeSequence:
        """An independent copy at the same place."""
        twin = object.__new__(FreeSequence)
        twin.row, twin.stops = self.row, self.stops.fork()
        return twin

    def guidance(self) -> Guidance:
        """Nothing was guided."""
        return Guidance()
