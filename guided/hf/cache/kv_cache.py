"""The KV caches of the decode loop: a cache takes chunks of token ids, runs the model and returns logits."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from guided.hf.cache.head_input import head_input, last_columns
from guided.hf.cache.row_layers import Columns, RowCache, copy_of
from guided.hf.cache.step_kv import CACHE_NAMES, cache_of
from guided.hf.masks.transfer import on_device
from special_tokens.errors import ModelError

__all__ = ["AppendKV", "KVCache", "RowKV", "TakenRow", "attention_masks"]


@dataclass(frozen=True)
class TakenRow:
    """One row copied out of a cache: its token ids and the states that belong to them; ``put`` copies it in again."""

    ids: tuple[int, ...]
    states: Any

    @property
    def size_bytes(self) -> int:
        """Bytes of the states."""
        return _size_of(self.states)


class _Forward:
    """One way of calling a model: which of the optional arguments its forward takes."""

    def __init__(self, model: Any) -> None:
        self.model = model
        names = inspect.signature(model.forward).parameters
        self.cache_name = next((name for name in CACHE_NAMES if name in names), CACHE_NAMES[-1])
        #: A forward that names no cache hands its arguments on: to a model that takes the usual ones.
        self._hands_on = self.cache_name not in names
        self.takes_positions = self._hands_on or "position_ids" in names
        self.takes_keep = "logits_to_keep" in names

    @cached_property
    def device(self) -> torch.device:
        """The device on which the model takes its input; looked up once."""
        device: torch.device = self.model.get_input_embeddings().weight.device
        return device

    def __call__(
        self, ids: torch.Tensor, cache: Any, keep: int | torch.Tensor, hidden: bool, **inputs: Any
    ) -> tuple[Any, ...]:
        """Return the logits ``[rows, keep, vocabulary]``, the cache, and the hidden states of the same columns.

        ``keep`` is a number of last columns, or int64 ``[keep]``: their indices, for a model that takes them.
        """
        inputs |= {"logits_to_keep": keep} if self.takes_keep else {}
        inputs |= {} if cache is None else {self.cache_name: cache}
        with torch.no_grad(), head_input(self.model, hidden) as seen:
            out = self.model(input_ids=ids, use_cache=True, return_dict=True, **inputs)
        size = keep if isinstance(keep, int) else len(keep)
        return out.logits[:, -size:], cache_of(out), last_columns(seen, size)


class KVCache:
    """The KV cache of a batch: what its kinds share, and the contract that they fulfil.

    ``ids[r]`` are the token ids of row ``r`` whose states it holds.  After a feed with ``hidden``, the field ``hidden``
    is what enters the output embeddings, ``[rows, columns, hidden size]``, columns as the logits have them.
    """

    def __init__(self, model: Any, rows: int) -> None:
        self.ids: list[list[int]] = [[] for _ in range(rows)]
        self.hidden: torch.Tensor | None = None
        self._forward = _Forward(model)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.ids)

    def feed(
        self, chunks: Sequence[Sequence[int]], keep: int | Sequence[int] = 1, hidden: bool = False
    ) -> torch.Tensor:
        """Run one forward over new tokens, ``chunks[r]`` for row ``r``; return logits ``[rows, keep, vocabulary]``.

        The logits are right-aligned: ``[:, -1]`` belongs to the newest token of each row; there are at most as many
        columns as the longest chunk has tokens.  Columns before a row's own ``keep`` and logits of a row with an empty
        chunk, which stays as it is, mean nothing.  ``ids`` grow after the forward; if the model raises, the cache is as
        before.
        """
        raise NotImplementedError

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; a row may be repeated, and its copies are independent."""
        raise NotImplementedError

    def crop(self, row: int, length: int) -> None:
        """Forget the tokens of ``row`` after its first ``length``; nothing is moved."""
        if not 0 <= length <= len(self.ids[row]):
            raise ValueError(f"row {row} has {len(self.ids[row])} tokens, it cannot be cropped to {length}")
        del self.ids[row][length:]

    def take(self, row: int, copy: bool = True) -> TakenRow:
        """Copy a row out; without ``copy`` it shares the cache's memory, and is good until the row goes on."""
        raise NotImplementedError

    def put(self, taken: TakenRow) -> int:
        """Append a row that was taken out of a cache of the same model; return its index."""
        self.extend([(taken, len(taken.ids))])
        return len(self) - 1

    def extend(self, prefixes: Sequence[tuple[TakenRow, int] | None], room: int = 0) -> None:
        """Append rows: a copy of the first tokens of a row that was taken out, or an empty row for None.

        There is room for ``room`` tokens a row before the cache has to grow.
        """
        raise NotImplementedError

    @property
    def shares_memory(self) -> bool:
        """Whether the rows lie in one piece of memory, so that one that is kept must be copied."""
        return False

    def num_columns(self, counts: Sequence[int]) -> int:
        """The columns that a forward computes for chunks of these sizes: all tokens."""
        return sum(counts)

    @property
    def size_bytes(self) -> int:
        """Bytes that the cache occupies, columns in reserve included."""
        raise NotImplementedError

    def _lengths(self) -> list[int]:
        return [len(ids) for ids in self.ids]

    def _check(self, chunks: Sequence[Sequence[int]]) -> None:
        if len(chunks) != len(self.ids) or not any(chunks):
            raise ValueError(f"expected {len(self.ids)} chunks, at least one of them with tokens; got {len(chunks)}")

    def _append(self, chunks: Sequence[Sequence[int]]) -> None:
        for ids, chunk in zip(self.ids, chunks, strict=True):
            ids.extend(chunk)


