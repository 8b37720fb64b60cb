"""A KV cache whose rows are fed as one packed sequence: nothing is padded, and rows join and leave without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache

from guided.hf.cache.kv_cache import KVCache, TakenRow
from guided.hf.cache.packed_attention import ARGUMENT, PackedRow, register
from guided.hf.cache.row_layers import room_for
from guided.hf.masks.transfer import on_device

__all__ = ["PackedKV"]


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
        states = [pair and (pair[0][:, :n], pair[1][:, :n]) for pair in self._rows[row].layers]
        if copy:
            states = [pair and (pair[0].clone(), pair[1].clone()) for pair in states]
        return TakenRow(tuple(self.ids[row]), tuple(states))

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
