"""Put hidden states into the messages of a run, and compute those of any token of a message afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any, Literal, get_args

import torch

from guided.hf.cache.prefix_pool import PrefixPool
from guided.hf.hidden.last_states import LastStates
from guided.hf.hidden.prefill import Wanted, states_of
from guided.hf.hidden.self_test import check_hidden_states
from guided.hf.hidden.settings import HiddenStates
from guided.hidden_state import LastHiddenState, Vectors
from guided.output.message import Message
from guided.rows.alone import completed
from special_tokens.errors import RequestError, shown

__all__ = ["StateKind", "answer_states", "with_last_states"]

#: The state at a token, or the one from which it was chosen.
StateKind = Literal["at_token", "producing"]


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
    missing = {r: Wanted(_ids(m), 2) for r, m in enumerate(messages) if m.token_ids and m.last_hidden_state is None}
    found = states_of(model, list(missing.values()), batch_size=settings.max_prefill_batch_size, pool=pool)
    pairs = dict(zip(missing, found, strict=True))
    return [
        completed(message, r, partial(_filled, pairs[r], "prefill")) if r in pairs else message
        for r, message in enumerate(messages)
    ]


def _seen(states: LastStates, r: int, message: Message) -> Message:
    pair = states.around(r, len(_ids(message)) - 1)
    return message if pair is None else _filled(pair, "hybrid", message)


def _filled(pair: torch.Tensor, strategy: Literal["hybrid", "prefill"], message: Message) -> Message:
    """Return the message with the states float ``[2, hidden size]`` around its last token."""
    producing, at_token = _on_host(pair)
    state = LastHiddenState(producing, at_token, len(_ids(message)) - 1, strategy)
    forwards = message.usage.forwards
    usage = replace(message.usage, forwards=forwards + (strategy == "prefill" and forwards > 0))
    return replace(message, last_hidden_state=state, usage=usage)


def answer_states(
    model: Any,
    message: Message,
    chat: Sequence[int],
    positions: Sequence[int] | int,
    kind: StateKind,
    pool: PrefixPool | None,
) -> Vectors:
    """Return the states ``[positions, hidden size]`` of tokens of an answer; ``chat`` are the digests of its chat."""
    _check_message(message, chat, kind)
    check_hidden_states(model)
    size = len(message.token_ids)
    offset = len(_ids(message)) - size - (kind == "producing")
    wanted = positions if isinstance(positions, Iterable) else [positions]
    places = [offset + _index(at, size) for at in wanted]
    if not places:
        raise RequestError("no position is given", place="positions", expected="at least one index")
    first, end = min(places), max(places) + 1
    (states,) = states_of(model, [Wanted(_ids(message)[:end], end - first)], pool=pool)
    return _on_host(states[[place - first for place in places]])


def _index(at: object, size: int) -> int:
    """Return the index ``at`` of ``size`` tokens, counted from the first."""
    try:
        found = index(at)  # type: ignore[arg-type]
    except TypeError:
        found = size
    if isinstance(at, bool) or not -size <= found < size:
        raise RequestError(
            f"{shown(at)} is out of range",
            place="positions",
            expected=f"indices of the answer's {size} tokens, negative ones from its end",
        )
    return found % size


def _check_message(message: object, chat: Sequence[int], kind: object) -> None:
    if not isinstance(message, Message) or message.prompt is None:
        raise RequestError(
            "the message has no prompt", place="message", expected="a message that a guide returned for this chat"
        )
    answered = message.prompt.chat
    if tuple(chat[: len(answered)]) != answered:
        raise RequestError("the message answers another chat", place="chat", expected="the chat that it answers")
    if kind not in get_args(StateKind):
        raise RequestError(f"unknown state {shown(kind)}", place="state", expected="at_token or producing")


def _ids(message: Message) -> tuple[int, ...]:
    """The tokens of prompt and answer."""
    return (*(message.prompt.token_ids if message.prompt is not None else ()), *message.token_ids)


def _on_host(states: torch.Tensor) -> Vectors:
    found: Vectors = (states if states.dtype == torch.float64 else states.float()).cpu().numpy()
    return found
