"""A row without a plan whose stops we watch: its logits are never touched, only its end is ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grammars.plan import Stops
from guided.compile import Engine
from guided.message import Guidance
from guided.stop import StopMatcher, compile_stops
from special_tokens.errors import GuidedError

__all__ = ["FreeSequence"]


class FreeSequence:
    """The stops of one unguided row, with the verbs of `guided.sequence.RowSequence`."""

    is_guided = False
    error: GuidedError | None = None
    overridden = 0
    on_error = "end"

    def __init__(self, stops: Stops, engine: Engine, *, row: int = 0) -> None:
        self.row = row
        self.stops = StopMatcher(compile_stops(stops, engine))

    @property
    def is_done(self) -> bool:
        """Is a stop complete?"""
        return self.stops.is_stopped

    def fill_bitmask(self, bitmask: NDArray[np.int32], row: int) -> bool:
        """There is never a mask."""
        return False

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
