"""The hidden states of an answer's tokens, computed after it."""

from __future__ import annotations

from collections.abc import Sequence

from guided.hf.guide import Guide
from guided.hf.hidden.messages import StateKind, answer_states
from guided.hf.model.chat_template import chat_digests, messages_of
from guided.hf.options import Chat
from guided.hidden_state import Vectors
from guided.output.message import Message

__all__ = ["hidden_states"]


def hidden_states(
    guide: Guide,
    messages: Chat,
    message: Message,
    *,
    positions: Sequence[int] | int = (-1,),
    state: StateKind = "at_token",
) -> Vectors:
    """Return the last layer's states after the final norm at tokens of an answer, ``[positions, hidden size]``.

    ``positions`` are indices into ``message.token_ids``, negative ones from its end.  ``state="producing"`` asks for
    the states from which these tokens were chosen, each one position earlier.  ``messages`` are what was answered, and
    may have gone on since; what is kept of the answer is not computed again.  Raises `RequestError` for an index out of
    range or a message of another chat, `ModelError` for a model that shows no hidden states.
    """
    chat = chat_digests(messages_of(messages))
    return answer_states(guide.context.model, message, chat, positions, state, guide.context.pool)
