"""The objects of the Responses API: a response of items, and its events in OpenAI's order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.tools.parameters import CUSTOM_INPUT
from guided.hf.completing import AnswerForm, Completing, WrittenText
from guided.openai import extras, logprobs_object, usage_object
from guided.output.message import Message
from guided.output.parser import (
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)
from guided.sampling import TokenLogprob

__all__ = ["ResponseForm"]


@dataclass(eq=False)
class _Item:
    """An item that is being written: reasoning, message, function_call or custom_tool_call."""

    kind: str
    id: str
    index: int
    call_id: str = ""
    name: str = ""
    text: str = ""

    @property
    def input(self) -> str:
        """The text of a custom tool, which is written as JSON; of one that was cut what there is."""
        try:
            text = json.loads(self.text)[CUSTOM_INPUT]
        except (ValueError, KeyError, TypeError):
            text = self.text
        return text if isinstance(text, str) else self.text

    def part(self, logprobs: Sequence[Any]) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": list(logprobs)}

    def to_json(self, status: str, logprobs: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the item; one ``in_progress`` has no text yet."""
        head = {"id": self.id, "type": self.kind, "status": status}
        is_new = status == "in_progress"
        match self.kind:
            case "reasoning":
                return head | {"summary": [], "content": [] if is_new else [self.part(())]}
            case "message":
                return head | {"role": "assistant", "content": [] if is_new else [self.part(logprobs)]}
            case "function_call":
                fields = {"arguments": "" if is_new else self.text}
            case _:
                fields = {"input": "" if is_new else self.input}
        return head | {"call_id": self.call_id, "name": self.name} | fields


