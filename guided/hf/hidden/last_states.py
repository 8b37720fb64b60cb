"""The hidden states around the last token of each row, taken from the forwards of the decode loop.

The states of a forward are still in memory when its tokens have been chosen.  So only the states of rows that have just
ended are copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.hf.masks.transfer import on_device

__all__ = ["LastStates"]


class LastStates:
    """The states of the rows of one run, by row number."""

    def __init__(self) -> None:
        #: by row number and position: float ``[hidden size]``
        self._states: dict[tuple[int, int], torch.Tensor] = {}

    def take(
        self,
        hidden: torch.Tensor | None,
        shown: Sequence[tuple[int, int]],
        kept: Sequence[int],
        ended: Sequence[tuple[int, int] | None],
    ) -> None:
        """Copy the states of the last tokens of the rows that have ended.

        ``hidden`` float ``[rows, columns, hidden size]`` are the states of a forward.  Row ``i`` had ``shown[i][0]``
        tokens after it, of which the last ``shown[i][1]`` have columns, and the first ``kept[i]`` were kept.
        ``ended[i]`` is the row's number and its count of tokens, prompt and answer; None if the row goes on.
        """
        if hidden is None:
            return
        names: list[tuple[int, int]] = []
        places: list[tuple[int, int]] = []
        for i, ((fed, columns), right, row) in enumerate(zip(shown, kept, ended, strict=True)):
            for position in (row[1] - 2, row[1] - 1) if row is not None else ():
                if row is not None and fed - columns <= position < right:
                    names.append((row[0], position))
                    places.append((i, hidden.shape[1] - fed + position))
        if names:
            rows, at = (on_device(list(part), torch.long, hidden.device) for part in zip(*places, strict=True))
            self._states |= dict(zip(names, hidden[rows, at], strict=True))

    def around(self, number: int, position: int) -> torch.Tensor | None:
        """Return the states float ``[2, hidden size]`` before and at ``position`` of a row; None if one is missing."""
        pair = [self._states.get((number, place)) for place in (position - 1, position)]
        states = [state for state in pair if state is not None]
        return torch.stack(states) if len(states) == 2 else None
