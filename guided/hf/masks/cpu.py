"""Token masks applied to scores on the CPU, by few numpy operations that touch little memory.

If a mask allows few tokens, the legal scores are copied one by one.  Otherwise it becomes a *ceiling*, the highest
score that each token may have, and the result is the minimum of scores and ceiling.  The same masks recur, so the
ceilings of the last ones are kept.  Results are written into memory whose last result is no longer used: fresh pages
for 8 rows of 151k scores would cost as much as everything else together.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.masks.apply import RowMask, apply_masks, bool_mask, lowest, rescue_row
from guided.state.mask import Words

__all__ = ["HostLink"]

Floats: TypeAlias = NDArray[np.float32]
_Ids: TypeAlias = NDArray[np.int64]

#: Ceilings kept: masks that allow many tokens belong to few kinds of places (in a string, in a number, between values).
_MAX_CEILINGS = 8
#: Results whose memory is reused: ``generate`` still holds one while the next is computed.
_BUFFERS = 2

#: In at most this many words, bits are found one by one: numpy's code would have to be loaded into the CPU's cache.
_FEW_WORDS = 16

#: For each value of a mask's byte, the highest scores that its eight tokens may have.
_OF_BYTE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_), np.inf, -np.inf
).astype(np.float32)

_LOWEST = lowest(torch.float32)


class HostLink:
    """Applies masks on the CPU, with the memory that one call of ``generate`` keeps from step to step.

    ``copy_below_words``: if fewer words of a mask allow any token, the legal scores are copied one by one.
    """

    def __init__(self, *, copy_below_words: int = 48) -> None:
        self._copy_below_words = copy_below_words
        self._buffers = _Buffers()
        self._kept: list[tuple[bytes, Floats]] = []  # masks and their ceilings

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], *, in_place: bool = False) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` of any floating dtype.

        With ``in_place``, contiguous float32 ``scores`` are written to and returned.  What a row raises is the
        ``error`` of its mask.
        """
        if scores.dtype is not torch.float32:
            return apply_masks(scores, masks)
        raw: Floats = (scores.detach() if scores.requires_grad else scores).numpy()
        num_rows, width = raw.shape
        if in_place and scores.is_contiguous() and not scores.requires_grad:
            out, result = raw, scores
        else:
            out, result = self._buffers.take(raw.shape)
            if num_rows > 1 and 4 * (num_rows - len(masks)) >= 3 * num_rows:
                result.copy_(scores)  # all rows at once, which is faster than one by one
            elif len(masks) < num_rows:
                for row in set(range(num_rows)).difference(mask.row for mask in masks):
                    out[row] = raw[row]  # row by row: an index of rows would copy twice
        for mask in masks:
            try:
                self._mask_row(raw[mask.row], out[mask.row], mask, self._ceiling(mask, width))
            except BaseException as error:
                mask.error = error
                out[mask.row] = raw[mask.row]
        return result

    def _mask_row(self, raw: Floats, out: Floats, mask: RowMask, ceiling: Floats | None) -> None:
        """Write ``raw`` ``[vocab]`` under ``mask`` to ``out`` ``[vocab]``, which may be ``raw`` itself."""
        # The model's forward has just emptied the CPU's caches, so each different function called here costs more than
        # a repeated call: few kinds of calls matter more than few calls.
        best = raw.argmax()
        high = raw[best]
        if ceiling is None:
            few: int | list[int] | _Ids = mask.only if mask.only is not None else _ids(mask.words, len(raw))
            legal = raw[few]
            out.fill(-np.inf)
            out[few] = legal
        else:
            np.minimum(ceiling, raw, out=out)
        if out[best] > _LOWEST and not mask.is_imposed:  # false for NaN as well
            return
        mask.unsound = bool(high != high)  # numpy's argmax returns the first NaN
        top = out[out.argmax()]
        if mask.is_imposed or not top > _LOWEST:
            row = torch.from_numpy(out)
            row.copy_(rescue_row(row, bool_mask(mask.words, len(raw)), mask))
            top = out[out.argmax()]
        mask.overridden = bool(high > top)

    def _ceiling(self, mask: RowMask, width: int) -> Floats | None:
        """Return the ceiling of ``mask`` for ``width`` scores; None if it allows few tokens."""
        if mask.only is not None and mask.only < width:
            return None
        words, kept = mask.words, self._kept
        key = words.tobytes()
        for i, (other, ceiling) in enumerate(kept):
            if other == key and len(ceiling) == width:
                if i:
                    kept.insert(0, kept.pop(i))
                return ceiling
        if np.count_nonzero(words) < self._copy_below_words:
            return None
        ceiling = _ceiling(words, width)
        kept.insert(0, (key, ceiling))
        del kept[_MAX_CEILINGS:]
        return ceiling


def _ceiling(words: Words, width: int) -> Floats:
    """Return the highest score that each of ``width`` tokens may have: inf if it is allowed, else -inf."""
    size = 32 * words.size
    ceiling = np.full(max(width, size), -np.inf, dtype=np.float32)
    np.take(_OF_BYTE, words.view(np.uint8), axis=0, out=ceiling[:size].reshape(-1, 8), mode="clip")
    return ceiling[:width]


class _Buffers:
    """Memory for results of one shape, reused when the last tensor over it is gone.

    A tensor made from an array keeps the array alive, and so do its views and storages: when the array has been freed,
    no tensor uses the memory.
    """

    def __init__(self) -> None:
        self._lent: list[tuple[Floats, weakref.ref[Floats]]] = []

    def take(self, shape: tuple[int, ...]) -> tuple[Floats, torch.Tensor]:
        """Return memory of ``shape`` that no tensor uses, as an array and as the tensor over it."""
        lent = self._lent
        if lent and lent[0][0].shape != shape:
            lent.clear()
        for i, (memory, holder) in enumerate(lent):
            if holder() is None:
                array = memory[:]
                lent[i] = memory, weakref.ref(array)
                return array, torch.from_numpy(array)
        memory = np.empty(shape, dtype=np.float32)
        array = memory[:]
        if len(lent) < _BUFFERS:
            lent.append((memory, weakref.ref(array)))
        return array, torch.from_numpy(array)


def _ids(words: Words, width: int) -> list[int] | _Ids:
    """Return the ids below ``width`` whose bits are set; fast if few words have any."""
    at = words.nonzero()[0]
    if at.size <= _FEW_WORDS:
        token_ids: list[int] = []
        for i, word in zip(at.tolist(), words[at].tolist(), strict=True):
            word &= 0xFFFFFFFF
            while word:
                low = word & -word
                token_ids.append(32 * i + low.bit_length() - 1)
                word ^= low
        return token_ids if not token_ids or token_ids[-1] < width else [i for i in token_ids if i < width]
    bits = np.unpackbits(words[at].view(np.uint8), bitorder="little").reshape(-1, 32).nonzero()
    ids: _Ids = at[bits[0]] * 32 + bits[1]
    return ids[ids < width] if 32 * (int(at[-1]) + 1) > width else ids