class RowKV(KVCache):
    """A cache whose rows have lengths of their own: for models of full, sliding or chunked attention.

    Any beginning of a row that was taken out can be put in.

    With rows of equal lengths and chunks it needs ``Abilities.crop``, otherwise ``Abilities.ragged``.
    """

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__(model, rows)
        self._cache = RowCache()

    def feed(
        self, chunks: Sequence[Sequence[int]], keep: int | Sequence[int] = 1, hidden: bool = False
    ) -> torch.Tensor:
        """Run one forward over new tokens, any number per row (see `KVCache`)."""
        self._check(chunks)
        keep = keep if isinstance(keep, int) else max(1, *keep)
        columns = Columns(self._lengths(), [len(chunk) for chunk in chunks])
        device = self._forward.device
        ids = columns.send(chunks, device)
        inputs: dict[str, Any] = {}
        if self._forward.takes_positions:
            inputs["position_ids"] = columns.positions(device)
        if not columns.even:
            model = self._forward.model
            positions = columns.positions(device)
            inputs["attention_mask"] = attention_masks(model.config, positions, columns.total, model.dtype)
        self._cache.columns = columns
        logits, _, self.hidden = self._forward(ids, self._cache, keep, hidden, **inputs)
        self._append(chunks)
        return logits

    def select(self, rows: Sequence[int]) -> None:
        """Keep, reorder or repeat rows."""
        if list(rows) != list(range(len(self))):
            chosen = [list(self.ids[row]) for row in rows]
            self.ids = [[] for _ in self.ids]  # if this breaks off, nothing is known of any row
            self._cache.select_rows(rows, max(map(len, chosen), default=0))
            self.ids = chosen

    def take(self, row: int, copy: bool = True) -> TakenRow:
        """Copy a row out (see `KVCache`)."""
        states = self._cache.view_row(row, len(self.ids[row]))
        return TakenRow(tuple(self.ids[row]), copy_of(states) if copy else states)

    def extend(self, prefixes: Sequence[tuple[TakenRow, int] | None], room: int = 0) -> None:
        """Append rows: copies of the beginnings of rows that were taken out, or empty ones (see `KVCache`)."""
        states = [None if prefix is None else prefix[0].states for prefix in prefixes]
        lengths = [0 if prefix is None else prefix[1] for prefix in prefixes]
        if not self.ids:
            self._cache = RowCache()
        self._cache.append_rows(states, lengths, room, len(self), max(self._lengths(), default=0))
        self.ids += [[] if prefix is None else list(prefix[0].ids[: prefix[1]]) for prefix in prefixes]

    @property
    def shares_memory(self) -> bool:
        """Whether there are several rows."""
        return len(self) > 1

    def num_columns(self, counts: Sequence[int]) -> int:
        """The rows times the longest chunk."""
        return len(counts) * max(counts, default=0)

    @property
    def size_bytes(self) -> int:
        """Bytes that the cache occupies, columns in reserve included."""
        return sum(_size_of((layer.keys, layer.values)) for layer in self._cache.stored())


