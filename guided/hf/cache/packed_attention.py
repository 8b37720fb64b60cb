"""Attention of rows that are packed into one sequence: each over its own keys and values, nothing padded.

It is registered in transformers' `AttentionInterface` for the name ``sdpa``: a forward that hands on ``packed_rows``
gets it, any other forward of any model and thread what was registered before.  So no configuration changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from guided.hf.cache.row_layers import room_for
from special_tokens.errors import ModelError

__all__ = ["NAME", "PackedRow", "register"]

#: The attention that is extended, and the argument of the model's forward that asks for ours.
NAME, ARGUMENT = "sdpa", "packed_rows"

#: Arguments that change nothing here, apart from those that are None or False.
_KNOWN = {"dropout", "is_causal", "position_ids", "cache_position", "use_cache", "return_dict", "logits_to_keep"}


class PackedRow:
    """One row: by layer its keys and values ``[heads, capacity, dim]``, and its part of the forward.

    The row has ``length`` tokens; ``count`` more begin at column ``start`` of the sequence.
    """

    __slots__ = ("_masks", "count", "layers", "length", "start", "windows")

    def __init__(self, layers: Sequence[tuple[torch.Tensor, torch.Tensor] | None] = ()) -> None:
        self.layers = list(layers)
        self.length = self.start = self.count = 0
        self.windows: dict[int, int | None] = {}  # by layer: those that attention was given
        self._masks: dict[int | None, torch.Tensor] = {}

    def begin(self, length: int, start: int, count: int) -> None:
        """Begin a forward."""
        self.length, self.start, self.count = length, start, count
        self._masks = {}

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store the row's part of keys and values ``[heads, columns, dim]``."""
        first, end = self.length, self.length + self.count
        if layer >= len(self.layers):
            self.layers += [None] * (layer + 1 - len(self.layers))
        stored = self.layers[layer]
        if stored is None or stored[0].shape[1] < end:
            stored = self.layers[layer] = (self._grown(stored, 0, keys, end), self._grown(stored, 1, values, end))
        for memory, new in ((stored[0], keys), (stored[1], values)):
            memory[:, first:end] = new[:, self.start : self.start + self.count]

    def _grown(
        self, stored: tuple[torch.Tensor, torch.Tensor] | None, part: int, new: torch.Tensor, end: int
    ) -> torch.Tensor:
        memory = new.new_empty((new.shape[0], room_for(end), new.shape[2]))
        if stored is not None:
            memory[:, : self.length] = stored[part][:, : self.length]
        return memory

    def attend(self, query: torch.Tensor, layer: int, scale: float | None, window: int | None) -> torch.Tensor:
        """Return attention ``[count, heads, dim]`` of the row's part of ``query`` float ``[heads, columns, dim]``."""
        stored = self.layers[layer]
        assert stored is not None
        self.windows[layer] = window
        count, end = self.count, self.length + self.count
        begin = 0 if window is None else max(0, end - count - window + 1)
        keys, values = stored[0][None, :, begin:end], stored[1][None, :, begin:end]
        heads, size = query.shape[0], query.shape[2]
        if count == 1:  # the queries of a group stand side by side: no keys are repeated
            part = query[:, self.start].reshape(1, keys.shape[1], -1, size)
            return scaled_dot_product_attention(part, keys, values, scale=scale).reshape(1, heads, -1)
        part = query[None, :, self.start : self.start + count]
        mask = (
            None if self.length == 0 and (window is None or end <= window) else self._mask(begin, window, part.device)
        )
        return scaled_dot_product_attention(
            part, keys, values, mask, is_causal=mask is None, scale=scale, enable_gqa=heads > keys.shape[1]
        )[0].transpose(0, 1)

    def _mask(self, begin: int, window: int | None, device: torch.device) -> torch.Tensor:
        """Bool ``[count, columns]``: which of the columns from ``begin`` on each query attends to."""
        if window not in self._masks:
            column = torch.arange(begin, self.length + self.count, device=device)
            at = torch.arange(self.length, self.length + self.count, device=device)[:, None]
            mask = column <= at
            self._masks[window] = mask if window is None else mask & (column > at - window)
        return self._masks[window]


@cache
def register() -> None:
    """Let models with the attention ``sdpa`` take ``packed_rows``; once in a process."""
    other = AttentionInterface()[NAME]

    def attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **named: Any) -> Any:
        rows = named.pop(ARGUMENT, None)
        if rows is None:
            return other(module, query, key, value, attention_mask, *args, **named)
        return _attention(rows, module, query, *args, **named), None

    AttentionInterface.register(NAME, attention)


def _attention(
    rows: Sequence[PackedRow], module: Any, query: torch.Tensor, *,
    scaling: float | None = None, sliding_window: int | None = None, **named: Any,
) -> torch.Tensor:  # fmt: skip
    """Return attention float ``[1, columns, heads, dim]`` of queries ``[1, heads, columns, dim]``."""
    given = [name for name, value in named.items() if value is not None and value is not False]
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise ModelError(f"attention with {', '.join(unknown)} is not packed", place=type(module).__name__)
    parts = [row.attend(query[0], module.layer_idx, scaling, sliding_window) for row in rows if row.count]
    return torch.cat(parts)[None]