class ResponseForm(AnswerForm):
    """The response to one request of the Responses API: ``body`` as it came, ``run`` made of it."""

    def __init__(self, run: Completing, body: Mapping[str, Any]) -> None:
        self._run = run
        self._body = body
        self._id = run.head.id.removeprefix("chatcmpl-")
        self._written = WrittenText(run, lambda _, events, logprobs: self._events(events, logprobs))
        self._number = 0  # of the next event
        self._done: list[dict[str, Any]] = []  # items
        self._item: _Item | None = None
        self._logprobs: list[Any] = []  # of the message that is being written
        self._logprobs_new: list[Any] = []  # of the events that are read

    def whole(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the ``response``."""
        (message,) = messages
        logprobs = self._logprobs_of(message.logprobs or ())
        written: list[tuple[str, str, str, str]] = []  # kind, text, call id, name
        if message.reasoning:
            written.append(("reasoning", message.reasoning, "", ""))
        if message.content:
            written.append(("message", message.content, "", ""))
        for call in message.tool_calls:
            kind = "custom_tool_call" if call.type == "custom" else "function_call"
            written.append((kind, call.arguments, call.id, call.name))
        for kind, text, call_id, name in written:
            item = self._new(kind, call_id=call_id, name=name)
            item.text = text
            status = "completed" if message.complete or kind == "reasoning" else "incomplete"
            self._done.append(item.to_json(status, logprobs if kind == "message" else ()))
        return self._ended(message)

    def first(self) -> list[dict[str, Any]]:
        """Return the events that open the response."""
        response = self._response("in_progress", [], None)
        return [self._event(f"response.{kind}", response=response) for kind in ("created", "in_progress")]

    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the events that end the items and the response."""
        (message,) = messages
        if self._item is not None and message.logprobs is not None:
            self._logprobs += self._logprobs_of(message.logprobs[self._written.sent[0] :])
        events = self._stop("completed" if message.complete else "incomplete")
        response = self._ended(message)
        return [*events, self._event(f"response.{response['status']}", response=response)]

    # -- the response

    def _response(self, status: str, output: list[dict[str, Any]], usage: Any, **more: Any) -> dict[str, Any]:
        body = self._body
        asked = {
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
            "store": False,
            "temperature": body.get("temperature"),
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p"),
            "truncation": "disabled",
        }
        head = {"id": f"resp_{self._id}", "object": "response", "created_at": self._run.head.created, "status": status}
        state = {"error": None, "incomplete_details": None, "model": self._run.head.model, "output": output}
        return head | state | asked | {"usage": usage} | more

    def _ended(self, message: Message) -> dict[str, Any]:
        counts = usage_object([message])
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": counts["prompt_tokens_details"],
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": message.usage.reasoning_tokens},
            "total_tokens": counts["total_tokens"],
        }
        more = extras([message], self._run.ignored)
        if message.finish_reason != "length":
            return self._response("completed", self._done, usage, **more)
        details = {"incomplete_details": {"reason": "max_output_tokens"}}
        return self._response("incomplete", self._done, usage, **details, **more)

    # -- events

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **more}

    def _events(self, events: Sequence[Event], logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        self._logprobs_new = self._logprobs_of(logprobs)
        for event in events:
            match event:
                case ReasoningDelta(text=text):
                    out += self._delta("reasoning", text)
                case ContentDelta(text=text):
                    out += self._delta("message", text)
                case ToolCallStart(id=call_id, name=name):
                    kind = "custom_tool_call" if name in self._run.custom else "function_call"
                    out += [*self._stop(), *self._start(kind, call_id=call_id, name=name)]
                case ToolCallArguments(text=text) if self._item is not None:
                    out += self._delta(self._item.kind, text)
                case ToolCallEnd():
                    out += self._stop()
        return out

    def _new(self, kind: str, *, call_id: str = "", name: str = "") -> _Item:
        prefix = {"reasoning": "rs", "message": "msg", "function_call": "fc"}.get(kind, "ctc")
        index = len(self._done)
        return _Item(kind, f"{prefix}_{self._id}_{index}", index, call_id, name)

    def _start(self, kind: str, **call: str) -> list[dict[str, Any]]:
        item = self._item = self._new(kind, **call)
        events = [self._of("response.output_item.added", item, item=item.to_json("in_progress"))]
        if kind in ("message", "reasoning"):
            events.append(self._of("response.content_part.added", item, content_index=0, part=item.part(())))
        return events

    def _of(self, kind: str, about: _Item, **more: Any) -> dict[str, Any]:
        item_id = {} if kind.startswith("response.output_item") else {"item_id": about.id}
        return self._event(kind, output_index=about.index, **item_id, **more)

    def _delta(self, kind: str, text: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        if self._item is None or self._item.kind != kind:
            events = [*self._stop(), *self._start(kind)]
        item = self._item
        assert item is not None
        item.text += text
        match kind:
            case "message":
                new, self._logprobs_new = self._logprobs_new, []
                self._logprobs += new
                more = {"content_index": 0, "delta": text, "logprobs": new}
                events.append(self._of("response.output_text.delta", item, **more))
            case "reasoning":
                events.append(self._of("response.reasoning_text.delta", item, content_index=0, delta=text))
            case "function_call":
                events.append(self._of("response.function_call_arguments.delta", item, delta=text))
        return events

    def _stop(self, status: str = "completed") -> list[dict[str, Any]]:
        """Return the events that end the item that is being written."""
        item, self._item = self._item, None
        if item is None:
            return []
        logprobs, self._logprobs = self._logprobs, []
        events: list[dict[str, Any]] = []
        match item.kind:
            case "message":
                more = {"content_index": 0, "text": item.text, "logprobs": logprobs}
                events.append(self._of("response.output_text.done", item, **more))
            case "reasoning":
                events.append(self._of("response.reasoning_text.done", item, content_index=0, text=item.text))
            case "function_call":
                more = {"name": item.name, "arguments": item.text}
                events.append(self._of("response.function_call_arguments.done", item, **more))
            case _:  # whole: its text is written as JSON
                events.append(self._of("response.custom_tool_call_input.delta", item, delta=item.input))
                events.append(self._of("response.custom_tool_call_input.done", item, input=item.input))
        if item.kind in ("message", "reasoning"):
            events.append(self._of("response.content_part.done", item, content_index=0, part=item.part(logprobs)))
        self._done.append(item.to_json(status, logprobs))
        return [*events, self._of("response.output_item.done", item, item=self._done[-1])]

    def _logprobs_of(self, logprobs: Sequence[TokenLogprob]) -> list[Any]:
        made = logprobs_object(logprobs, self._run.token_bytes)
        return made["content"] if made else []
