"""The masks of the rows in one step of the decode loop: applied to the scores, their effects counted in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.bitmask import num_words
from guided.engine.engine import Engine
from guided.hf.masks.accelerator import DeviceLink
from guided.hf.masks.apply import RowMask
from guided.hf.masks.cpu import HostLink
from guided.hf.masks.logits_check import not_numbers
from guided.rows.answer import RowAnswer
from guided.rows.sequence import RowSequence

__all__ = ["RowMasks"]


class RowMasks:
    """Masks scores ``[rows, vocab]``; which rows these are may change from step to step."""

    def __init__(self, engine: Engine, device: torch.device) -> None:
        self._engine = engine
        self._device = device
        self._host = HostLink() if device.type == "cpu" else None
        self._link: DeviceLink | None = None
        self._shape = (0, 0)
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
        return self._device_link(len(rows)).apply(scores, self._masks, [False] * len(rows))

    def _device_link(self, num_rows: int) -> DeviceLink:
        most = max(len(mask.ends) for mask in self._masks)
        if self._link is None or self._shape[0] != num_rows or self._shape[1] < most:
            self._shape = (num_rows, max(most, self._shape[1], 1))
            self._link = DeviceLink(self._device, num_rows, num_words(self._engine.vocab_size), self._shape[1])
        return self._link

    def effects(self) -> torch.Tensor | None:
        """Return the effects of the last masks, int64 ``[3, rows]`` on the device: overridden, rescued, NaN.

        None if the host has them already.  The caller copies them to the host with the tokens, for `count`.
        """
        return self._link.effects() if self._link is not None and self._masks else None

    def count(self, rows: Sequence[RowAnswer], effects: Sequence[Sequence[int]] | None) -> None:
        """Count the effects of the masks in ``rows``; a row that had no sound scores fails."""
        for mask in self._masks:
            sequence = rows[mask.row].sequence
            assert isinstance(sequence, RowSequence)
            if effects is not None:
                mask.overridden, mask.rescued, mask.unsound = (bool(part[mask.row]) for part in effects)
            if mask.unsound or mask.error is not None:
                sequence.fail(mask.error or not_numbers(f"row {sequence.row}"))
            else:
                sequence.overridden += mask.overridden
                sequence.rescued += mask.rescued
        self._masks = []
