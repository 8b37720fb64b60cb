"""The masks of the rows in one step of the decode loop: applied to the scores, their effects counted in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.bitmask import num_words
from guided.engine.engine import Engine
from guided.hf.masks.accelerator import OVERRIDDEN, RESCUED, UNSOUND, DeviceLink
from guided.hf.masks.apply import RowMask, not_numbers
from guided.hf.masks.cpu import HostLink
from guided.rows.answer import RowAnswer
from guided.rows.sequence import RowSequence

__all__ = ["RowMasks"]

_EFFECTS = (OVERRIDDEN, RESCUED, UNSOUND)


class RowMasks:
    """Masks scores ``[rows, vocab]``; which rows these are may change from step to step."""

    def __init__(self, engine: Engine, device: torch.device) -> None:
        self._engine = engine
        self._device = device
        self._host = HostLink() if device.type == "cpu" else None
        self._link: DeviceLink | None = None
        self._shape = (0, 0)  # rows of the link, and the most ends of one
        self._masks: list[RowMask] = []

    def apply(self, scores: torch.Tensor, rows: Sequence[RowAnswer | None], *, in_place: bool) -> torch.Tensor:
        """Return the scores under the masks of ``rows``; an unguided row, and one that is None here, keeps its own.

        With ``in_place`` the masks are written into the scores themselves.
        """
        self._masks = []
        for i, row in enumerate(rows):
            mask = row.token_mask() if row is not None else None
            if mask is not None:
                self._masks.append(RowMask(i, mask.words, mask.end_ids, only=mask.forced))
        if not self._masks:
            return scores
        if self._host is not None:
            return self._host.apply(scores, self._masks, in_place=in_place)
        shape = len(rows), max(1, *(len(mask.ends) for mask in self._masks))
        if self._link is None or shape[0] != self._shape[0] or shape[1] > self._shape[1]:
            self._link, self._shape = (
                DeviceLink(self._device, shape[0], num_words(self._engine.vocab_size), shape[1]),
                shape,
            )
        return self._link.apply(scores, self._masks, [False] * len(rows))

    def mark(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return ``tokens`` int64 ``[rows]`` with the effects of the last masks that are on the device, for `count`."""
        return self._link.mark(tokens) if self._link is not None and self._masks else tokens

    def count(self, rows: Sequence[RowAnswer], marked: Sequence[int]) -> None:
        """Count the effects of the masks in ``rows``; a row that had no sound scores fails.

        ``marked`` are the tokens of `mark` on the host.
        """
        for mask in self._masks:
            sequence = rows[mask.row].sequence
            assert isinstance(sequence, RowSequence)
            if self._host is None:
                effects = marked[mask.row]
                mask.overridden, mask.rescued, mask.unsound = (bool(effects & effect) for effect in _EFFECTS)
            if mask.unsound or mask.error is not None:
                sequence.fail(mask.error or not_numbers(f"row {sequence.row}"))
            else:
                sequence.overridden += mask.overridden
                sequence.rescued += mask.rescued
        self._masks = []
