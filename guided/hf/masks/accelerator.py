"""Apply masks on an accelerator during one `generate` call, with asynchronous copies between host and device.

Masks, with the ids that would end each row, are sent in one transfer from pinned memory.  The device finds which rows
have ended, and what the masks did.  The newest tokens are copied back, with these effects, before ``generate`` itself
waits for the device (its stop test), so that they have arrived when the next mask needs them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.masks.apply import RESCUE, RowMask, bool_mask, lowest, too_narrow
from guided.hf.masks.transfer import host_buffer

__all__ = ["OVERRIDDEN", "RESCUED", "TOKEN", "UNSOUND", "DeviceLink", "Seen"]

# Each kernel launch costs the host about 5 us.  So what the host knows of a row is sent with its mask, and the
# constants of ``torch.where`` are tensors kept on the device.

#: Flags of a row; a row is inactive from `_FAILED` on.
_UNGUIDED = 0
_GUIDED = 1
_FAILED = 2  # its scores do not count
_GUIDED_ENDED = 3
_UNGUIDED_ENDED = 4
#: The effects of a mask, added to the token of a row: the best score was masked; no legal token had a score; some score
#: was NaN.
OVERRIDDEN, RESCUED, UNSOUND = 1 << 34, 1 << 35, 1 << 36
#: The bits of such a number that are the token.
TOKEN = OVERRIDDEN - 1


class Seen:
    """Recognises a tensor whose contents the host has already read, without reading them again.

    Keeps the tensor alive, so that no other gets its memory.  Writes to an inference tensor go unnoticed.
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
    """Rows ``[rows]`` on one device; ``num_words`` is a mask's width and ``num_ends`` the most ids that end a row.

    The host sends one buffer.  It is rewritten only after the previous step's tokens have arrived.  Per row it holds:
    - the words of its mask,
    - the ids that would end the row, the preferred one first, then -1 up to ``num_ends``,
    - ``rescue_limit``: a row whose best legal score is not a higher is rescued; NaN: no mask,
    - the flag.
    """

    def __init__(self, device: torch.device, num_rows: int, num_words: int, num_ends: int) -> None:
        self.device = device
        self._num_words = num_words
        self._num_rows = num_rows
        self._ends = slice(num_words, num_words + num_ends)
        self._host = host_buffer((num_rows, self._ends.stop + 2), torch.int32, device)
        self._rows: NDArray[np.int32] = self._host.numpy()
        self._sent: list[tuple[int, Sequence[int]] | None] = [None] * num_rows  # flag and ends last written
        self._scores_type: tuple[int, torch.dtype] | None = None  # width and dtype of the scores they are for
        self._has_end = [False] * num_rows  # whether a row may end
        places = torch.arange(8, dtype=torch.uint8, device=device)
        self._bits = torch.ones(8, dtype=torch.uint8, device=device) << places
        self._neg_inf: dict[torch.dtype, torch.Tensor] = {}
        self._packed: torch.Tensor | None = None
        self._scores = self._unsound = torch.empty(0)  # of the last step: the best legal and the best of all scores
        self._is_read = True  # whether the host has read the effects of the last step
        self._tokens = host_buffer((num_rows,), torch.int64, device)
        self._scores_here = self._scores  # the copy of these scores on the host
        self._event: Any = None
        self._arriving: Seen | None = None

    # -- masks

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], done: Sequence[bool]) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` on this device.

        ``done`` says which rows without a mask have ended.
        """
        scores = scores.detach() if scores.requires_grad else scores
        width, dtype = scores.shape[-1], scores.dtype
        if width < 32 * self._num_words:
            for mask in masks:
                if not mask.words[: width >> 5].any() and not bool(bool_mask(mask.words, width).any()):
                    raise too_narrow(mask.row, width)
        self._pack(masks, done, width, dtype)
        packed = self._packed = self._host.to(self.device, non_blocking=True)
        rescue_limit = packed[:, -2:-1].view(torch.float32)
        if dtype not in self._neg_inf:
            self._neg_inf[dtype] = torch.full((), -math.inf, dtype=dtype, device=self.device)
        allowed = self._allowed(packed, width)
        out = torch.where(allowed, scores, self._neg_inf[dtype])
        out.nan_to_num_(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        if self._scores.dtype is not dtype or not self._scores.numel():
            self._scores = out.new_empty((2, self._num_rows))
            self._scores_here = host_buffer(self._scores.shape, dtype, self.device)
        self._is_read = False
        best, top = self._scores
        torch.amax(out, dim=-1, out=best)  # holds no NaN
        torch.amax(scores, dim=-1, out=top)
        dead = best[:, None] <= rescue_limit
        out.masked_fill_(allowed & dead, RESCUE)
        if any(self._has_end):
            end = packed[:, self._ends.start : self._ends.start + 1].long()
            at = end.clamp(min=0)
            out.scatter_(1, at, out.gather(1, at).masked_fill_(dead & (end >= 0), RESCUE / 2))
        self._unsound = top != top  # NaN where any score is
        if not all(self.is_guided):
            self._unsound &= packed[:, -1] == _GUIDED
        return out if len(masks) == self._num_rows else torch.where(rescue_limit.isnan(), scores, out)

    def _pack(self, masks: Sequence[RowMask], done: Sequence[bool], width: int, dtype: torch.dtype) -> None:
        """Write what the device must know of each row; in most steps only masks have changed."""
        if self._scores_type != (width, dtype):
            self._scores_type, self._sent = (width, dtype), [None] * self._num_rows
        sent = self._sent
        for mask in masks:
            row = mask.row
            self._rows[row, : self._num_words] = mask.words
            flag = _FAILED if mask.is_imposed else _GUIDED_ENDED if mask.has_ended else _GUIDED
            if sent[row] != (flag, mask.ends):
                sent[row] = flag, mask.ends
                least = max(lowest(dtype), float(np.finfo(np.float32).min))
                ends = [end if end < width else -1 for end in mask.ends]  # `apply` scatters to the first
                self._note(row, flag, math.inf if mask.is_imposed else least, ends)
        if len(masks) < self._num_rows:
            for row in set(range(self._num_rows)).difference(mask.row for mask in masks):
                flag = _UNGUIDED_ENDED if done[row] else _UNGUIDED
                if sent[row] != (flag, ()):
                    sent[row] = flag, ()
                    self._note(row, flag, math.nan, ())

    def _note(self, row: int, flag: int, rescue_limit: float, ends: Sequence[int]) -> None:
        """Write the ends, the rescue limit and the flag of a row."""
        numbers = self._rows[row]
        numbers[self._ends] = -1
        numbers[self._ends.start : self._ends.start + len(ends)] = ends
        numbers[-2:-1].view(np.float32)[0], numbers[-1] = rescue_limit, flag
        self._has_end[row] = bool(ends) and ends[0] >= 0

    def _allowed(self, packed: torch.Tensor, width: int) -> torch.Tensor:
        """Return the masks as bool ``[rows, width]``; no temporary takes more than a byte for each token."""
        words = packed[:, : self._num_words].view(torch.uint8)
        bits = (words.unsqueeze(-1) & self._bits).view(len(packed), -1)[:, :width] != 0
        return torch.nn.functional.pad(bits, (0, width - bits.shape[1])) if bits.shape[1] < width else bits

    # -- ends and tokens

    def ended(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return which rows have ended: by their newest token, by NaN scores, or earlier.

        ``input_ids`` int64 ``[rows, length]`` ends with the tokens chosen from the scores that `apply` returned last.
        Also starts the copy of these tokens to the host.  The result is bool ``[rows]`` on the device.
        """
        assert self._packed is not None
        newest = input_ids[:, -1]
        self._tokens.copy_(newest, non_blocking=True)  # 8 bytes a row, and two scores
        self._scores_here.copy_(self._scores, non_blocking=True)
        self._event = self._event or _event(self.device)
        self._event.record()
        self._arriving = Seen(input_ids)
        ended = (self._packed[:, self._ends] == newest[:, None]).any(dim=-1) | self._unsound
        return ended | (self._packed[:, -1] >= _FAILED) if any(map(self._is_inactive, self._sent)) else ended

    @staticmethod
    def _is_inactive(sent: tuple[int, Sequence[int]] | None) -> bool:
        return sent is not None and sent[0] >= _FAILED

    @property
    def is_guided(self) -> list[bool]:
        """Whether the last masks were those of each row: then their effects count."""
        return [sent is not None and sent[0] == _GUIDED for sent in self._sent]

    @property
    def can_end(self) -> bool:
        """Whether a step was masked here and `ended` was not called for it yet."""
        return self._packed is not None and self._arriving is None

    def newest(self, input_ids: torch.Tensor | None = None) -> list[int] | None:
        """Wait for the copy that `ended` started; return, once, the tokens of all rows as `mark` does.

        None if ``input_ids`` is another history.
        """
        seen, self._arriving = self._arriving, None
        if seen is None or (input_ids is not None and not seen.is_same(input_ids)):
            return None
        self._event.synchronize()
        self._is_read = True
        best, top = self._scores_here.double().numpy()
        dead = best <= self._rows[:, -2].view(np.float32)
        highest = np.where(dead, np.where(self._has_end, RESCUE / 2, RESCUE), best)
        effects = OVERRIDDEN * (top > highest) + RESCUED * (dead & (top == top)) + UNSOUND * (top != top)
        marked: list[int] = (self._tokens.numpy() + effects).tolist()
        return marked

    def take_effects(self) -> torch.Tensor | None:
        """Return what `mark` adds to the tokens of the last step, on the device, once.

        None if `newest` has already reported it.
        """
        if self._is_read:
            return None
        self._is_read = True
        return self.mark(torch.zeros(self._num_rows, dtype=torch.int64, device=self.device))

    def mark(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add the effect flags of the last masks to ``tokens`` int64 ``[rows]``.  Call only if some row had a mask."""
        assert self._packed is not None
        best, top = self._scores
        dead = best <= self._packed[:, -2].view(torch.float32)
        highest = best.masked_fill(dead, RESCUE)
        if any(self._has_end):
            highest.masked_fill_(dead & (self._packed[:, self._ends.start] >= 0), RESCUE / 2)
        for flagged, effect in ((top > highest, OVERRIDDEN), (dead > self._unsound, RESCUED), (self._unsound, UNSOUND)):
            tokens = torch.add(tokens, flagged, alpha=effect)
        return tokens


def _event(device: torch.device) -> Any:
    return torch.Event(device=device)
