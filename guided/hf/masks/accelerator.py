"""Masks on an accelerator for one call of ``generate``: transfers between host and device that never wait.

Masks, with the ids that would end each row, are sent in one transfer from pinned memory.  The device finds which rows
have ended, and counts overridden and rescued steps; the counts are read when they are needed.  The newest tokens are
copied back before ``generate`` itself waits for the device (its stop test), so that they have arrived when the next
mask needs them.

Each operation on the device is a launch, some 5 us of the host: what the host knows of a row is sent with its mask, and
numbers in ``torch.where`` are tensors that are on the device already, because torch would fill a new one each time.
"""

from __future__ import annotations

import math
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
        places = torch.arange(8, dtype=torch.uint8, device=device)
        self._bits = torch.ones(8, dtype=torch.uint8, device=device) << places
        self._numbers: dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]] = {}  # -inf and `RESCUE`
        self._counts = torch.zeros((2, num_rows), dtype=torch.int32, device=device)
        self._effects: torch.Tensor | None = None  # of the last masks, bool [rows, 3]: overridden, rescued, NaN
        self._packed: torch.Tensor | None = None
        self._unsound: torch.Tensor | None = None  # rows of the last step with NaN that the host has not read yet
        self._sent: torch.Tensor | None = None  # keeps the host's memory alive while it is being copied
        self._arriving: tuple[Seen, torch.Tensor, Any] | None = None

    # -- masks

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], done: Sequence[bool]) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` on this device."""
        width, dtype = scores.shape[-1], scores.dtype
        if width < 32 * self._num_words:
            _check_width(masks, width)
        self._sent = self._pack(masks, done, width, dtype)
        packed = self._packed = self._sent.to(self.device, non_blocking=True)
        flag, index = packed[:, -1:], packed[:, -2:-1]
        bound = packed[:, -5:-4].view(torch.float32)
        highest, score = packed[:, -4:-2].view(torch.float32).to(dtype).split(1, dim=-1)
        forbidden, rescue = self._numbers_of(dtype)
        allowed = self._allowed(packed, width)
        masked = torch.where(allowed & (scores == scores), scores, forbidden)  # without NaN
        best = masked.amax(dim=-1, keepdim=True)
        top = scores.amax(dim=-1, keepdim=True)  # NaN where any score is
        dead = best <= bound
        imposed = torch.where(allowed, rescue, forbidden).scatter_(1, index.long(), score)
        out = torch.where(dead, imposed, masked)
        has_nan = top != top
        effects = torch.cat([top > torch.where(dead, highest, best), dead > has_nan, has_nan], dim=-1)
        self._effects = effects & (flag == _MASKED)
        self._unsound = self._effects[:, 2]
        self._counts += self._effects[:, :2].T
        return out if len(masks) == self._num_rows else torch.where(bound.isnan(), scores, out)

    def _pack(self, masks: Sequence[RowMask], done: Sequence[bool], width: int, dtype: torch.dtype) -> torch.Tensor:
        """Return int32 ``[rows, n]`` on the host, all that the device needs of each row.

        Mask words; open end ids (-1 where there are fewer); three floats and an id for a row that no score is left to,
        and the flag.  The floats: the best score up to which that is so, NaN in a row without a mask; the highest score
        that it gets then; that of the id.
        """
        words, first = self._num_words, self._num_words + self._num_ends
        host = host_buffer((self._num_rows, first + 5), torch.int32, self.device)
        rows = host.numpy()
        rows[:, words:first] = -1
        floats = np.full((self._num_rows, 3), np.nan, dtype=np.float32)
        ids, flags = [0] * self._num_rows, [_DONE if flag else _FREE for flag in done]
        least = max(lowest(dtype), float(np.finfo(np.float32).min))
        for mask in masks:
            at, ends = mask.row, mask.ends
            rows[at, :words] = mask.words
            flags[at] = _IMPOSED if mask.is_imposed else _ENDED if mask.has_ended else _MASKED
            bound = math.inf if mask.is_imposed else least
            if ends and ends[0] < width:
                ids[at], floats[at] = ends[0], (bound, RESCUE / 2, RESCUE / 2)
            else:
                floats[at] = bound, RESCUE, RESCUE if mask.words[0] & 1 else -math.inf
            if flags[at] == _MASKED:
                rows[at, words : words + len(ends)] = ends
        rows[:, first : first + 3] = floats.view(np.int32)
        rows[:, -2], rows[:, -1] = ids, flags
        return host

    def _numbers_of(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        found = self._numbers.get(dtype)
        if found is None:
            made = [torch.full((), number, dtype=dtype, device=self.device) for number in (-math.inf, RESCUE)]
            found = self._numbers[dtype] = made[0], made[1]
        return found

    def _allowed(self, packed: torch.Tensor, width: int) -> torch.Tensor:
        """The masks as bool ``[rows, width]``: a byte for each token on the way, not a number."""
        words = packed[:, : self._num_words].view(torch.uint8)
        bits = (words.unsqueeze(-1) & self._bits).view(len(packed), -1)[:, :width] != 0
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
        ends = self._packed[:, self._num_words : self._num_words + self._num_ends]
        return (ends == newest[:, None]).any(dim=-1) | (self._packed[:, -1] >= _IMPOSED) | self._unsound

    @property
    def can_end(self) -> bool:
        """Whether a step was masked here and `ended` was not called for it yet."""
        return self._packed is not None and self._arriving is None

    def _fetch(self, input_ids: torch.Tensor, newest: torch.Tensor) -> None:
        assert self._unsound is not None
        host = host_buffer((self._num_rows,), torch.int64, self.device)
        host.copy_(torch.where(self._unsound, ~newest, newest), non_blocking=True)  # 8 bytes a row
        event = _event(self.device)
        event.record()
        self._arriving = (Seen(input_ids), host, event)

    def newest(self, input_ids: torch.Tensor | None = None) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """Wait for the copy that `ended` started and return it, once; None if ``input_ids`` is another history.

        The tokens, int64 ``[rows]``, and which rows' scores were NaN, bool ``[rows]``.
        """
        if self._arriving is None:
            return None
        seen, host, event = self._arriving
        self._arriving = None
        if input_ids is not None and not seen.is_same(input_ids):
            return None
        event.synchronize()
        self._unsound = None
        sent = host.numpy()
        unsound = sent < 0
        return np.where(unsound, ~sent, sent), unsound

    def take_unsound(self) -> torch.Tensor | None:
        """Return the rows whose scores were NaN in the last step, bool ``[rows]`` on the device, once.

        None if `newest` has already reported them.
        """
        unsound, self._unsound = self._unsound, None
        return unsound

    def effects(self) -> torch.Tensor:
        """Return the effects of the last masks, int64 ``[3, rows]`` on the device: overridden, rescued, NaN."""
        assert self._effects is not None
        return self._effects.T.to(torch.int64)

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
