"""Apply masks on an accelerator during one `generate` call, with asynchronous copies between host and device.

Masks, with the ids that would end each row, are sent in one transfer from pinned memory.  The device finds which rows
have ended, and keeps the best scores of each step, from which the host counts overridden and rescued steps when asked.
The newest tokens are copied back before ``generate`` itself waits for the device (its stop test), so that they have
arrived when the next mask needs them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from grammars.plan.plan import SENTINELS
from guided.bitmask import num_words
from guided.hf.masks.apply import RESCUE, RowMask, Words, bool_mask, lowest
from guided.hf.masks.transfer import host_buffer
from guided.state.state import GuidanceState
from special_tokens.errors import ModelError

__all__ = ["OVERRIDDEN", "RESCUED", "UNSOUND", "DeviceLink", "Seen"]

# Each kernel launch costs the host about 5 us.  So what the host knows of a row is sent with its mask, and the
# constants of ``torch.where`` are tensors kept on the device.

#: Flags of a row; a row is inactive from `_FAILED` on.
_UNGUIDED = 0
_GUIDED = 1
_FAILED = 2  # its scores do not count
_GUIDED_ENDED = 3
_UNGUIDED_ENDED = 4
#: Words after those of a mask, for the engine's sentinels.
_ROOM = num_words(SENTINELS)
#: Added to the token of a row whose scores were NaN.
_NAN = -(1 << 40)
#: The effects of a mask, added to the token of a row: the best score was masked; no legal token had a score; some score
#: was NaN.
OVERRIDDEN, RESCUED, UNSOUND = 1 << 34, 1 << 35, 1 << 36


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


class StepScores:
    """The best legal scores and the best of all scores of each step, kept on the device until they are asked for.

    What the host knows of the rows of a step is kept next to them, so that `counts` are worked out on the host.
    """

    def __init__(self, num_rows: int) -> None:
        self._scores: torch.Tensor | None = None  # [steps, 2, rows]
        self._is_masked = np.zeros(num_rows, dtype=np.bool_)
        self._rescue_limit = np.full(num_rows, np.nan)
        self._highest = np.full(num_rows, RESCUE)  # the highest score of a rescued row
        self._flags = np.full(num_rows, _UNGUIDED)
        self._is_new = True  # whether the arrays above have changed since the last step
        #: per step: its row arrays; per reordering: the parent of each row
        self._log: list[tuple[NDArray[Any], ...] | list[int]] = []
        self._num_steps = 0
        self.has_ends = False  #: whether some row could end in the last step
        self.has_inactive = False  #: whether some row had failed, or ended without a token, before it
        self.is_mixed = False  #: whether some row was not masked as usual

    def note(self, row: int, flag: int, rescue_limit: float, has_end: bool) -> None:
        """Note the flag and the rescue limit of a row from the next step on, and whether it has an end."""
        if not self._is_new:
            self._is_masked, self._rescue_limit = self._is_masked.copy(), self._rescue_limit.copy()
            self._highest, self._is_new = self._highest.copy(), True
        self._is_masked[row], self._rescue_limit[row] = flag == _GUIDED, rescue_limit
        self._highest[row] = RESCUE / 2 if has_end else RESCUE
        self._flags[row] = flag

    def add(self, scores: torch.Tensor, masked: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Record one step.  Return each row's best masked score and best raw score (NaN if any raw score is NaN)."""
        if self._is_new:
            self.has_ends = bool((self._highest > RESCUE).any())
            self.has_inactive = bool((self._flags >= _FAILED).any())
            self.is_mixed = not self._is_masked.all()
            self._is_new = False
        kept, number = self._scores, self._num_steps
        if kept is None or number == len(kept) or kept.dtype is not masked.dtype:
            room = masked.new_empty((max(64, number), 2, len(masked)))
            kept = self._scores = room if kept is None else torch.cat([kept[:number].to(room.dtype), room])
        self.last = best, top = kept[number].unbind()
        torch.amax(masked, dim=-1, out=best)  # holds no NaN
        torch.amax(scores, dim=-1, out=top)
        self._log.append((self._is_masked, self._rescue_limit, self._highest))
        self._num_steps += 1
        return best, top

    def permute(self, parents: Sequence[int]) -> None:
        """Row ``i`` continues row ``parents[i]`` from here on."""
        self._log.append(list(parents))

    def counts(self) -> list[list[int]]:
        """Return the numbers of overridden and of rescued steps, per row; waits for the device."""
        counts = np.zeros((2, len(self._flags)), dtype=np.int64)
        scores: Any = [] if self._scores is None else self._scores[: self._num_steps].cpu().double().numpy()
        at = 0
        for marks in self._log:
            if isinstance(marks, list):
                counts = counts[:, marks]
                continue
            is_masked, rescue_limit, highest = marks
            best, top = scores[at]
            dead = best <= rescue_limit
            counts += is_masked & np.stack([top > np.where(dead, highest, best), dead & (top == top)])
            at += 1
        numbers: list[list[int]] = counts.tolist()
        return numbers


