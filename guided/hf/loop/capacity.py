"""The room of a decode loop: rows, cached tokens, and the prompt tokens of a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from guided.hf.drafts.cost import Cost
from guided.hf.loop.loop_row import LoopRow
from special_tokens.errors import RequestError

__all__ = ["Capacity"]

#: Prompt tokens that a step feeds while others run cost this many steps more for each row that waits, at most.
FURTHER_STEPS = 2

#: Sizes of a piece of a prompt, and that of a step without running rows: a newcomer waits for it to end.
PIECES = (16, 32, 48, 64, 96, 128, 192, 256)
IDLE_PIECE = 512


@dataclass(frozen=True)
class Capacity:
    """``rows`` at once, ``cached_tokens`` in the cache; with ``cost``, that of a forward, prompts are fed in pieces.

    ``piece`` fixes the tokens of a piece that is fed with running rows.
    """

    rows: int = sys.maxsize
    cached_tokens: int = sys.maxsize
    cost: Cost | None = None
    piece: int | None = None

    @property
    def is_shared(self) -> bool:
        """Whether rows of several calls share the loop."""
        return self.cost is not None

    def check(self, rows: Sequence[LoopRow]) -> None:
        """Raise `RequestError` for rows that would never get a place."""
        if len(rows) > self.rows:
            raise RequestError(
                f"{len(rows)} answers", place="n", expected=f"at most {self.rows}, the rows that are answered at once"
            )
        longest = max(len(row.pending) for row in rows)
        if longest > self.cached_tokens:
            raise RequestError(
                f"the prompt has {longest} tokens", place="messages",
                expected=f"at most {self.cached_tokens}, which the cache holds",
            )  # fmt: skip

    def prompt_tokens(self, running: int, waiting: int, columns: Callable[[Sequence[int]], int]) -> int:
        """Return the prompt tokens of a step with ``running`` rows, while ``waiting`` rows are fed or could be.

        ``columns`` are those of the cache.
        """
        if self.cost is None:
            return sys.maxsize
        if not running:
            return max(IDLE_PIECE, self.piece or 0)
        if self.piece is not None:
            return self.piece
        most = (1 + FURTHER_STEPS * waiting) * self.cost(columns([1] * running))
        return max((n for n in PIECES if self.cost(columns([1] * running + [n])) <= most), default=PIECES[0])
