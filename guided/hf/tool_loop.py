"""The loop of a model's calls and their results, until the model answers: `guided.Guide.run`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from grammars.tools.normalise import listed_tools, normal_tools
from grammars.tools.results import result_text
from guided.hf.model.chat_template import messages_of
from guided.hf.options import Chat
from guided.output.message import Message, ToolCall
from special_tokens.errors import AnswerError, RequestError, ToolError, shown

__all__ = ["CallTool", "ToolResult", "ToolRun", "arun_tools", "run_tools"]

T = TypeVar("T", covariant=True, default=Any)

#: Name and arguments of a call -> its result, for tools without a Python function (``session.call_tool`` of MCP).
CallTool = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One call and its result: ``value``, or the ``error`` whose text the model got."""

    call: ToolCall
    value: Any = None
    error: Exception | None = None

    def to_chat(self) -> dict[str, Any]:
        """Return the message that gives the result to the model."""
        content = result_text(self.value)
        if isinstance(self.error, AnswerError | ToolError):
            content = f"Error: {self.error.message}"
        elif self.error is not None:
            content = f"Error: {type(self.error).__name__}: {self.error}"
        return {"role": "tool", "tool_call_id": self.call.id, "name": self.call.name, "content": content}


@dataclass(frozen=True, slots=True)
class ToolRun(Generic[T]):
    """A finished run: the last answer, all answers and results in order, and the conversation for the next turn."""

    message: Message[T]
    turns: tuple[Message, ...]
    results: tuple[ToolResult, ...]
    messages: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn of the model: what it is asked."""

    messages: list[dict[str, Any]]
    options: Mapping[str, Any]


def run_tools(
    chat: Callable[..., Message[T]],
    messages: Chat,
    max_turns: int,
    call_tool: CallTool | None,
    options: Mapping[str, Any],
) -> ToolRun[T]:
    """Ask ``chat``, run the calls of its answer, give it their results, and so on; see `guided.Guide.run`."""
    steps = _steps(messages, max_turns, call_tool, options)
    reply: Any = None
    while True:
        try:
            wanted = steps.send(reply)
        except StopIteration as end:
            return cast(ToolRun[T], end.value)
        reply = chat(wanted.messages, **wanted.options) if isinstance(wanted, _Turn) else _result(wanted, call_tool)


async def arun_tools(
    achat: Callable[..., Awaitable[Message[T]]],
    messages: Chat,
    max_turns: int,
    call_tool: CallTool | None,
    options: Mapping[str, Any],
) -> ToolRun[T]:
    """The same for an event loop: async functions run in it, others in threads."""
    steps = _steps(messages, max_turns, call_tool, options)
    reply: Any = None
    while True:
        try:
            wanted = steps.send(reply)
        except StopIteration as end:
            return cast(ToolRun[T], end.value)
        if isinstance(wanted, _Turn):
            reply = await achat(wanted.messages, **wanted.options)
            continue
        reply = await asyncio.to_thread(_result, wanted, call_tool, is_awaited=False)
        if inspect.isawaitable(reply.value):
            try:
                reply = ToolResult(wanted, await reply.value)
            except Exception as error:
                reply = ToolResult(wanted, error=error)


def _steps(
    messages: Chat, max_turns: int, call_tool: CallTool | None, options: Mapping[str, Any]
) -> Generator[_Turn | ToolCall, Any, ToolRun]:
    """Yield each turn of the model and each call in order, and be sent its message or result."""
    tools, tool_choice = _checked(options.get("tools"), call_tool), options.get("tool_choice")
    if not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1:
        raise RequestError(f"{shown(max_turns)} is not a count", place="max_turns", expected="an integer of 1 or more")
    history = messages_of(messages)
    turns: list[Message] = []
    results: list[ToolResult] = []
    for turn in range(max_turns + 1):
        choice = "none" if turn == max_turns else tool_choice if turn == 0 or tool_choice == "none" else "auto"
        message = yield _Turn([*history], {**options, "tools": tools, "tool_choice": choice})
        turns.append(message)
        if not message.tool_calls:
            history.append(message.to_chat())
            break
        if not message.complete:
            break  # a call that was cut cannot go into the conversation
        history.append(message.to_chat())
        for call in message.tool_calls:
            results.append((yield call))
            history.append(results[-1].to_chat())
    return ToolRun(turns[-1], tuple(turns), tuple(results), history)


def _checked(tools: Any, call_tool: CallTool | None) -> list[Any]:
    """Return the tools as a list; raise `ToolError` for one that nothing can run."""
    given = tools = listed_tools(() if tools is None else tools)
    if isinstance(tools, Iterable) and not isinstance(tools, str | Mapping):
        given = list(tools)
    for tool in normal_tools(given):
        if tool.python is None and call_tool is None:
            hint = "pass a Python function, or call_tool="
            raise ToolError("the tool has no Python function", place=f"tools.{tool.name}", hint=hint)
    return [*given]


def _result(call: ToolCall, call_tool: CallTool | None, *, is_awaited: bool = True) -> ToolResult:
    """Run one call; what it raises is its result.  ``is_awaited``: run a coroutine to its end.

    A landed call is not run: some of its arguments are not the model's.
    """
    if call.landed:
        why = "not run: the budget of tokens was too small for its arguments; call again with shorter ones"
        hint = "raise max_tokens, or leave more of the context"
        return ToolResult(call, error=ToolError(why, place=f"tool_calls.{call.name}", hint=hint))
    try:
        if call_tool is None or call.parsed is None or (call.tool is not None and call.tool.python is not None):
            value = call.run()
        else:
            value = call_tool(call.name, call.parsed)
        if not is_awaited or not inspect.isawaitable(value):
            return ToolResult(call, value)
    except Exception as error:
        return ToolResult(call, error=error)
    _check_no_event_loop(call, value)
    try:
        return ToolResult(call, asyncio.run(_awaited(value)))
    except Exception as error:
        return ToolResult(call, error=error)


def _check_no_event_loop(call: ToolCall, value: Any) -> None:
    """Raise `ToolError` where an event loop runs in this thread, which would have to wait for itself."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    getattr(value, "close", lambda: None)()
    place = f"tools.{call.name}"
    raise ToolError("an async function inside an event loop", place=place, hint="await guide.arun(...)")


async def _awaited(value: Any) -> Any:
    return await value
