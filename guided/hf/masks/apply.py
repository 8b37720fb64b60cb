"""Packed masks onto score tensors: onto a copy, since other consumers hold the same tensor.

A row's scores end up as they were where its mask allows, and -inf elsewhere.  Where something before us left no legal
score (every legal token at -inf, at the lowest number or NaN), the grammar wins: the legal tokens all get `RESCUE`,
the ends that are open there a little more.  So no row is ever -inf throughout, and no token is chosen by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from guided.state.mask import Words
from special_tokens.errors import ModelError

__all__ = ["RESCUE", "RowMask", "Words", "apply_masks", "bool_mask", "lowest", "rescue_row"]


#: The score of a legal token that was forbidden by others: a bad one, so that a beam search prefers rows that others
#: have not forbidden, and one that every dtype can hold.
RESCUE = -10_000.0


def lowest(dtype: torch.dtype) -> float:
    """A score below this is no score: transformers writes the lowest number where it replaces -inf."""
    return float(torch.finfo(dtype).min) / 2


@dataclass(slots=True)
class RowMask:
    """The change to row ``row``: ``words`` int32 ``[ceil(vocab / 32)]`` and the ids that would end it here.

    ``is_imposed``: the scores do not count, as in a row that has failed; ``has_ended``: nothing reads what comes.
    ``only``: the one id that ``words`` allow, where that is known.
    `apply_masks` sets the last three: ``overridden``, the best score was masked; ``rescued``, no legal token had one;
    ``unsound``, some score is NaN, legal or not: what the row writes then means nothing.
    """

    row: int
    words: Words
    ends: Sequence[int] = ()
    is_imposed: bool = False
    has_ended: bool = False
    only: int | None = None
    overridden: bool = False
    rescued: bool = False
    unsound: bool = False


def apply_masks(scores: torch.Tensor, masks: Sequence[RowMask]) -> torch.Tensor:
    """A copy of ``scores`` under ``masks``; other rows are copied to the bit.

    This says what a mask does; `guided.hf.masks.cpu` and `guided.hf.masks.accelerator` do the same faster, each in its
    place.

    ``scores`` is ``[rows, vocab]`` on the CPU, of any floating dtype.  Raises `ModelError` where the scores are so
    narrow that they have no legal token at all.
    """
    out = scores.clone()
    for mask in masks:
        raw = scores[mask.row]
        allowed = bool_mask(mask.words, raw.shape[-1])
        masked = torch.where(allowed, raw, float("-inf"))
        best = float(masked.amax())
        if mask.is_imposed or not best > lowest(scores.dtype):  # false for NaN as well
            masked = rescue_row(masked, allowed, mask)
            best = float(masked.amax())
        top = float(raw.amax())  # NaN where any score is
        mask.unsound = top != top
        mask.overridden = top > best
        out[mask.row] = masked
    return out


def rescue_row(masked: torch.Tensor, allowed: torch.Tensor, mask: RowMask) -> torch.Tensor:
    """The scores ``[vocab]`` of a row whose best legal score is none: NaN repaired, or `RESCUE` for what is legal."""
    if not bool(allowed.any()):
        raise ModelError(
            f"no token that row {mask.row} may write is within its {len(masked)} scores",
            place="logits",
            hint="build the guide with this very model",
        )
    sound = torch.where(allowed & ~masked.isnan(), masked, float("-inf"))
    if not mask.is_imposed and float(sound.amax()) > lowest(masked.dtype):
        return sound
    mask.rescued = not mask.is_imposed
    sound = torch.where(allowed, RESCUE, float("-inf")).to(masked.dtype)
    if mask.ends and mask.ends[0] < len(sound):
        sound[mask.ends[0]] = RESCUE / 2
    return sound


def bool_mask(words: Words, width: int) -> torch.Tensor:
    """A row of a bitmask as bool ``[width]`` on the CPU; ids past the bitmask are False."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    if len(bits) < width:
        bits = np.pad(bits, (0, width - len(bits)))
    return torch.from_numpy(bits[:width].view(np.bool_))
