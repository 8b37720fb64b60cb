"""Packed masks onto score tensors.  Never in place: other consumers hold the same tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["apply_bitmask", "bool_mask"]


def bool_mask(bitmask: NDArray[np.int32], width: int) -> torch.Tensor:
    """A bitmask as bool ``[rows, width]`` on the CPU; ids past the bitmask are False."""
    bits = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")
    if bits.shape[1] < width:
        bits = np.pad(bits, ((0, 0), (0, width - bits.shape[1])))
    return torch.from_numpy(bits[:, :width].view(np.bool_))


def apply_bitmask(
    scores: torch.Tensor, bitmask: NDArray[np.int32], rows: Sequence[int]
) -> tuple[torch.Tensor, list[int], list[int]]:
    """A copy of ``scores`` in which the listed rows keep only what their bitmask allows.

    ``scores`` is float ``[batch, vocab]`` on any device; ``bitmask[k]`` belongs to row ``rows[k]``; other rows are
    copied to the bit.  Returns the new scores, the rows whose best raw score was masked, and the rows that had no
    finite legal score: there every legal token now scores 0, so that the grammar wins.
    """
    out = scores.clone()
    allowed = bool_mask(bitmask, scores.shape[-1]).to(scores.device)
    index = torch.as_tensor(list(rows), device=scores.device)
    raw = scores[index]
    masked = raw.masked_fill(~allowed, float("-inf"))
    best = masked.amax(dim=-1)
    overridden = raw.amax(dim=-1) > best
    dead = ~(best > torch.finfo(scores.dtype).min / 2)
    if bool(dead.any()):
        rescue = torch.where(allowed, 0.0, float("-inf")).to(scores.dtype)
        masked = torch.where(dead[:, None], rescue, masked)
    out[index] = masked
    return (
        out,
        [row for row, flag in zip(rows, overridden.tolist(), strict=True) if flag],
        [row for row, flag in zip(rows, dead.tolist(), strict=True) if flag],
    )
