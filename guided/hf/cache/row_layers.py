"""A transformers cache whose rows may have different lengths.

In the storage each row begins at column 0 (left-aligned); in a forward the new tokens of each row are the last columns
of the input (right-aligned).  The keys and values of padding are written to the last column of the storage, which the
model never attends to.  Sliding-window layers keep all columns; the mask hides those outside the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from guided.hf.masks.transfer import on_device

__all__ = ["Columns", "RowCache", "RowLayer", "RowStates", "copy_of", "room_for"]

#: The keys and values of one row in one layer, ``[heads, length, dim]`` each; None in a layer that stores none.
RowStates = tuple[tuple[torch.Tensor, torch.Tensor] | None, ...]


def room_for(columns: int) -> int:
    """Return the number of columns to allocate for ``columns``: little more, but enough that storage seldom grows.

    With 8 columns more, growing took 0.3 % of the time of short answers.
    """
    return columns + max(32, columns // 32)


def copy_of(states: RowStates) -> RowStates:
    """Return a copy of the states, which shares no memory with them."""
    return tuple(pair and (pair[0].clone(), pair[1].clone()) for pair in states)


class Columns:
    """The columns that the tokens of one forward go to, shared by all layers.

    ``lengths[r]`` counts the tokens of row ``r`` in the cache before the forward, ``counts[r]`` its new tokens.
    """

    def __init__(self, lengths: Sequence[int], counts: Sequence[int]) -> None:
        self.lengths = list(lengths)
        self.queries = max(counts)
        self.total = max(length + count for length, count in zip(lengths, counts, strict=True))
        #: Whether all rows have the same length and no padding: the model needs no mask of ours.
        self.even = len(set(lengths)) == 1 and len(set(counts)) == 1
        self._counts = list(counts)
        self._places: dict[tuple[torch.device, int, int], torch.Tensor] = {}
        self._positions: torch.Tensor | None = None
        self._columns: torch.Tensor | None = None  # of the new tokens, -1 for padding

    def send(self, chunks: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """Return the ids of ``chunks`` as int64 ``[rows, queries]``; where they go is sent in the same copy."""
        ids = [[0] * (self.queries - len(chunk)) + [*chunk] for chunk in chunks]
        if self.even:
            return on_device(ids, torch.long, device)
        sent, self._columns = on_device([ids, self._placed()], torch.long, device).unbind()
        return sent

    def positions(self, device: torch.device) -> torch.Tensor:
        """int64 ``[rows, queries]``: the position of each query in its row; 0 for padding."""
        if self._positions is None and self.even:
            at = torch.arange(self.lengths[0], self.total, device=device)
            self._positions = at.expand(len(self.lengths), -1)
        elif self._positions is None:
            self._positions = self._sent(device).clamp(min=0)
        return self._positions

    def _sent(self, device: torch.device) -> torch.Tensor:
        if self._columns is None:
            self._columns = on_device(self._placed(), torch.long, device)
        return self._columns.to(device, non_blocking=True)

    def places(self, stored: torch.Tensor) -> torch.Tensor:
        """int64 ``[rows * heads * queries]``: where each new state goes in ``stored``, as vectors one after the other.

        Padding goes to the last column.
        """
        rows, heads, capacity, _ = stored.shape
        key = (stored.device, heads, capacity)
        if key not in self._places:
            columns = self._sent(stored.device)
            columns = columns.masked_fill(columns < 0, capacity - 1)
            first = torch.arange(rows * heads, device=stored.device).view(rows, heads, 1) * capacity
            self._places[key] = (first + columns[:, None]).flatten()
        return self._places[key]

    def _placed(self) -> list[list[int]]:
        return [
            [-1] * (self.queries - count) + list(range(length, length + count))
            for length, count in zip(self.lengths, self._counts, strict=True)
        ]


class RowLayer(DynamicLayer):
    """Keys and values of one attention layer, ``[rows, heads, capacity, dim]``, written in place."""

    def write(self, keys: torch.Tensor, values: torch.Tensor, columns: Columns) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new states ``[rows, heads, queries, dim]``; return views of all columns that a row may attend."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self.keys, self.values = (_empty(new, room_for(columns.total)) for new in (keys, values))
        self.reserve(columns.total + 1, kept=max(columns.lengths))
        for stored, new in ((self.keys, keys), (self.values, values)):
            if columns.even:
                stored[:, :, columns.lengths[0] : columns.total] = new
            else:
                places = columns.places(stored)
                stored.view(-1, stored.shape[3]).index_copy_(0, places, new.reshape(-1, stored.shape[3]))
        return self.keys[:, :, : columns.total], self.values[:, :, : columns.total]

    def reserve(self, columns: int, kept: int) -> None:
        """Make room for ``columns``; the first ``kept`` columns stay."""
        if columns > self.keys.shape[2]:
            self.keys = _grown(self.keys, room_for(columns), kept)
            self.values = _grown(self.values, room_for(columns), kept)

    def select_rows(self, rows: Sequence[int], kept: int) -> None:
        """Keep, reorder or repeat rows; the storage shrinks to what ``kept`` columns need."""
        width = min(room_for(kept), self.keys.shape[2])
        index = on_device(list(rows), torch.long, self.keys.device)
        self.keys = self.keys[:, :, :width].index_select(0, index)
        self.values = self.values[:, :, :width].index_select(0, index)

    def append_rows(
        self,
        rows: Sequence[tuple[torch.Tensor, torch.Tensor] | None],
        lengths: Sequence[int],
        room: int,
        num_present: int,
        kept: int,
    ) -> None:
        """Append the first ``lengths[i]`` columns of ``rows[i]`` as rows, or empty rows for None; see `RowCache`."""
        like = next((pair for pair in rows if pair is not None), None)
        if like is not None and not self.is_initialized:
            self.lazy_initialization(*like)
        has_rows = self.keys.dim() == 4
        stored = []
        for part, present in enumerate((self.keys, self.values)):
            new = present if like is None else like[part]
            width = max(room_for(max(room, *lengths)), present.shape[2] if has_rows else 0)
            # Zeros, as in `_empty`.
            memory = new.new_zeros((num_present + len(rows), new.shape[-3], width, new.shape[-1]))
            if has_rows:
                memory[:num_present, :, :kept] = present[:, :, :kept]
            for row, pair, length in zip(memory[num_present:], rows, lengths, strict=True):
                if pair is not None:
                    row[:, :length] = pair[part][:, :length]
            stored.append(memory)
        self.keys, self.values = stored


def _empty(like: torch.Tensor, columns: int) -> torch.Tensor:
    # Zeros, because a hidden column still counts as 0 x its value: memory that holds NaN would spread.
    return like.new_zeros((*like.shape[:2], columns, like.shape[3]))


def _grown(stored: torch.Tensor, columns: int, kept: int) -> torch.Tensor:
    out = stored.new_empty((*stored.shape[:2], columns, stored.shape[3]))
    out[:, :, :kept] = stored[:, :, :kept]
    out[:, :, kept:] = 0  # as in `_empty`
    return out


class RowCache(Cache):
    """A cache of `RowLayer`; ``columns`` is set for each forward."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=RowLayer)
        self.columns = Columns([0], [0])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the states of one layer; return its keys and values ``[rows, heads, columns, dim]``."""
        while len(self.layers) <= layer_idx:
            self.layers.append(RowLayer())
        layer: RowLayer = self.layers[layer_idx]
        return layer.write(key_states, value_states, self.columns)

    def get_seq_length(self, layer_idx: int = 0) -> int:  # the name is transformers'
        """Return the number of tokens before this forward; the longest row's if lengths differ."""
        return max(self.columns.lengths)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of columns of this forward and the first one, for masks that the model builds itself."""
        return self.columns.total, 0

    def select_rows(self, rows: Sequence[int], kept: int) -> None:
        """Keep, reorder or repeat rows in all layers."""
        for layer in self.stored():
            layer.select_rows(rows, kept)

    def view_row(self, row: int, length: int) -> RowStates:
        """Return the first ``length`` columns of a row in all layers, not copied."""
        return tuple(
            (layer.keys[row, :, :length], layer.values[row, :, :length]) if layer.is_initialized else None
            for layer in self.layers
        )

    def append_rows(
        self, rows: Sequence[RowStates | None], lengths: Sequence[int], room: int, num_present: int, kept: int
    ) -> None:
        """Append copies of the first ``lengths[i]`` columns of ``rows[i]`` as rows, or empty rows for None.

        There are ``num_present`` rows, the longest of which has ``kept`` columns.  There is room for ``room`` columns
        before the layers have to grow.
        """
        num_layers = max((len(states) for states in rows if states is not None), default=0)
        while len(self.layers) < num_layers:
            self.layers.append(RowLayer())
        for i, layer in enumerate(self.layers):
            pairs = [None if states is None else states[i] for states in rows]
            if layer.is_initialized or any(pair is not None for pair in pairs):
                layer.append_rows(pairs, lengths, room, num_present, kept)

    def stored(self) -> list[RowLayer]:
        """The layers that hold states."""
        return [layer for layer in self.layers if layer.is_initialized]
