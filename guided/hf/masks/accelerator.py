"""Masks on an accelerator for one call of ``generate``: transfers between host and device that never wait.

Masks, with the ids that would end each row, are sent in one transfer from pinned memory.  The device finds which rows
have ended, and counts overridden and rescued steps; the counts are read when they are needed.  The newest tokens are
copied back before ``generate`` itself waits for the device (its stop test), so that they have arrived when the next
mask needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.masks.apply import RESCUE, RowMask, bool_mask, lowest
from guided.hf.masks.transfer import host_buffer
from special_tokens.errors import ModelError

__all__ = ["DeviceLink", "Seen"]

#: The flags of a row: unguided; masked; failed, so that its scores do not count; guided and ended; unguided and ended.
_FREE, _MASKED, _IMPOSED, _ENDED, _DONE = range(5)


class Seen:
    """A tensor of token histories that was read, recognised without reading it again.

    Keeps the tensor alive, so that no other tensor gets its memory.
    """

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._version = _version(tensor)

    def is_same(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` is this one or another view of it, and was not written to since."""
        mine = self._tensor
        if tensor is not mine and (
            tensor.shape != mine.shape or tensor.data_ptr() != mine.data_ptr() or tensor.stride() != mine.stride()
        ):
            return False
        return _version(tensor) == self._version


def _version(tensor: torch.Tensor) -> int:
    """Return how often the memory was written to; -1 for inference tensors, which torch does not count writes to."""
    return -1 if tensor.is_inference() else int(tensor._version)


