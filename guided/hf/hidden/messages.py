"""Put hidden states into the messages of a run, and compute those of any token of a message afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, RowKV, TakenRow
from guided.hf.cache.prefix_pool import PrefixPool, model_state
from guided.hf.cache.self_test import Abilities, abilities_of
from guided.hf.hidden.settings import HiddenStates
from guided.hf.masks.transfer import on_device
from guided.hidden_state import LastHiddenState, Vectors
from guided.output.message import Message
from guided.rows.alone import completed
from special_tokens.errors import ModelError

__all__ = ["LastStates", "Wanted", "on_host", "states_of", "token_ids_of", "with_last_states"]


def with_last_states(
    model: Any,
    messages: Sequence[Message],
    settings: HiddenStates,
    *,
    pool: PrefixPool | None = None,
    states: LastStates | None = None,
) -> list[Message]:
    """Return ``messages``, those of the rows of one run, with the hidden states of their last tokens.

    An answer without tokens has none.  States that ``states`` lacks are computed, from the rows kept in ``pool``.
    """
    if states is not None:
        messages = [completed(message, r, partial(_seen, states, r)) for r, message in enumerate(messages)]
    missing = {
        r: Wanted(token_ids_of(m), 2) for r, m in enumerate(messages) if m.token_ids and m.last_hidden_state is None
    }
    computed = states_of(model, list(missing.values()), batch_size=settings.max_prefill_batch_size, pool=pool)
    pairs = dict(zip(missing, computed, strict=True))
    return [
        completed(message, r, partial(_filled, pairs[r], "prefill")) if r in pairs else message
        for r, message in enumerate(messages)
    ]


def _seen(states: LastStates, r: int, message: Message) -> Message:
    pair = states.around(r, len(token_ids_of(message)) - 1)
    return message if pair is None else _filled(pair, "hybrid", message)


def _filled(pair: torch.Tensor, strategy: Literal["hybrid", "prefill"], message: Message) -> Message:
    """Return the message with the states float ``[2, hidden size]`` around its last token."""
    producing, at_token = on_host(pair)
    state = LastHiddenState(producing, at_token, len(token_ids_of(message)) - 1, strategy)
    forwards = message.usage.forwards
    usage = replace(message.usage, forwards=forwards + (strategy == "prefill" and forwards > 0))
    return replace(message, last_hidden_state=state, usage=usage)


def token_ids_of(message: Message) -> tuple[int, ...]:
    """Return the tokens of prompt and answer."""
    return (*message.prompt_ids, *message.token_ids)


def on_host(states: torch.Tensor) -> Vectors:
    """Return the states as numpy arrays, float32, or float64 of a model in float64."""
    vectors: Vectors = (states if states.dtype == torch.float64 else states.float()).cpu().numpy()
    return vectors


class LastStates:
    """The hidden states around the last token of each row of one run, by row number, as its forwards showed them.

    The states of a forward are still in memory when its tokens have been chosen.  So only the states of rows that have
    just ended are copied.
    """

    def __init__(self) -> None:
        #: by row number and position: float ``[hidden size]``
        self._states: dict[tuple[int, int], torch.Tensor] = {}

    def take(
        self,
        hidden: torch.Tensor | None,
        shown: Sequence[tuple[int, int]],
        kept: Sequence[int],
        ended: Sequence[tuple[int, int] | None],
    ) -> None:
        """Copy the states of the last tokens of the rows that have ended.

        ``hidden`` float ``[rows, columns, hidden size]`` are the states of a forward.  Row ``i`` had ``shown[i][0]``
        tokens after it, of which the last ``shown[i][1]`` have columns, and the first ``kept[i]`` were kept.
        ``ended[i]`` is the row's number and its count of tokens, prompt and answer; None if the row goes on.
        """
        if hidden is None:
            return
        names: list[tuple[int, int]] = []
        places: list[tuple[int, int]] = []
        for i, ((fed, columns), right, row) in enumerate(zip(shown, kept, ended, strict=True)):
            for position in (row[1] - 2, row[1] - 1) if row is not None else ():
                if row is not None and fed - columns <= position < right:
                    names.append((row[0], position))
                    places.append((i, hidden.shape[1] - fed + position))
        if names:
            rows, at = (on_device(list(part), torch.long, hidden.device) for part in zip(*places, strict=True))
            self._states |= dict(zip(names, hidden[rows, at], strict=True))

    def around(self, number: int, position: int) -> torch.Tensor | None:
        """Return the states float ``[2, hidden size]`` before and at ``position`` of a row; None if one is missing."""
        pair = [self._states.get((number, place)) for place in (position - 1, position)]
        states = [state for state in pair if state is not None]
        return torch.stack(states) if len(states) == 2 else None


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
            pool.longest(text.ids[: -text.num_states], state, is_whole=is_whole, is_counted=False) for text in wanted
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
