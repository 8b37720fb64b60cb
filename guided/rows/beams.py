"""The rows that continue one prompt, kept in step with the histories of beam search.

Beam search permutes, duplicates and drops rows at every step, drafts are taken back, and a hook is shown only each
row's history.  For every history a tracker takes the row that shares most tokens with it, rolls it back to the common
prefix, and commits the rest; a row that is the parent of two histories is forked.  No token is committed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence

__all__ = ["BeamTracker", "Row"]

Row: TypeAlias = RowSequence | UnguidedSequence


class BeamTracker:
    """The rows of one prompt; after `sync`, ``rows[i]`` is at history number ``i``."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._numbers = [row.row for row in rows]

    def sync(self, histories: Sequence[Sequence[int]]) -> None:
        """Bring the rows to ``histories``, the tokens after the prompt.

        Raises nothing: a row whose history the grammar refuses has an error until a later `sync` drops it.
        """
        parents = [self._parent(history, i) for i, history in enumerate(histories)]
        taken: set[int] = set()
        order = sorted(range(len(parents)), key=lambda i: parents[i] != i)  # rows that keep their number go first
        rows: dict[int, Row] = {}
        for i in order:
            parent = self.rows[parents[i]]
            rows[i] = parent.fork() if parents[i] in taken else parent
            taken.add(parents[i])
        for i, history in enumerate(histories):
            rows[i].row = self._numbers[i]
            rows[i].sync(history)
        self.rows = [rows[i] for i in range(len(histories))]

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
