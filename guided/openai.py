"""OpenAI's chat objects made of messages and events: ``chat.completion`` and ``chat.completion.chunk``.

Plain dicts, as they go over the wire; nothing of OpenAI's packages is needed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from grammars.plan.plan import Plan
from guided.output.message import Message
from guided.output.parser import ContentDelta, Event, ReasoningDelta, ToolCallArguments, ToolCallStart
from guided.sampling import TokenLogprob

__all__ = [
    "Deltas",
    "Head",
    "TokenBytes",
    "completion",
    "custom_tools",
    "end_of",
    "extras",
    "logprobs_object",
    "usage_object",
]

#: The bytes of a token by its id.
TokenBytes: TypeAlias = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Head:
    """The fields that a completion and all its chunks share."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def object(self, kind: str, choices: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Return an object of ``kind`` with these choices."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
            **more,
        }


def completion(
    head: Head, messages: Sequence[Message], token_bytes: TokenBytes, ignored: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the ``chat.completion`` of the answers to one request.

    The key ``guided`` holds the fields that OpenAI does not have: keys without effect, notes, violations.
    """
    choices = [
        {
            "index": i,
            "message": message.to_openai(),
            **end_of(message),
            "logprobs": logprobs_object(message.logprobs, token_bytes),
        }
        for i, message in enumerate(messages)
    ]
    return head.object("chat.completion", choices, usage=usage_object(messages), **extras(messages, ignored))


class Deltas:
    """The chunks of the answers to one request, in the order that clients expect.

    Id, type and name of a call are sent exactly once: clients put the pieces of a field together.  Calls of ``custom``
    tools (their names) come whole before the end, since their text is written as JSON.
    """

    def __init__(
        self, head: Head, token_bytes: TokenBytes, *, custom: Collection[str] = (), with_usage: bool = False
    ) -> None:
        self._head = head
        self._token_bytes = token_bytes
        self._custom = frozenset(custom)
        self._held: set[tuple[int, int]] = set()  # answer and index of calls of custom tools
        self._more: dict[str, Any] = {"usage": None} if with_usage else {}
        self._with_usage = with_usage

    def _chunk(self, index: int, delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None, **more}
        return self._head.object("chat.completion.chunk", [choice], **self._more)

    def first(self, index: int) -> dict[str, Any]:
        """Return the chunk that opens answer ``index``."""
        return self._chunk(index, {"role": "assistant", "content": ""})

    def of(self, index: int, events: Iterable[Event], logprobs: Sequence[TokenLogprob] = ()) -> list[dict[str, Any]]:
        """Return the chunks of events of answer ``index``; an event that no client is sent has none.

        The last chunk holds the ``logprobs`` of the tokens that the events come from.
        """
        chunks = []
        for event in events:
            if isinstance(event, ToolCallStart) and event.name in self._custom:
                self._held.add((index, event.index))
            if isinstance(event, ToolCallStart | ToolCallArguments) and (index, event.index) in self._held:
                continue
            delta = _delta(event)
            if delta is not None:
                chunks.append(self._chunk(index, delta))
        if chunks and logprobs:
            chunks[-1]["choices"][0]["logprobs"] = logprobs_object(logprobs, self._token_bytes)
        return chunks

    def last(
        self, messages: Sequence[Message], sent: Sequence[int], ignored: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return the chunks that end the answers, then the one with the usage.

        They hold the log-probabilities of the tokens after the first ``sent`` of each answer.
        """
        chunks = []
        for i, message in enumerate(messages):
            for j, call in enumerate(message.tool_calls):
                if (i, j) in self._held:
                    chunks.append(self._chunk(i, {"tool_calls": [{"index": j, **call.to_openai()}]}))
            unsent = logprobs_object(message.logprobs and message.logprobs[sent[i] :], self._token_bytes)
            chunks.append(self._chunk(i, {}, **end_of(message), logprobs=unsent))
        if chunks:
            chunks[-1] |= extras(messages, ignored)
        if self._with_usage:
            chunks.append(self._head.object("chat.completion.chunk", [], usage=usage_object(messages)))
        return chunks


def _delta(event: Event) -> dict[str, Any] | None:
    match event:
        case ContentDelta(text=text):
            return {"content": text}
        case ReasoningDelta(text=text):
            return {"reasoning_content": text}
        case ToolCallStart(index=index, id=call_id, name=name):
            function = {"name": name, "arguments": ""}
            return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        case ToolCallArguments(index=index, text=text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
    return None


def end_of(message: Message) -> dict[str, Any]:
    """Return the fields of a choice that say how its answer ended."""
    end: dict[str, Any] = {"finish_reason": message.finish_reason}
    if message.stop_reason is not None:
        end["stop_reason"] = message.stop_reason
    if message.landed is not None:
        end["landed"] = message.landed
    if calls := [i for i, call in enumerate(message.tool_calls) if call.landed]:
        end["landed_tool_calls"] = calls
    if message.finish_reason == "error":
        end["error"] = {"type": type(message.error).__name__, "message": str(message.error)}
    if message.last_hidden_state is not None:
        end["hidden_states"] = message.last_hidden_state.at_token.tolist()
    return end


def usage_object(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the usage of the answers to one prompt together."""
    used = [message.usage for message in messages]
    prompt, written = used[0].prompt_tokens, sum(usage.completion_tokens for usage in used)
    drafted, accepted = sum(usage.drafted_tokens for usage in used), sum(usage.accepted_tokens for usage in used)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": used[0].cached_tokens},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in used),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }


def extras(messages: Sequence[Message], ignored: Sequence[str]) -> dict[str, Any]:
    """Return the key ``guided`` with the fields that OpenAI does not have; nothing where there are none."""
    fields = {
        "ignored": list(ignored),
        "notes": sorted({note for message in messages for note in message.notes}),
        "violations": [text for message in messages for text in message.violations],
    }
    fields = {key: value for key, value in fields.items() if value}
    return {"guided": fields} if fields else {}


def custom_tools(plan: Plan) -> tuple[str, ...]:
    """Return the names of the plan's custom tools, as `Deltas` takes them."""
    return tuple(tool.name for tool in plan.tools if tool.kind == "custom")


def logprobs_object(logprobs: Sequence[TokenLogprob] | None, token_bytes: TokenBytes) -> dict[str, Any] | None:
    """Return the ``logprobs`` of a choice; None where none were asked for."""
    if logprobs is None:
        return None

    def entry(token: int, logprob: float) -> dict[str, Any]:
        data = token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "bytes": list(data), "logprob": max(logprob, -9999.0)}

    def whole(position: TokenLogprob) -> dict[str, Any]:
        return entry(position.token_id, position.logprob) | {"top_logprobs": [entry(*pair) for pair in position.top]}

    return {"content": [whole(position) for position in logprobs], "refusal": None}
