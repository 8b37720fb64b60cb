"""Translate Responses API bodies into Chat Completions bodies: each item of ``input`` goes into a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.requests.body import check_role
from special_tokens.errors import RequestError, shown

__all__ = ["chat_body"]

_OTHER_BODIES = {
    "messages": "input (this is a body of Chat Completions)",
    "prompt": "input, with instructions",
    "n": "one request for each answer",
}
_LOGPROBS = "message.output_text.logprobs"
#: Values of ``include`` that clients send by default and that have no effect here: no answer holds such things.
_IGNORED_INCLUDES = (
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
_ITEMS = (
    "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning"
)  # fmt: skip


def chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Chat Completions body that asks for the same; raises `RequestError` with the place in ``body``."""
    for key, right in _OTHER_BODIES.items():
        if body.get(key) is not None:
            raise RequestError("not a key of the Responses API", place=key, expected=right)
    chat = {key: value for key, value in body.items() if key not in ("input", "instructions", "include")}
    include = body.get("include") or []
    if not isinstance(include, list) or any(name not in (_LOGPROBS, *_IGNORED_INCLUDES) for name in include):
        raise RequestError(f"{shown(include)} is not supported", place="include", expected=f"[{_LOGPROBS!r}]")
    if _LOGPROBS in include or body.get("top_logprobs"):
        chat["logprobs"] = True
    elif "top_logprobs" in chat:
        del chat["top_logprobs"]
    return {**chat, "messages": _messages(body)}


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    items, system = body.get("input"), body.get("instructions")
    messages: list[dict[str, Any]] = []
    if system is not None:
        messages.append({"role": "system", "content": _text(system, "instructions")})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise RequestError("the input is missing or empty", place="input", expected="a text or a list of items")
    for i, item in enumerate(items):
        place = f"input[{i}]"
        if not isinstance(item, Mapping):
            raise RequestError(f"{type(item).__name__} is not an item", place=place, expected="an object")
        _add_item(messages, item, place)
    return messages


def _add_item(messages: list[dict[str, Any]], item: Mapping[str, Any], place: str) -> None:
    """Add an item to the messages; reasoning, calls and text of one answer go into one message of the assistant."""
    kind = item.get("type", "message")
    match kind:
        case "message":
            content = item.get("content")
            check_role(item.get("role"), f"{place}.role")
            if not isinstance(content, str):
                _text(content, f"{place}.content")  # only checked: a message may have a list of parts as content
            message = {"role": item.get("role"), "content": content}
            last = messages[-1] if messages else {}
            if message["role"] == "assistant" and last.get("role") == "assistant" and last.get("content") is None:
                last["content"] = content  # reasoning or calls have begun this message
            else:
                messages.append(message)
        case "function_call" | "custom_tool_call":
            for key in ("call_id", "name"):
                if not isinstance(item.get(key), str):
                    raise RequestError("not a text", place=f"{place}.{key}", expected="a text")
            if kind == "function_call":
                called = {"type": "function", "function": _call_body(item, "arguments", place)}
            else:
                called = {"type": "custom", "custom": _call_body(item, "input", place)}
            _assistant_message(messages).setdefault("tool_calls", []).append({"id": item["call_id"], **called})
        case "function_call_output" | "custom_tool_call_output":
            output = _text(item.get("output"), f"{place}.output")
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        case "reasoning":
            parts = item.get("content") or []
            if not isinstance(parts, list):
                raise RequestError("not a list", place=f"{place}.content", expected="a list of parts")
            texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
            if text := "".join(text for text in texts if isinstance(text, str)):
                messages.append({"role": "assistant", "content": None, "reasoning_content": text})
        case _:
            raise RequestError(f"{shown(kind)} is not supported", place=f"{place}.type", expected=" or ".join(_ITEMS))


def _call_body(item: Mapping[str, Any], key: str, place: str) -> dict[str, Any]:
    if not isinstance(item.get(key), str):
        raise RequestError("not a text", place=f"{place}.{key}", expected="a text")
    return {"name": item["name"], key: item[key]}


def _assistant_message(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's message to which a call is added: the last message, or a new one."""
    if not messages or messages[-1].get("role") != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _text(value: Any, place: str) -> str:
    """The text of a value that is a text, or the joined texts of a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise RequestError(f"{type(value).__name__} is not a text", place=place, expected="a text or a list of parts")
    texts: list[str] = []
    for i, part in enumerate(value):
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise RequestError("a part without text", place=f"{place}[{i}]", expected='{"type": "input_text", ...}')
        texts.append(text)
    return "".join(texts)
