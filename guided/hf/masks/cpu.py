"""Masks onto scores on the CPU, without a kernel per operation and without spreading the same bits again.

A mask has one of three forms, whichever touches least memory.  Where little is allowed, the legal scores are copied
one by one.  Where little is masked, as in a string, all are copied and the masked ones overwritten.  In between a mask
becomes a *ceiling*, the most that each token may score, and one minimum of scores and ceiling is the result.  Places
come again, so the forms of the masks met last are kept.  Results are written into memory that is no longer held:
fresh pages for 8 rows of 151k scores cost as much as everything else together where the allocator gives them back
after each step.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.masks.apply import RowMask, Words, apply_masks, bool_mask, lowest, rescue_row

__all__ = ["HostLink"]

Floats: TypeAlias = NDArray[np.float32]
_Ids: TypeAlias = NDArray[np.int64]

#: Forms kept: few kinds of places have many tokens (in a string, in a number, between values).
_FORMS = 8
#: Results whose memory is used again: ``generate`` holds one while it asks for the next.
_BUFFERS = 2

#: In so few words bits are found one by one, which needs no code that the model's own has evicted.
_FEW = 16

#: For each byte of a mask the most that its eight tokens may score.
_OF_BYTE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_), np.inf, -np.inf
).astype(np.float32)

_LOWEST = lowest(torch.float32)


class _Form(NamedTuple):
    """The mask ``key`` in a form for ``width`` scores: the most that each may be, or else what is masked."""

    key: bytes
    width: int
    ceiling: Floats | None
    masked: _Ids | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.key) + sum(part.nbytes for part in (self.ceiling, self.masked) if part is not None)


class HostLink:
    """The memory that one ``generate`` call on the CPU keeps from step to step.

    ``few_words``: where fewer words of a mask allow anything, the legal scores are copied one by one.
    ``few_masked``: where at most this share of the tokens is masked, the masked ones are overwritten one by one.
    """

    def __init__(self, *, few_words: int = 48, few_masked: float = 1 / 16) -> None:
        self._few_words = few_words
        self._few_masked = few_masked
        self._buffers = _Buffers()
        self._forms: list[_Form] = []

    @property
    def size_bytes(self) -> int:
        """Two results, and at most eight forms of little more than four bytes a token of the vocabulary."""
        return self._buffers.size_bytes + sum(form.size_bytes for form in self._forms)

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], *, in_place: bool = False) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` of any floating dtype.

        ``in_place`` allows to write into ``scores`` and to return them: done for contiguous float32 scores.
        """
        if scores.dtype is not torch.float32:
            return apply_masks(scores, masks)
        raw: Floats = (scores.detach() if scores.requires_grad else scores).numpy()
        num_rows, width = raw.shape
        forms = [self._form(mask, width) for mask in masks]
        if in_place and scores.is_contiguous() and not scores.requires_grad:
            for mask, form in zip(masks, forms, strict=True):
                self._mask_row(raw[mask.row], raw[mask.row], mask, form, True)
            return scores
        out, result = self._buffers.take(raw.shape)
        num_copied = num_rows - len(masks)
        for form in forms:
            num_copied += form is not None and form.ceiling is None
        copied = num_rows > 1 and 4 * num_copied >= 3 * num_rows
        if copied:
            result.copy_(scores)  # all at once, which takes the memory less time than one by one
        elif len(masks) < num_rows:
            for row in set(range(num_rows)).difference(mask.row for mask in masks):
                out[row] = raw[row]  # row by row: an index of rows would copy twice
        for mask, form in zip(masks, forms, strict=True):
            self._mask_row(raw[mask.row], out[mask.row], mask, form, copied)
        return result

    def _mask_row(self, raw: Floats, out: Floats, mask: RowMask, form: _Form | None, copied: bool) -> None:
        """Write ``raw`` ``[vocab]`` under ``mask`` to ``out`` ``[vocab]``.

        ``copied``: ``out`` holds the same scores already, it may be ``raw`` itself.
        """
        # What is called here is cold in a real step, when the model has just gone through the caches: few kinds of
        # calls count for more than few of them.
        best = raw.argmax()
        high = raw[best]
        if form is None:
            few: int | list[int] | _Ids = mask.only if mask.only is not None else _ids(mask.words, len(raw))
            legal = raw[few]
            out.fill(-np.inf)
            out[few] = legal
        elif form.ceiling is not None:
            np.minimum(form.ceiling, raw, out=out)
        else:
            if not copied:
                out[:] = raw
            out[form.masked] = -np.inf
        if out[best] > _LOWEST and not mask.is_imposed:  # false for NaN as well
            return
        mask.unsound = bool(high != high)  # the first NaN is the best for numpy
        top = out[out.argmax()]
        if mask.is_imposed or not top > _LOWEST:
            row = torch.from_numpy(out)
            row.copy_(rescue_row(row, bool_mask(mask.words, len(raw)), mask))
            top = out[out.argmax()]
        mask.overridden = bool(high > top)

    def _form(self, mask: RowMask, width: int) -> _Form | None:
        """Return how ``mask`` is applied to ``width`` scores; None where little is allowed."""
        if mask.only is not None and mask.only < width:
            return None
        words, kept = mask.words, self._forms
        key = words.tobytes()
        for i, form in enumerate(kept):
            if form.key == key and form.width == width:
                if i:
                    kept.insert(0, kept.pop(i))
                return form
        if np.count_nonzero(words) < self._few_words:
            return None
        num_masked = max(width, 32 * words.size) - int.from_bytes(key, "little").bit_count()
        if num_masked <= self._few_masked * width:
            masked = np.asarray(_ids(~words, width), dtype=np.int64)
            if 32 * words.size < width:  # scores past the mask
                masked = np.concatenate([masked, np.arange(32 * words.size, width)])
            form = _Form(key, width, None, masked)
        else:
            form = _Form(key, width, _ceiling(words, width))
        kept.insert(0, form)
        del kept[_FORMS:]
        return form


def _ceiling(words: Words, width: int) -> Floats:
    """The most that each of ``width`` tokens may score: no bound where it is allowed, else -inf."""
    size = 32 * words.size
    ceiling = np.full(max(width, size), -np.inf, dtype=np.float32)
    np.take(_OF_BYTE, words.view(np.uint8), axis=0, out=ceiling[:size].reshape(-1, 8), mode="clip")
    return ceiling[:width]


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
        """Return memory of ``shape`` that nothing else holds, as an array and as the tensor over it."""
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
    """The ids below ``width`` whose bits are set, quick where few words have any."""
    at = words.nonzero()[0]
    if at.size <= _FEW:
        found: list[int] = []
        for i, word in zip(at.tolist(), words[at].tolist(), strict=True):
            word &= 0xFFFFFFFF
            while word:
                low = word & -word
                found.append(32 * i + low.bit_length() - 1)
                word ^= low
        return found if not found or found[-1] < width else [i for i in found if i < width]
    bits = np.unpackbits(words[at].view(np.uint8), bitorder="little").reshape(-1, 32).nonzero()
    ids: _Ids = at[bits[0]] * 32 + bits[1]
    return ids[ids < width] if 32 * (int(at[-1]) + 1) > width else ids
