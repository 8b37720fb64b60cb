"""Put hidden states into the messages of a run, and compute those of any token of a message afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch

from guided.hf.cache.prefix_pool import PrefixPool
from guided.hf.hidden.last_states import LastStates
from guided.hf.hidden.prefill import Wanted, states_of
from guided.hf.hidden.settings import HiddenStates
from guided.hidden_state import LastHiddenState, Vectors
from guided.output.message import Message
from guided.rows.alone import completed

__all__ = ["on_host", "token_ids_of", "with_last_states"]


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
