"""Masks onto scores on the CPU, without a kernel per operation and without spreading the same bits again.

A mask becomes a *ceiling*: the most that each token may score.  One minimum of scores and ceiling then is the result,
10 us a row at 49k tokens where ``masked_fill`` takes 60 to 90.  Inside a string the mask is mostly the same, so the
ceilings of the masks met last are kept.  Results are written into memory that nobody holds any more: fresh pages for
8 rows of 151k scores cost as much as everything else together where the allocator gives them back after each step.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.apply import RowMask, Words, apply_masks, bool_mask, lowest, rescue_row

__all__ = ["HostLink"]

Floats: TypeAlias = NDArray[np.float32]

#: Ceilings kept: few kinds of places have many tokens (in a string, in a number, between values).
_CEILINGS = 8
#: Results whose memory is used again: ``generate`` holds one while it asks for the next.
_BUFFERS = 2

#: For each byte of a mask the most that its eight tokens may score.
_OF_BYTE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_), np.inf, -np.inf
).astype(np.float32)

_LOWEST = lowest(torch.float32)


class HostLink:
    """What one ``generate`` call on the CPU keeps from step to step.

    ``few_words``: where fewer words of a mask allow anything, the legal scores are copied one by one.
    """

    def __init__(self, *, few_words: int = 48) -> None:
        self._few_words = few_words
        self._buffers = _Buffers()
        self._ceilings: list[tuple[bytes, Floats]] = []

    @property
    def size_bytes(self) -> int:
        """Two results, and at most eight ceilings of four bytes a token of the vocabulary."""
        return self._buffers.size_bytes + sum(ceiling.nbytes + len(key) for key, ceiling in self._ceilings)

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask]) -> torch.Tensor:
        """What `guided.hf.apply.apply_masks` returns, for scores ``[rows, vocab]`` of any floating dtype."""
        if scores.dtype is not torch.float32:
            return apply_masks(scores, masks)
        raw: Floats = scores.detach().numpy()
        out, result = self._buffers.take(raw.shape)
        if len(masks) < len(raw):
            for row in set(range(len(raw))).difference(mask.row for mask in masks):
                out[row] = raw[row]  # row by row: an index of rows would copy twice
        for mask in masks:
            self._mask_row(raw[mask.row], out[mask.row], mask)
        return result

    def _mask_row(self, raw: Floats, out: Floats, mask: RowMask) -> None:
        """Write ``raw`` ``[vocab]`` under ``mask`` to ``out`` ``[vocab]``."""
        words = mask.words
        ceiling = self._ceiling(words, len(raw))
        if ceiling is not None:
            np.minimum(ceiling, raw, out=out)
        else:
            ids = _ids(words, len(raw))
            out.fill(-np.inf)
            out[ids] = raw[ids]
        best = int(raw.argmax())
        if out[best] > _LOWEST and not mask.is_imposed:  # false for NaN as well
            return
        top = out.max()
        if mask.is_imposed or not top > _LOWEST:
            row = torch.from_numpy(out)
            row.copy_(rescue_row(row, bool_mask(words, len(raw)), mask))
            top = out.max()
        mask.overridden = bool(raw[best] > top)

    def _ceiling(self, words: Words, width: int) -> Floats | None:
        """The most that each of ``width`` tokens may score: no bound where it is allowed, else -inf.

        None where so few are allowed that their scores are better copied one by one.
        """
        kept = self._ceilings
        key = words.tobytes()
        for i, (known, ceiling) in enumerate(kept):
            if known == key and len(ceiling) == width:
                if i:
                    kept.insert(0, kept.pop(i))
                return ceiling
        if np.count_nonzero(words) < self._few_words:
            return None
        size = 32 * words.size
        ceiling = np.full(max(width, size), -np.inf, dtype=np.float32)
        np.take(_OF_BYTE, words.view(np.uint8), axis=0, out=ceiling[:size].reshape(-1, 8), mode="clip")
        ceiling = ceiling[:width]
        kept.insert(0, (key, ceiling))
        del kept[_CEILINGS:]
        return ceiling


class _Buffers:
    """Memory for results of one shape, used again when the last tensor over it is gone.

    A tensor made of an array keeps that array, and so do its views and storages: when the array dies, all of them have.
    """

    def __init__(self) -> None:
        self._lent: list[tuple[Floats, weakref.ref[Floats]]] = []

    @property
    def size_bytes(self) -> int:
        return sum(memory.nbytes for memory, _ in self._lent)

    def take(self, shape: tuple[int, ...]) -> tuple[Floats, torch.Tensor]:
        """Memory of ``shape`` that nobody else sees, as an array and as the tensor over it."""
        lent = self._lent
        if lent and lent[0][0].shape != shape:
            lent.clear()
        at = next((i for i, (_, holder) in enumerate(lent) if holder() is None), len(lent))
        memory = lent[at][0] if at < len(lent) else np.empty(shape, dtype=np.float32)
        array = memory[:]
        if at < _BUFFERS:
            lent[at : at + 1] = [(memory, weakref.ref(array))]
        return array, torch.from_numpy(array)


def _ids(words: Words, width: int) -> NDArray[np.int64]:
    """The ids below ``width`` whose bits are set, where few words have any."""
    at = words.nonzero()[0]
    bits = np.unpackbits(words[at].view(np.uint8), bitorder="little").reshape(-1, 32).nonzero()
    ids: NDArray[np.int64] = at[bits[0]] * 32 + bits[1]
    return ids[ids < width] if at.size and 32 * (int(at[-1]) + 1) > width else ids