class DeviceLink:
    """Rows ``[rows]`` on one device; ``num_words`` is a mask's width and ``num_ends`` the most ids that end a row."""

    def __init__(self, device: torch.device, num_rows: int, num_words: int, num_ends: int) -> None:
        self.device = device
        self._num_words = num_words
        self._num_ends = num_ends
        self._num_rows = num_rows
        self._shifts = torch.arange(32, dtype=torch.int32, device=device)
        self._counts = torch.zeros((2, num_rows), dtype=torch.int32, device=device)
        self._step: torch.Tensor | None = None  # effects of the last masks (overridden, rescued), int32 [2, rows]
        self._packed: torch.Tensor | None = None
        self._unsound: torch.Tensor | None = None  # rows of the last step with NaN that the host has not read yet
        self._sent: torch.Tensor | None = None  # keeps the host's memory alive while it is being copied
        self._arriving: tuple[Seen, torch.Tensor, Any] | None = None

    # -- masks

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], done: Sequence[bool]) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` on this device."""
        if scores.shape[-1] < 32 * self._num_words:
            _check_width(masks, scores.shape[-1])
        self._sent = self._pack(masks, done)
        packed = self._packed = self._sent.to(self.device, non_blocking=True)
        flags = packed[:, -1:]
        guided = (flags != _FREE) & (flags != _DONE)
        allowed = self._allowed(packed, scores.shape[-1])
        masked = torch.where(allowed & ~scores.isnan(), scores, float("-inf"))
        best = masked.amax(dim=-1, keepdim=True)
        dead = guided & ~(best > lowest(scores.dtype))
        imposed = torch.where(allowed, RESCUE, float("-inf")).to(scores.dtype)
        preferred = packed[:, self._num_words : self._num_words + 1]
        ids = torch.arange(scores.shape[-1], dtype=torch.int32, device=self.device)
        imposed = torch.where(ids == preferred, RESCUE / 2, imposed)
        out = torch.where(dead | (flags == _IMPOSED), imposed, masked)
        top = scores.amax(dim=-1, keepdim=True)  # NaN where any score is
        unsound = (flags == _MASKED) & top.isnan()
        self._unsound = unsound.squeeze(-1)
        overridden = top > out.amax(dim=-1, keepdim=True)
        self._step = (torch.cat([overridden, dead & ~unsound], dim=-1) & (flags == _MASKED)).T.to(torch.int32)
        self._counts += self._step
        return torch.where(guided, out, scores)

    def _pack(self, masks: Sequence[RowMask], done: Sequence[bool]) -> torch.Tensor:
        """Mask words, open end ids (-1 where there are fewer) and the flag of each row, int32 on the host."""
        words = self._num_words
        host = host_buffer((self._num_rows, words + self._num_ends + 1), torch.int32, self.device)
        rows = host.numpy()
        rows[:, words:-1] = -1
        rows[:, -1] = [_DONE if flag else _FREE for flag in done]
        for mask in masks:
            row = rows[mask.row]
            row[:words] = mask.words
            row[words : words + len(mask.ends)] = mask.ends
            row[-1] = _IMPOSED if mask.is_imposed else _ENDED if mask.has_ended else _MASKED
        return host

    def _allowed(self, packed: torch.Tensor, width: int) -> torch.Tensor:
        """The masks as bool ``[rows, width]``."""
        words = packed[:, : self._num_words]
        bits = ((words.unsqueeze(-1) >> self._shifts) & 1).reshape(len(packed), -1)[:, :width] != 0
        return torch.nn.functional.pad(bits, (0, width - bits.shape[1])) if bits.shape[1] < width else bits

    # -- ends and tokens

    def ended(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return which rows the newest tokens or NaN end, bool ``[rows]`` on the device.

        ``input_ids`` int64 ``[rows, length]`` ends with the tokens chosen from the scores that `apply` returned last.
        Also starts the copy of these tokens to the host.
        """
        assert self._packed is not None
        assert self._unsound is not None
        newest = input_ids[:, -1]
        self._fetch(input_ids, newest)
        flags = self._packed[:, -1]
        hit = (self._packed[:, self._num_words : -1] == newest[:, None]).any(dim=-1)
        return (flags >= _IMPOSED) | ((flags == _MASKED) & hit) | self._unsound

    @property
    def can_end(self) -> bool:
        """Whether a step was masked here and `ended` was not called for it yet."""
        return self._packed is not None and self._arriving is None

    def _fetch(self, input_ids: torch.Tensor, newest: torch.Tensor) -> None:
        assert self._unsound is not None
        host = host_buffer((2, self._num_rows), torch.int64, self.device)
        host.copy_(torch.stack([newest, self._unsound.to(torch.int64)]), non_blocking=True)
        event = _event(self.device)
        event.record()
        self._arriving = (Seen(input_ids), host, event)

    def newest(self, input_ids: torch.Tensor | None = None) -> NDArray[np.int64] | None:
        """Wait for the copy that `ended` started and return it, once; None if ``input_ids`` is another history.

        int64 ``[2, rows]``: the tokens, and 1 for the rows whose scores were NaN.
        """
        if self._arriving is None:
            return None
        seen, host, event = self._arriving
        self._arriving = None
        if input_ids is not None and not seen.is_same(input_ids):
            return None
        event.synchronize()
        self._unsound = None
        found: NDArray[np.int64] = host.numpy().copy()
        return found

    def take_unsound(self) -> torch.Tensor | None:
        """Return the rows whose scores were NaN in the last step, bool ``[rows]`` on the device, once.

        None if `newest` has already reported them.
        """
        unsound, self._unsound = self._unsound, None
        return unsound

    def effects(self) -> torch.Tensor:
        """Return the effects of the last masks, int64 ``[3, rows]`` on the device: overridden, rescued, NaN."""
        assert self._step is not None
        assert self._unsound is not None
        return torch.cat([self._step, self._unsound[None]]).to(torch.int64)

    def permute(self, parents: Sequence[int]) -> None:
        """Give row ``i`` the counters of row ``parents[i]``, which it continues."""
        index = torch.tensor(parents, dtype=torch.long).to(self.device, non_blocking=True)
        self._counts = self._counts[:, index]

    def counts(self) -> list[list[int]]:
        """Return the numbers of overridden and of rescued steps, per row; waits for the device."""
        counts: list[list[int]] = self._counts.tolist()
        return counts


def _check_width(masks: Sequence[RowMask], width: int) -> None:
    """Raise `ModelError` for a row all of whose legal tokens lie past the scores: the model is another one."""
    for mask in masks:
        if not bool(bool_mask(mask.words, width).any()):
            raise ModelError(
                f"no token that row {mask.row} may write is within its {width} scores",
                place="logits",
                hint="build the guide with this very model",
            )


def _event(device: torch.device) -> Any:
    return torch.Event(device=device)