class AppendKV(KVCache):
    """The cache that the model's own forward makes, for hybrid and recurrent models: all chunks of equal length.

    Needs ``Abilities.several`` for chunks of several tokens after the first, ``Abilities.snapshot`` for take and put.
    """

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__(model, rows)
        self._cache: Any = None

    def feed(
        self, chunks: Sequence[Sequence[int]], keep: int | Sequence[int] = 1, hidden: bool = False
    ) -> torch.Tensor:
        """Run one forward over new tokens, the same number for each row (see `KVCache`).

        If the model raises, the cache cannot be trusted any more: its rows are gone, and `ids` are empty lists.
        """
        self._check(chunks)
        keep = keep if isinstance(keep, int) else max(1, *keep)
        if len(set(map(len, chunks))) > 1:
            raise ValueError("this model's cache takes chunks of equal length only")
        device = self._forward.device
        inputs: dict[str, Any] = {}
        if self._forward.takes_positions:
            start = len(self.ids[0])
            places = torch.arange(start, start + len(chunks[0]), device=device)
            inputs["position_ids"] = places.expand(len(chunks), -1)
        ids = on_device([list(chunk) for chunk in chunks], torch.long, device)
        cache, self._cache, before = self._cache, None, self.ids
        self.ids = [[] for _ in before]
        logits, self._cache, self.hidden = self._forward(ids, cache, keep, hidden, **inputs)
        self.ids = before
        self._append(chunks)
        return logits

    def select(self, rows: Sequence[int]) -> None:
        """Keep, reorder or repeat rows."""
        if list(rows) != list(range(len(self))):
            if not rows:
                self._cache = None
            if self._cache is not None:
                self._cache.reorder_cache(on_device(list(rows), torch.long, self._forward.device))
            self.ids = [list(self.ids[row]) for row in rows]

    def crop(self, row: int, length: int) -> None:
        """Raise `ModelError` unless ``length`` is the row's own: these caches cannot go back to an earlier state."""
        if length != len(self.ids[row]):
            raise ModelError(
                f"the cache of {type(self._forward.model).__name__} cannot forget tokens",
                hint="take a snapshot with take() before the tokens, and put() it back",
            )

    def take(self, row: int, copy: bool = True) -> TakenRow:
        """Copy the only row out (see `KVCache`)."""
        self._check_single(row == 0 and len(self) == 1)
        return TakenRow(tuple(self.ids[0]), deepcopy(self._cache) if copy else self._cache)

    def extend(self, prefixes: Sequence[tuple[TakenRow, int] | None], room: int = 0) -> None:
        """Append empty rows, or copy one whole row that was taken out into a cache that has none."""
        self._check_single(len(self) == 0 and (len(prefixes) == 1 or not any(prefixes)))
        self._cache = deepcopy(prefixes[0][0].states) if prefixes[0] is not None else None
        self.ids = [[] if prefix is None else list(prefix[0].ids) for prefix in prefixes]

    def _check_single(self, single: bool) -> None:
        if not single:
            raise ModelError(
                f"rows of {type(self._forward.model).__name__} cannot be taken out of a batch or put into one",
                hint="take from a cache of one row, put into AppendKV(model, rows=0)",
            )

    @property
    def size_bytes(self) -> int:
        """Bytes that the cache occupies."""
        return _size_of(self._cache)


def _size_of(states: Any) -> int:
    storages = (tensor.untyped_storage() for tensor in _tensors(states))
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested containers and caches."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value))


def attention_masks(config: Any, positions: torch.Tensor, columns: int, dtype: torch.dtype) -> Any:
    """Return the ``attention_mask`` of rows of unlike lengths: one ``[rows, 1, queries, columns]``, or a dict of them.

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
