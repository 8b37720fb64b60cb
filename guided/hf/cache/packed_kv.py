"""A KV cache whose rows are fed as one packed sequence: nothing is padded, and rows join and leave without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache

from guided.hf.cache.kv_cache import KVCache, TakenRow
from guided.hf.cache.row_layers import copy_of, room_for
from guided.hf.masks.transfer import on_device
from special_tokens.errors import ModelError

__all__ = ["NAME", "PackedKV"]


class _ForwardCache(Cache):
    """The cache of one forward: it stores new states in the rows, from which attention reads them."""

    def __init__(self, rows: Sequence[PackedRow]) -> None:
        super().__init__(layers=[])
        self._rows = rows

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the states ``[1, heads, columns, dim]`` of one layer."""
        for row in self._rows:
            if row.count:
                row.write(layer_idx, key_states[0], value_states[0])
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # the name is transformers'
        """0: the positions are given."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """The columns of this forward, for masks that nothing reads."""
        return query_length, 0


class PackedKV(KVCache):
    """A cache of rows of any lengths, for models that `guided.hf.cache.packing.packs` finds right (see `KVCache`)."""

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__(model, rows)
        register()
        self._rows = [PackedRow() for _ in range(rows)]

    def feed(
        self, chunks: Sequence[Sequence[int]], keep: int | Sequence[int] = 1, hidden: bool = False
    ) -> torch.Tensor:
        """Run one forward over new tokens, any number per row (see `KVCache`)."""
        self._check(chunks)
        width = max(map(len, chunks))
        wanted = [min(n, len(chunk)) for n, chunk in zip(self._counts(keep), chunks, strict=True)]
        most = min(max(1, *self._counts(keep)), width)
        ids: list[int] = []
        positions: list[int] = []
        kept: list[int] = []
        for row, old, chunk, n in zip(self._rows, self.ids, chunks, wanted, strict=True):
            row.begin(len(old), len(ids), len(chunk))
            ids += chunk
            positions += range(len(old), len(old) + len(chunk))
            kept += range(len(ids) - n, len(ids))
        device = self._forward.device
        index = on_device(kept or [0], torch.long, device)
        logits, _, states = self._forward(
            on_device([ids], torch.long, device), _ForwardCache(self._rows), index, hidden, attention_mask=self._mask(),
            position_ids=on_device([positions], torch.long, device), **{ARGUMENT: self._rows},
        )  # fmt: skip
        self._append(chunks)
        self.hidden = None if states is None else self._rectangle(states[0], wanted, most)
        return self._rectangle(logits[0], wanted, most)

    def _counts(self, keep: int | Sequence[int]) -> Sequence[int]:
        return [keep] * len(self.ids) if isinstance(keep, int) else keep

    def _mask(self) -> Any:
        """A mask in the form that the model takes: it is not read."""
        text = self._forward.model.config.get_text_config(decoder=True)
        mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=self._forward.device)
        kinds = getattr(text, "layer_types", None)
        return mask if kinds is None else dict.fromkeys(kinds, mask)

    @staticmethod
    def _rectangle(columns: torch.Tensor, wanted: Sequence[int], most: int) -> torch.Tensor:
        """Return columns ``[n, size]`` of all rows as ``[rows, most, size]``, right-aligned; others mean nothing."""
        if all(n == most for n in wanted):
            return columns.view(len(wanted), most, -1)
        out = columns.new_empty((len(wanted) * most, columns.shape[-1]))
        places = [(r + 1) * most - n + i for r, n in enumerate(wanted) for i in range(n)]
        if places:
            out.index_copy_(0, on_device(places, torch.long, columns.device), columns)
        return out.view(len(wanted), most, -1)

    def select(self, rows: Sequence[int]) -> None:
        """Keep, reorder or repeat rows; only what is repeated is copied."""
        chosen, seen = [], set[int]()
        for r in rows:
            chosen.append(self._copied(self.take(r, copy=False), len(self.ids[r])) if r in seen else self._rows[r])
            seen.add(r)
        self._rows, self.ids = chosen, [list(self.ids[r]) for r in rows]

    def take(self, row: int, copy: bool = True) -> TakenRow:
        """Copy a row out (see `KVCache`)."""
        n = len(self.ids[row])
        states = tuple(pair and (pair[0][:, :n], pair[1][:, :n]) for pair in self._rows[row].layers)
        return TakenRow(tuple(self.ids[row]), copy_of(states) if copy else states)

    def extend(self, prefixes: Sequence[tuple[TakenRow, int] | None], room: int = 0) -> None:
        """Append rows: copies of the beginnings of rows that were taken out, or empty ones (see `KVCache`)."""
        self._rows += [PackedRow() if prefix is None else self._copied(*prefix, room) for prefix in prefixes]
        self.ids += [[] if prefix is None else list(prefix[0].ids[: prefix[1]]) for prefix in prefixes]

    @staticmethod
    def _copied(taken: TakenRow, length: int, room: int = 0) -> PackedRow:
        def copied(states: torch.Tensor) -> torch.Tensor:
            memory = states.new_empty((states.shape[0], room_for(max(length, room)), states.shape[2]))
            memory[:, :length] = states[:, :length]
            return memory

        return PackedRow([pair and (copied(pair[0]), copied(pair[1])) for pair in taken.states])

    @property
    def windows(self) -> list[int | None]:
        """The window of each attention layer, as the last forward gave it."""
        return [window for _, window in sorted(self._rows[0].windows.items())]

    @property
    def size_bytes(self) -> int:
        """Bytes that the cache occupies, columns in reserve included."""
        return sum(part.nbytes for row in self._rows for pair in row.layers if pair is not None for part in pair)


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
    """Let models with the attention ``sdpa`` take ``packed_rows``; once in a process.

    A forward that hands them on gets our attention, any other forward of any model and thread what was registered
    before.  So no configuration changes.
    """
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
