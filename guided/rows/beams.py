"""The rows that continue one prompt, followed through whatever a search does with them.

Beam search permutes, duplicates and drops rows at every step, drafts are taken back, and a
hook sees nothing but each row's history.  A tracker finds for every history the row that shares most of it and goes on
from there: taken back by what differs, copied if two histories have one parent.  Nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence

__all__ = ["BeamTracker", "Row"]

Row: TypeAlias = RowSequence | UnguidedSequence


class BeamTracker:
    """One row per history that the search shows; ``rows[i]`` is at the i-th history of the last `sync`."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._numbers = [row.row for row in rows]

    def sync(self, histories: Sequence[Sequence[int]]) -> list[int]:
        """Bring the rows to ``histories``, the tokens after the prompt; return which row became the parent of each.

        Raises nothing: a history that the grammar refuses leaves its row with an error until it is abandoned.
        """
        parents = [self._parent(history, i) for i, history in enumerate(histories)]
        taken: set[int] = set()
        order = sorted(range(len(parents)), key=lambda i: parents[i] != i)  # rows that may stay where they are go first
        rows: dict[int, Row] = {}
        for i in order:
            parent = self.rows[parents[i]]
            rows[i] = parent.fork() if parents[i] in taken else parent
            taken.add(parents[i])
        for i, history in enumerate(histories):
            rows[i].row = self._numbers[i]
            rows[i].sync(history)
        self.rows = [rows[i] for i in range(len(histories))]
        return parents

    def at(self, history: Sequence[int]) -> Row:
        """Return an independent row brought to ``history``."""
        row = self.rows[self._parent(history, 0)].fork()
        row.sync(history)
        return row

    def _parent(self, history: Sequence[int], prefer: int) -> int:
        """Return the number of the row that shares most of ``history`` and goes least beyond it."""
        rows = self.rows
        if len(rows) == 1:
            return 0

        def likeness(i: int) -> tuple[int, int, bool]:
            same = rows[i].num_common(history)
            return same, same - rows[i].num_tokens, i == prefer

        return max(range(len(rows)), key=likeness)