class DeviceLink:
    """Rows ``[rows]`` on one device; ``num_words`` is a mask's width and ``num_ends`` the most ids that end a row.

    The host sends one buffer.  It is rewritten only after the previous step's tokens have arrived.  Per row it holds:
    - the words of its mask, which the engine may write there itself (`lend`), and room for its sentinels,
    - the ids that would end the row, the preferred one first, then -1 up to ``num_ends``,
    - ``rescue_limit``: a row whose best legal score is not a higher is rescued; NaN: no mask,
    - the flag.
    """

    def __init__(self, device: torch.device, num_rows: int, num_words: int, num_ends: int) -> None:
        self.device = device
        self._num_words = num_words
        self._num_rows = num_rows
        self._ends = slice(num_words + _ROOM, num_words + _ROOM + num_ends)
        self._make_buffer()
        places = torch.arange(8, dtype=torch.uint8, device=device)
        self._bits = torch.ones(8, dtype=torch.uint8, device=device) << places
        self._neg_inf: dict[torch.dtype, torch.Tensor] = {}
        self._steps = StepScores(num_rows)
        self._packed: torch.Tensor | None = None
        self._unsound: torch.Tensor | None = None  # rows of the last step with NaN that the host has not read yet
        self._tokens = host_buffer((num_rows,), torch.int64, device)
        self._event: Any = None
        self._arriving: Seen | None = None

    def _make_buffer(self) -> None:
        self._host = host_buffer((self._num_rows, self._ends.stop + 2), torch.int32, self.device)
        self._rows: NDArray[np.int32] = self._host.numpy()
        self._lent: list[Words | None] = [None] * self._num_rows  # the words that the engine writes here itself
        self._sent: list[tuple[int, Sequence[int]] | None] = [None] * self._num_rows  # flag and ends last written
        self._scores_type: tuple[int, torch.dtype] | None = None  # width and dtype of the scores they are for

    def lend(self, row: int, state: GuidanceState) -> None:
        """Let the engine write the masks of ``row`` where they are sent from, as long as it stays that row's."""
        size = state.mask_bytes
        if size <= 4 * (self._num_words + _ROOM):
            self._lent[row] = state.lend(self._rows[row].data.cast("B")[:size])

    # -- masks

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], done: Sequence[bool]) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` on this device.

        ``done`` says which rows without a mask have ended.
        """
        scores = scores.detach() if scores.requires_grad else scores
        width, dtype = scores.shape[-1], scores.dtype
        if width < 32 * self._num_words:
            _check_width(masks, width)
        self._pack(masks, done, width, dtype)
        packed = self._packed = self._host.to(self.device, non_blocking=True)
        steps = self._steps
        rescue_limit = packed[:, -2:-1].view(torch.float32)
        if dtype not in self._neg_inf:
            self._neg_inf[dtype] = torch.full((), -math.inf, dtype=dtype, device=self.device)
        allowed = self._allowed(packed, width)
        out = torch.where(allowed, scores, self._neg_inf[dtype])
        out.nan_to_num_(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        best, top = steps.add(scores, out)
        dead = best[:, None] <= rescue_limit
        out.masked_fill_(allowed & dead, RESCUE)
        if steps.has_ends:
            end = packed[:, self._ends.start : self._ends.start + 1].long()
            at = end.clamp(min=0)
            out.scatter_(1, at, out.gather(1, at).masked_fill_(dead & (end >= 0), RESCUE / 2))
        self._unsound = top != top  # NaN where any score is
        if steps.is_mixed:
            self._unsound &= packed[:, -1] == _GUIDED
        return out if len(masks) == self._num_rows else torch.where(rescue_limit.isnan(), scores, out)

    def _pack(self, masks: Sequence[RowMask], done: Sequence[bool], width: int, dtype: torch.dtype) -> None:
        """Write what the device must know of each row; in most steps only masks have changed."""
        if self._scores_type != (width, dtype):
            self._scores_type, self._sent = (width, dtype), [None] * self._num_rows
        lent, sent = self._lent, self._sent
        for mask in masks:
            row = mask.row
            if mask.words is not lent[row]:
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
        self._steps.note(row, flag, rescue_limit, bool(ends) and ends[0] >= 0)

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
        assert self._unsound is not None
        newest = input_ids[:, -1]
        self._tokens.copy_(torch.add(newest, self._unsound, alpha=_NAN), non_blocking=True)  # 8 bytes a row
        self._event = self._event or _event(self.device)
        self._event.record()
        self._arriving = Seen(input_ids)
        ended = (self._packed[:, self._ends] == newest[:, None]).any(dim=-1) | self._unsound
        return ended | (self._packed[:, -1] >= _FAILED) if self._steps.has_inactive else ended

    @property
    def can_end(self) -> bool:
        """Whether a step was masked here and `ended` was not called for it yet."""
        return self._packed is not None and self._arriving is None

    def newest(self, input_ids: torch.Tensor | None = None) -> tuple[list[int], list[bool]] | None:
        """Wait for the copy that `ended` started and return it, once; None if ``input_ids`` is another history.

        The tokens of all rows, and which rows' scores were NaN, [] if there are none.
        """
        seen, self._arriving = self._arriving, None
        if seen is None or (input_ids is not None and not seen.is_same(input_ids)):
            return None
        self._event.synchronize()
        self._unsound = None
        tokens: list[int] = self._tokens.tolist()
        if min(tokens) >= 0:
            return tokens, []
        return [token - _NAN if token < 0 else token for token in tokens], [token < 0 for token in tokens]

    def take_unsound(self) -> torch.Tensor | None:
        """Return the rows whose scores were NaN in the last step, bool ``[rows]`` on the device, once.

        None if `newest` has already reported them.
        """
        unsound, self._unsound = self._unsound, None
        return unsound

    def mark(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add the effect flags of the last masks to ``tokens`` int64 ``[rows]``.  Call only if some row had a mask."""
        assert self._packed is not None
        assert self._unsound is not None
        best, top = self._steps.last
        dead = best <= self._packed[:, -2].view(torch.float32)
        highest = best.masked_fill(dead, RESCUE)
        if self._steps.has_ends:
            highest.masked_fill_(dead & (self._packed[:, self._ends.start] >= 0), RESCUE / 2)
        for flagged, effect in ((top > highest, OVERRIDDEN), (dead > self._unsound, RESCUED), (self._unsound, UNSOUND)):
            tokens = torch.add(tokens, flagged, alpha=effect)
        return tokens

    def permute(self, parents: Sequence[int]) -> None:
        """Give row ``i`` the counters of row ``parents[i]``, which it continues."""
        if list(parents) != list(range(self._num_rows)):
            self._steps.permute(parents)
            self._make_buffer()  # the states of rows that have moved go on writing into the old one

    def counts(self) -> list[list[int]]:
        """Return the numbers of overridden and of rescued steps, per row; waits for the device."""
        return self._steps.counts()


def _check_width(masks: Sequence[RowMask], width: int) -> None:
    """Raise `ModelError` for a row all of whose legal tokens lie past the scores: the model is another one."""
    for mask in masks:
        if not mask.words[: width >> 5].any() and not bool(bool_mask(mask.words, width).any()):
            raise ModelError(
                f"no token that row {mask.row} may write is within its {width} scores",
                place="logits",
                hint="build the guide with this very model",
            )


def _event(device: torch.device) -> Any:
    return torch.Event(device=device)
