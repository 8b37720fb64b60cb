"""Attention masks for rows whose lengths differ: one 4-D mask for each kind of attention layer."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["attention_masks"]


def attention_masks(config: Any, positions: torch.Tensor, columns: int, dtype: torch.dtype) -> Any:
    """Return what the model takes as ``attention_mask``: one mask ``[rows, 1, queries, columns]``, or a dict of them.

    Row ``r`` stores its token ``i`` in column ``i``; ``positions`` int64 ``[rows, queries]`` holds the position of each
    query.  The mask is bool for SDPA, which takes bool as "attend"; other implementations add it to the scores and get
    floats of ``dtype``.  A model whose config has ``layer_types`` takes a dict with one mask for each type.
    """
    text = config.get_text_config(decoder=True)
    at, column = positions[:, None, :, None], torch.arange(columns, device=positions.device)
    causal = column <= at  # padding has position 0: it attends to the first column, so that its softmax has a value

    def mask(kind: str) -> torch.Tensor:
        allowed = causal
        if "sliding" in kind:
            allowed = causal & (column > at - text.sliding_window)
        elif "chunked" in kind:
            size = text.attention_chunk_size
            allowed = causal & (column // size == at // size)
        if text._attn_implementation == "sdpa":
            return allowed
        hidden = torch.finfo(dtype).min
        return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, hidden)

    if getattr(text, "layer_types", None) is not None:
        return {kind: mask(kind) for kind in set(text.layer_types)}
    if getattr(text, "sliding_window", None) is not None:
        return mask("sliding")
    return mask("chunked" if getattr(text, "attention_chunk_size", None) is not None else "full")
