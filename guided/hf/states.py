"""The hidden states of an answer's tokens, computed after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Literal, get_args

from guided.hf.guide import Guide
from guided.hf.hidden.messages import Wanted, on_host, states_of, token_ids_of
from guided.hf.hidden.settings import check_hidden_states
from guided.hidden_state import Vectors
from guided.output.message import Message
from special_tokens.errors import RequestError, shown

__all__ = ["hidden_states"]

#: The state at a token, or the one from which it was chosen.
StateKind = Literal["at_token", "producing"]


def hidden_states(
    guide: Guide,
    message: Message,
    *,
    positions: Sequence[int] | int = (-1,),
    state: StateKind = "at_token",
) -> Vectors:
    """Return the last layer's states after the final norm at tokens of an answer, ``[positions, hidden size]``.

    ``positions`` are indices into ``message.token_ids``, negative ones from its end.  ``state="producing"`` asks for
    the states from which these tokens were chosen, each one position earlier.  What is kept of the answer is not
    computed again.  Raises `RequestError` for an index out of range, `ModelError` for a model that shows no hidden
    states.
    """
    _check_arguments(guide, message, state)
    check_hidden_states(guide.model)
    size = len(message.token_ids)
    offset = len(token_ids_of(message)) - size - (state == "producing")
    wanted = positions if isinstance(positions, Iterable) else [positions]
    places = [offset + _index(at, size) for at in wanted]
    if not places:
        raise RequestError("no position is given", place="positions", expected="at least one index")
    first, end = min(places), max(places) + 1
    (states,) = states_of(guide.model, [Wanted(token_ids_of(message)[:end], end - first)], pool=guide.context.pool)
    return on_host(states[[place - first for place in places]])


def _index(at: object, size: int) -> int:
    """Return the index ``at`` of ``size`` tokens, counted from the first."""
    try:
        place = index(at)  # type: ignore[arg-type]
    except TypeError:
        place = size
    if isinstance(at, bool) or not -size <= place < size:
        raise RequestError(
            f"{shown(at)} is out of range",
            place="positions",
            expected=f"indices of the answer's {size} tokens, negative ones from its end",
        )
    return place % size


def _check_arguments(guide: object, message: object, kind: object) -> None:
    if not isinstance(guide, Guide):
        expected = "hidden_states(guide, message)"
        raise RequestError(f"{type(guide).__name__} is not a guide", place="guide", expected=expected)
    if not isinstance(message, Message) or not message.prompt_ids:
        raise RequestError("the message has no prompt", place="message", expected="a message that a guide returned")
    if kind not in get_args(StateKind):
        raise RequestError(f"unknown state {shown(kind)}", place="state", expected="at_token or producing")
