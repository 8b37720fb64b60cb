"""A body of OpenAI's Chat Completions: its request, its messages and how the answer is sent.  Nothing is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.requests.read import Request, read_request
from special_tokens.errors import RequestError

__all__ = ["ChatRequest", "read_chat"]

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


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A body as read; ``messages`` have the line of its verbosity, and ``model`` is the name given."""

    request: Request
    messages: Sequence[Any]
    model: str | None = None
    is_streamed: bool = False
    with_usage: bool = False


def read_chat(body: Mapping[str, Any], *, trusted: bool = False, ignore_unknown: bool = False) -> ChatRequest:
    """Return the chat in ``body``, read as `read_request` does; raises `RequestError` naming the key at fault."""
    for key, right in _OTHER_BODIES.items():
        if isinstance(body, Mapping) and body.get(key) is not None:
            raise RequestError("not a key of Chat Completions", place=key, expected=right)
    request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
    messages, stream = request.prompt.get("messages"), request.prompt.get("stream", False)
    model, options = request.prompt.get("model"), body.get("stream_options")
    if messages is None:
        raise RequestError("there are no messages", place="messages", expected="a list of messages")
    if isinstance(messages, str):
        raise RequestError("str is not a list", place="messages", expected="a list of messages")
    if not isinstance(stream, bool):
        raise RequestError(f"{stream!r} is not true or false", place="stream")
    if not isinstance(model, str | None):
        raise RequestError(f"{type(model).__name__} is not a name", place="model", expected="a text")
    if not isinstance(options, Mapping | None):
        raise RequestError(f"{type(options).__name__} is not an object", place="stream_options", expected="an object")
    with_usage = bool((options or {}).get("include_usage") or body.get("include_usage"))
    return ChatRequest(request, _with_line(messages, _VERBOSITY.get(request.verbosity, "")), model, stream, with_usage)


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
