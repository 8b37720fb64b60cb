"""A body of OpenAI's Chat Completions: its request, its messages and how the answer is sent.  Nothing is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.requests.read import Request, read_request
from special_tokens.errors import RequestError, shown

__all__ = ["ChatRequest", "Delivery", "read_chat", "read_delivery"]

#: Keys of other endpoints, and what a Chat Completions body has instead.
_OTHER_BODIES = {
    "input": "messages (this is a body of the Responses API)",
    "instructions": "a system message (this is a body of the Responses API)",
    "prompt": "messages (this is a body of the older Completions API)",
    "functions": "tools (functions are older)",
    "function_call": "tool_choice (function_call is older)",
}

#: The line of the system text for a verbosity.
_VERBOSITY = {"low": "Answer in as few words as possible.", "high": "Answer at length and in detail."}


#: The options of a stream; without effect is all but the usage.
_STREAM_OPTIONS = ("include_usage", "include_obfuscation", "continuous_usage_stats")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The name of the model that a body gives, whether its answer is streamed, and whether a stream has the usage."""

    model: str | None
    is_streamed: bool
    with_usage: bool


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A body as read; ``messages`` have the line of its verbosity."""

    request: Request
    messages: Sequence[Any]
    delivery: Delivery


def read_chat(body: Mapping[str, Any], *, trusted: bool = False, ignore_unknown: bool = False) -> ChatRequest:
    """Return the chat in ``body``, read as `read_request` does; raises `RequestError` naming the key at fault."""
    for key, right in _OTHER_BODIES.items():
        if isinstance(body, Mapping) and body.get(key) is not None:
            raise RequestError("not a key of Chat Completions", place=key, expected=right)
    request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
    messages = request.prompt.get("messages")
    if messages is None:
        raise RequestError("there are no messages", place="messages", expected="a list of messages")
    if isinstance(messages, str):
        raise RequestError("str is not a list", place="messages", expected="a list of messages")
    line = _VERBOSITY.get(request.verbosity, "")
    return ChatRequest(request, _with_line(messages, line), read_delivery(request, ignore_unknown=ignore_unknown))


def read_delivery(request: Request, *, ignore_unknown: bool = False) -> Delivery:
    """Return how the answer to a request of any endpoint is sent; raises `RequestError` naming the key at fault."""
    given = request.prompt
    model, options = given.get("model"), given.get("stream_options", {})
    if not isinstance(model, str | None):
        raise RequestError(f"{type(model).__name__} is not a name", place="model", expected="a text")
    if not isinstance(options, Mapping):
        raise RequestError(f"{type(options).__name__} is not an object", place="stream_options", expected="an object")
    unknown = [key for key in options if key not in _STREAM_OPTIONS]
    if unknown and not ignore_unknown:
        known = " or ".join(_STREAM_OPTIONS)
        raise RequestError(f"unknown key {shown(unknown[0])}", place="stream_options", expected=known)
    switches = {key: given.get(key) for key in ("stream", "include_usage")}
    switches["stream_options.include_usage"] = options.get("include_usage")
    for place, value in switches.items():
        if not isinstance(value, bool | None):
            raise RequestError(f"{shown(value)} is not true or false", place=place)
    stream, *usage = switches.values()
    return Delivery(model, bool(stream), any(usage))


def _with_line(messages: Any, line: str) -> Any:
    """Return the chat with ``line`` at the end of its system message, which is added where none begins it."""
    if not line or not isinstance(messages, Sequence) or not messages:
        return messages
    first = messages[0]
    if not isinstance(first, Mapping) or first.get("role") not in ("system", "developer"):
        return [{"role": "system", "content": line}, *messages]
    content = first.get("content") or ""
    whole = f"{content}\n\n{line}".lstrip() if isinstance(content, str) else [*content, {"type": "text", "text": line}]
    return [{**first, "content": whole}, *messages[1:]]
