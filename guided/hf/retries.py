"""Ask the model again, with the reasons, after an answer that its schema or its Python type refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from guided.hf.model.chat_template import messages_of
from guided.hf.options import Chat
from guided.output.message import Message
from special_tokens.errors import RequestError, shown

__all__ = ["answered"]

T = TypeVar("T")


def answered(ask: Callable[[Chat | None], Message[T]], messages: Chat | None, retries: int) -> Message[T]:
    """Return the answer of ``ask``, which is called again up to ``retries`` times while the answer is refused.

    The model gets the reasons; notes of the message say how often and why it was asked again.  Raises `RequestError` if
    ``retries`` is no count.
    """
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise RequestError(f"{shown(retries)} is no count", place="retries", expected="an integer of 0 or more")
    if retries and messages is None:
        raise RequestError("a prompt is not asked for again", place="retries", expected="messages")
    message, notes = ask(messages), list[str]()
    for _ in range(retries):
        reasons = _reasons(message)
        if not reasons:
            break
        notes.append(f"an answer was refused and asked for again: {reasons}")
        messages = [*messages_of(messages), *_refusal(message, reasons)]
        message = ask(messages)
    return replace(message, notes=(*message.notes, *notes)) if notes else message


def _reasons(message: Message[Any]) -> str:
    """The reasons for which an answer is refused, empty where it is not."""
    refused = [call.parse_error for call in message.tool_calls if call.parse_error is not None]
    if message.parse_error is not None and not refused:
        refused = [message.parse_error]
    return "; ".join([*message.violations, *(f"{error.place}: {error.message}" for error in refused)])


def _refusal(message: Message[Any], reasons: str) -> list[dict[str, Any]]:
    """The refused answer, and the messages that refuse it."""
    if not message.tool_calls or not message.complete or message.violations:
        text = f"That answer was refused: {reasons}. Answer again without this mistake."
        return [{"role": "assistant", "content": message.content or ""}, {"role": "user", "content": text}]
    results = []
    for call in message.tool_calls:
        text = "Not run: another call was refused."
        if call.parse_error is not None:
            text = f"Error: {call.parse_error.message}. Call again without this mistake."
        results.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text})
    return [message.to_chat(), *results]
