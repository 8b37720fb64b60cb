"""Hidden states of finished texts, computed from kept rows or else from the whole text, several texts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, RowKV, TakenRow
from guided.hf.cache.prefix_pool import PrefixPool, model_state
from guided.hf.cache.self_test import Abilities, abilities_of
from special_tokens.errors import ModelError

__all__ = ["Wanted", "states_of"]

#: Texts of one forward are longer than its shortest one by this factor at most.
_MAX_LENGTH_RATIO = 1.1

#: Columns of one forward of which states are wanted: the model makes logits of them all.
_MAX_COLUMNS = 128


class Wanted(NamedTuple):
    """The states of the last ``num_states`` tokens of ``ids`` are wanted."""

    ids: tuple[int, ...]
    num_states: int


def states_of(
    model: Any, wanted: Sequence[Wanted], *, batch_size: int = 8, pool: PrefixPool | None = None
) -> list[torch.Tensor]:
    """Return the states float ``[num_states, hidden size]`` of each text; rows kept in ``pool`` are not computed again.

    At most ``batch_size`` texts go into one forward, and only one of a model whose rows cannot differ in length.
    """
    abilities = abilities_of(model)
    size = batch_size if abilities.ragged else 1
    states: dict[int, torch.Tensor] = {}
    for group in _groups([len(text.ids) for text in wanted], size):
        states |= zip(group, _states(model, abilities, [wanted[i] for i in group], pool), strict=True)
    return [states[i] for i in range(len(wanted))]


def _groups(lengths: Sequence[int], size: int) -> list[list[int]]:
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if groups and len(groups[-1]) < size and lengths[i] <= _MAX_LENGTH_RATIO * lengths[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _states(model: Any, abilities: Abilities, wanted: Sequence[Wanted], pool: PrefixPool | None) -> list[torch.Tensor]:
    cache: KVCache = RowKV(model, 0) if abilities.crop else AppendKV(model, 0)
    chunks = [list(text.ids) for text in wanted]
    kept: list[tuple[TakenRow, int] | None] = [None] * len(wanted)
    if pool is not None and pool.is_on and abilities.several:
        state, is_whole = model_state(model), isinstance(cache, AppendKV)
        kept = [
            pool.longest(text.ids, len(text.ids) - text.num_states, state, is_whole=is_whole, is_counted=False)
            for text in wanted
        ]
        chunks = [chunk[0 if row is None else row[1] :] for chunk, row in zip(chunks, kept, strict=True)]
    cache.extend(kept, max(len(text.ids) for text in wanted))
    count = max(text.num_states for text in wanted)
    columns = []
    for pieces, keep in _pieces(chunks, count, _MAX_COLUMNS if abilities.several else count):
        cache.feed(pieces, keep=keep, hidden=True)
        if cache.hidden is None:
            raise ModelError(
                f"a forward of {type(model).__name__} shows no hidden state",
                place="return_last_hidden_state",
                expected="a model that runs its modules as Python calls",
                hint="pass the model as it was before it was compiled",
            )
        columns.append(cache.hidden)
    states = torch.cat(columns, dim=1)
    return [states[r, states.shape[1] - text.num_states :] for r, text in enumerate(wanted)]


def _pieces(chunks: Sequence[list[int]], count: int, most: int) -> Iterator[tuple[list[list[int]], int]]:
    """Cut chunks, which end together, so that of the last ``count`` columns at most ``most`` are in one piece.

    Returns each piece with its columns of these.
    """
    done = [0] * len(chunks)
    for left in range(count, 0, -most):
        ends = [max(0, len(chunk) - max(0, left - most)) for chunk in chunks]
        yield [chunk[a:b] for chunk, a, b in zip(chunks, done, ends, strict=True)], min(left, most)
        done = ends
