"""Token masks applied to scores on the CPU, by few numpy operations that touch little memory.

A mask is applied in one of three ways, whichever touches least memory.  If it allows few tokens, the legal scores are
copied one by one.  If it masks few, as inside a string, all scores are copied and the masked ones overwritten.
Otherwise it becomes a *ceiling*, the highest score that each token may have, and the result is the minimum of scores
and ceiling.  The same masks recur, so the ceilings of the last ones are kept.  Results are written into memory whose
last result is no longer used: fresh pages for 8 rows of 151k scores would cost as much as everything else together.
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

#: Forms kept: masks that allow many tokens belong to few kinds of places (in a string, in a number, between values).
_MAX_FORMS = 8
#: Results whose memory is reused: ``generate`` still holds one while the next is computed.
_BUFFERS = 2

#: In at most this many words, bits are found one by one: numpy's code would have to be loaded into the CPU's cache.
_FEW_WORDS = 16

#: For each value of a mask's byte, the highest scores that its eight tokens may have.
_OF_BYTE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_), np.inf, -np.inf
).astype(np.float32)

_LOWEST = lowest(torch.float32)


class _Form(NamedTuple):
    """The mask ``key`` for ``width`` scores, as a ``ceiling`` (the highest score of each token) or as masked ids."""

    key: bytes
    width: int
    ceiling: Floats | None
    masked: _Ids | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.key) + sum(part.nbytes for part in (self.ceiling, self.masked) if part is not None)


class HostLink:
    """Applies masks on the CPU, with the memory that one call of ``generate`` keeps from step to step.

    ``copy_below_words``: if fewer words of a mask allow any token, the legal scores are copied one by one.
    ``overwrite_up_to``: if at most this share of the tokens is masked, the masked scores are overwritten one by one.
    """

    def __init__(self, *, copy_below_words: int = 48, overwrite_up_to: float = 1 / 16) -> None:
        self._copy_below_words = copy_below_words
        self._overwrite_up_to = overwrite_up_to
        self._buffers = _Buffers()
        self._forms: list[_Form] = []

    @property
    def size_bytes(self) -> int:
        """Bytes of two results and at most eight forms, each of which has some four bytes a token of the vocabulary."""
        return self._buffers.size_bytes + sum(form.size_bytes for form in self._forms)

    def apply(self, scores: torch.Tensor, masks: Sequence[RowMask], *, in_place: bool = False) -> torch.Tensor:
        """Return what `guided.hf.masks.apply.apply_masks` returns, for scores ``[rows, vocab]`` of any floating dtype.

        With ``in_place``, contiguous float32 ``scores`` are written to and returned.  What a row raises is the
        ``error`` of its mask.
        """
        if scores.dtype is not torch.float32:
            return apply_masks(scores, masks)
        raw: Floats = (scores.detach() if scores.requires_grad else scores).numpy()
        num_rows, width = raw.shape
        forms = [self._formed(mask, width) for mask in masks]
        copied = in_place and scores.is_contiguous() and not scores.requires_grad
        if copied:
            out, result = raw, scores
        else:
            out, result = self._buffers.take(raw.shape)
            num_copied = num_rows - len(masks)
            for form in forms:
                num_copied += form is not None and form.ceiling is None
            copied = num_rows > 1 and 4 * num_copied >= 3 * num_rows
            if copied:
                result.copy_(scores)  # all rows at once, which is faster than one by one
            elif len(masks) < num_rows:
                for row in set(range(num_rows)).difference(mask.row for mask in masks):
                    out[row] = raw[row]  # row by row: an index of rows would copy twice
        for mask, form in zip(masks, forms, strict=True):
            try:
                self._mask_row(raw[mask.row], out[mask.row], mask, form, copied)
            except BaseException as error:
                mask.error = error
                out[mask.row] = raw[mask.row]
        return result

    def _mask_row(self, raw: Floats, out: Floats, mask: RowMask, form: _Form | None, copied: bool) -> None:
        """Write ``raw`` ``[vocab]`` under ``mask`` to ``out`` ``[vocab]``.

        ``copied``: ``out`` holds the same scores already, it may be ``raw`` itself.
        """
        # The model's forward has just emptied the CPU's caches, so each different function called here costs more than
        # a repeated call: few kinds of calls matter more than few calls.
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
        mask.unsound = bool(high != high)  # numpy's argmax returns the first NaN
        top = out[out.argmax()]
        if mask.is_imposed or not top > _LOWEST:
            row = torch.from_numpy(out)
            row.copy_(rescue_row(row, bool_mask(mask.words, len(raw)), mask))
            top = out[out.argmax()]
        mask.overridden = bool(high > top)

    def _formed(self, mask: RowMask, width: int) -> _Form | None:
        """Return `_form`; None as well where it raises."""
        try:
            return self._form(mask, width)
        except BaseException as error:
            mask.error = error
            return None

    def _form(self, mask: RowMask, width: int) -> _Form | None:
        """Return the form in which ``mask`` is applied to ``width`` scores; None if it allows few tokens."""
        if mask.only is not None and mask.only < width:
            return None
        words, kept = mask.words, self._forms
        key = words.tobytes()
        for i, form in enumerate(kept):
            if form.key == key and form.width == width:
                if i:
                    kept.insert(0, kept.pop(i))
                return form
        if np.count_nonzero(words) < self._copy_below_words:
            return None
        num_masked = max(width, 32 * words.size) - int.from_bytes(key, "little").bit_count()
        if num_masked <= self._overwrite_up_to * width:
            masked = np.asarray(_ids(~words, width), dtype=np.int64)
            if 32 * words.size < width:  # scores past the mask
                masked = np.concatenate([masked, np.arange(32 * words.size, width)])
            form = _Form(key, width, None, masked)
        else:
            form = _Form(key, width, _ceiling(words, width))
        kept.insert(0, form)
        del kept[_MAX_FORMS:]
        return form


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

    @property
    def size_bytes(self) -> int:
        return sum(memory.nbytes for memory, _ in self._lent)

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
