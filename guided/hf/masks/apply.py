"""The effect of packed token masks on a copy of a score tensor, stated slowly: other modules do the same faster.

Scores stay as they are where the mask allows, and become -inf elsewhere.  If earlier processors left no legal score
(every legal token is at -inf, at the lowest number or NaN), the grammar decides: all legal tokens get the score
`RESCUE`, and the preferred end token a higher one.  So no row has only -inf, and no token is chosen by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from guided.state.mask import Words
from special_tokens.errors import GuidanceError, ModelError

__all__ = ["RESCUE", "RowMask", "apply_masks", "bool_mask", "lowest", "not_numbers", "rescue_row", "too_narrow"]


#: The score of a legal token that other processors forbade: so low that beam search prefers rows in which they forbade
#: nothing, and within the range of every dtype.
RESCUE = -10_000.0


def lowest(dtype: torch.dtype) -> float:
    """Return the limit below which a score counts as -inf: transformers may write the lowest number in its place."""
    return float(torch.finfo(dtype).min) / 2


@dataclass(slots=True)
class RowMask:
    """The mask of row ``row``: ``words`` int32 ``[ceil(vocab / 32)]``, and the ids that would end the row here.

    ``is_imposed``: the scores do not count, because the row has failed.  ``has_ended``: the row's next token is not
    read.  ``only`` is the id that ``words`` allow if it is known to be a single one.
    `apply_masks` sets the last three.  ``overridden``: the best score was masked.  ``rescued``: no legal token had a
    score.  ``unsound``: some score is NaN, legal or not, so the row's next token means nothing.  ``error`` was raised
    when the mask was applied, so the token means nothing either.
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
    error: BaseException | None = None


def apply_masks(scores: torch.Tensor, masks: Sequence[RowMask]) -> torch.Tensor:
    """Return a copy of ``scores`` under ``masks``; rows without a mask are copied to the bit.

    ``scores`` is ``[rows, vocab]`` on the CPU, of any floating dtype.  This is the reference for
    `guided.hf.masks.cpu` and `guided.hf.masks.accelerator`.  Raises `ModelError` if all legal tokens lie past the
    scores.
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
    """Return the scores ``[vocab]`` of a row whose best legal score is NaN or -inf.

    NaN becomes -inf.  If no legal score is left then, or if the mask is imposed, all legal tokens get `RESCUE`.
    """
    if not bool(allowed.any()):
        raise too_narrow(mask.row, len(masked))
    sound = torch.where(allowed & ~masked.isnan(), masked, float("-inf"))
    if not mask.is_imposed and float(sound.amax()) > lowest(masked.dtype):
        return sound
    mask.rescued = not mask.is_imposed
    sound = torch.where(allowed, RESCUE, float("-inf")).to(masked.dtype)
    if mask.ends and mask.ends[0] < len(sound):
        sound[mask.ends[0]] = RESCUE / 2
    return sound


def bool_mask(words: Words, width: int) -> torch.Tensor:
    """Return a row of a bitmask as bool ``[width]`` on the CPU; ids past the bitmask are False."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    if len(bits) < width:
        bits = np.pad(bits, (0, width - len(bits)))
    return torch.from_numpy(bits[:width].view(np.bool_))


def too_narrow(row: int, width: int) -> ModelError:
    """Return the error for a row all of whose legal tokens lie past the scores: the model is another one."""
    return ModelError(
        f"no token that row {row} may write is within its {width} scores",
        place="logits",
        hint="build the guide with this very model",
    )


def not_numbers(place: str) -> GuidanceError:
    """Return the error for the row or option at ``place``."""
    return GuidanceError(
        "the model's logits are not numbers (NaN or all infinite)",
        place=place,
        hint="load the model in float32 or bfloat16, and check its weights",
    )
