"""Ask the model again, with the reasons, after an answer that its schema or its Python type refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

from guided.hf.model.chat_template import messages_of
from guided.hf.options import Chat
from guided.output.message import Message
from special_tokens.errors import RequestError, shown

__all__ = ["aanswered", "answered"]

T = TypeVar("T")


def answered(ask: Callable[[Chat | None], Message[T]], messages: Chat | None, retries: int) -> Message[T]:
    """Return the answer of ``ask``, which is called again up to ``retries`` times while the answer is refused.

    The model gets the reasons; notes of the message say how often and why it was asked again.  Raises `RequestError` if
    ``retries`` is not a count.
    """
    steps, wanted = _begun(messages, retries)
    while True:
        try:
            wanted = steps.send(ask(wanted))
        except StopIteration as end:
            return cast(Message[T], end.value)


async def aanswered(
    ask: Callable[[Chat | None], Awaitable[Message[T]]], messages: Chat | None, retries: int
) -> Message[T]:
    """The same for an event loop."""
    steps, wanted = _begun(messages, retries)
    while True:
        message = await ask(wanted)
        try:
            wanted = steps.send(message)
        except StopIteration as end:
            return cast(Message[T], end.value)


_Steps: TypeAlias = Generator[Chat | None, Message[Any], Message[Any]]


def _begun(messages: Chat | None, retries: int) -> tuple[_Steps, Chat | None]:
    """Return what is sent each answer and yields what to ask next, and what to ask first."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise RequestError(f"{shown(retries)} is not a count", place="retries", expected="an integer of 0 or more")
    if retries and messages is None:
        raise RequestError("a prompt is not asked for again", place="retries", expected="messages")
    steps = _steps(messages, retries)
    return steps, next(steps)


def _steps(messages: Chat | None, retries: int) -> _Steps:
    message, notes = (yield messages), list[str]()
    for _ in range(retries):
        reasons = _reasons(message)
        if not reasons:
            break
        notes.append(f"an answer was refused and asked for again: {reasons}")
        messages = [*messages_of(messages), *_refusal(message, reasons)]
        used = message.usage
        message = yield messages
        message = replace(message, usage=used + message.usage)
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
