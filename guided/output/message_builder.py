"""A `Message` built from the parser's events."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grammars.plan.plan import Plan, ResponsePlan
from grammars.python_types.adapter import read_value
from grammars.python_types.partial import partial_value
from grammars.tools.parameters import CUSTOM_INPUT, arguments_schema, pointer
from guided.engine.counters import Guidance
from guided.output.message import FinishReason, Message, ToolCall, Usage
from guided.output.parser import (
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    UnfinishedMarkup,
)
from guided.validation.validate import NOT_VALIDATED
from guided.validation.validate import violations as violations_of
from special_tokens.errors import GuidedError, ParseError

__all__ = ["MessageBuilder"]


@dataclass
class _Call:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    complete: bool = False


class MessageBuilder:
    """Collects events into a `Message`."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._unfinished: UnfinishedMarkup | None = None
        self._masked = False

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case ReasoningDelta(text=text):
                    self._reasoning.append(text)
                case ContentDelta(text=text):
                    self._content.append(text)
                case ToolCallStart(index=index, id=call_id, name=name):
                    self._calls[index] = _Call(call_id, name)
                case ToolCallArguments(index=index, text=text):
                    self._calls[index].arguments.append(text)
                case ToolCallEnd(index=index):
                    self._calls[index].complete = True
                case UnfinishedMarkup():
                    self._unfinished = event

    def message(
        self,
        *,
        ended: bool,
        usage: Usage,
        guidance: Guidance,
        error: GuidedError | None = None,
        freed: bool = False,
        stop_reason: str | int | None = None,
        whole: bool = True,
        token_ids: tuple[int, ...] = (),
        vocab_size: int | None = None,
        masked: bool = False,
    ) -> Message:
        """Return the message; ``ended`` is false if max_tokens cut the answer, ``whole`` is false if a stop cut it.

        ``masked``: masks chose each token of the text, so a validator is asked only where a report row is relaxed.
        ``vocab_size`` is that of the tokenizer: ids past it are noted.  ``freed``: the row continued without guidance
        after ``error``.
        """
        self._masked = masked and error is None
        content = "".join(self._content)
        read = [self._tool_call(number, self._calls[index]) for number, index in enumerate(sorted(self._calls))]
        calls = tuple(call for call, _ in read)
        finish: FinishReason = "stop" if ended else "length"
        if error is not None and not freed:
            finish = "error"
        elif ended and calls and all(call.complete for call in self._calls.values()):
            # OpenAI says "stop" for a call that tool_choice named, "tool_calls" for the model's own choice.
            finish = "stop" if self.plan is not None and self.plan.tool_choice == "named" else "tool_calls"
        parsed: Any = None
        partial: Any = None
        refusal = next((call.parse_error for call in calls if call.parse_error is not None), None)
        unjudged: tuple[str, ...] = ()
        violations = tuple(f"the call of {call.name!r}: {fault}" for call, faults in read for fault in faults)
        if ended and whole and error is None:
            broken = [call.name for call in self._calls.values() if not call.complete]
            if self._unfinished is not None and self._unfinished.name not in ("", *broken):
                broken.append(self._unfinished.name)
            violations += tuple(f"the call of {name!r} breaks off" for name in broken)
        if ended and whole and error is None and not calls:  # an answer cut by its own stop violates nothing
            parsed, content_violations, refusal, unjudged = self._parsed(content)
            violations += content_violations
        if self.response is not None and not calls:
            partial = parsed if parsed is not None else self.partial()
        return Message(
            content=content if content or not calls else None,
            reasoning="".join(self._reasoning) if self._reasoning else None,
            parsed=parsed,
            partial=partial,
            tool_calls=calls,
            unfinished=self._unfinished,
            finish_reason=finish,
            stop_reason=stop_reason,
            usage=usage,
            guidance=guidance,
            error=error,
            violations=violations,
            parse_error=refusal,
            complete=finish in ("stop", "tool_calls")
            and self._unfinished is None
            and (whole or self.response is None)
            and all(call.complete for call in self._calls.values()),
            has_format=self.response is not None,
            notes=(*(self.plan.notes if self.plan is not None else ()), *unjudged, *_unknown(token_ids, vocab_size)),
            token_ids=token_ids,
        )

    def unread(self, usage: Usage, error: GuidedError | None, token_ids: Sequence[int]) -> Message:
        """Return the rest of an answer that cannot be read to its end: the text so far, and its tokens."""
        reasoning = "".join(self._reasoning) or None
        usage = replace(usage, completion_tokens=len(token_ids))
        return Message("".join(self._content), reasoning, usage=usage, error=error, token_ids=tuple(token_ids))

    @property
    def response(self) -> ResponsePlan | None:
        """The response format that was asked for."""
        return self.plan.response if self.plan is not None else None

    def partial(self) -> Any:
        """Return what is final of the response format's value so far; None where nothing is, or it is not JSON."""
        if self.plan is None or self.response is None or self.response.kind != "json" or self._calls:
            return None
        return partial_value(self.plan.python_type, "".join(self._content))

    def _tool_call(self, number: int, call: _Call) -> tuple[ToolCall, tuple[str, ...]]:
        """Return the call, and its faults: an unknown tool, or arguments that are not JSON or break its schema."""
        text = "".join(call.arguments)
        value: Any = None
        faults: tuple[str, ...] = ()
        refusal: ParseError | None = None
        tool = next((tool for tool in self.plan.tools if tool.name == call.name), None) if self.plan else None
        if call.complete:
            try:
                value, faults = _read_json(text) if text else ({}, ())
            except (ValueError, RecursionError) as error:
                value, faults = None, (f"not JSON: {error}",)
        if faults or not call.complete:
            value = None
        elif tool is not None and tool.kind == "custom":
            value = value[CUSTOM_INPUT] if isinstance(value, dict) and CUSTOM_INPUT in value else value
        elif tool is None and self.plan is not None:
            value, faults = None, (f"no tool is called {call.name!r}",)
        elif tool is not None and tool.python is None and self.plan is not None:
            is_relaxed = any(row.pointer.startswith(pointer(tool)) for row in self.plan.tool_report.relaxed)
            faults, _ = self._judged(arguments_schema(tool), value, is_relaxed)
            value = value if not faults else None
        elif tool is not None and tool.python is not None:
            value, refusal = _read(tool.python.read, text or "{}", f"tool_calls[{number}].{call.name}")
        return ToolCall(call.id, call.name, text, value, parse_error=refusal, tool=tool), faults

    def _judged(
        self, schema: Any, value: Any, is_relaxed: bool, **more: Any
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what the validator finds, and its note if it gave no verdict on a value that masks guarantee."""
        found = violations_of(schema, value, **more) if is_relaxed or not self._masked else ()
        unjudged = () if is_relaxed else tuple(text for text in found if text.startswith(NOT_VALIDATED))
        return tuple(text for text in found if text not in unjudged), unjudged

    def _parsed(self, content: str) -> tuple[Any, tuple[str, ...], ParseError | None, tuple[str, ...]]:
        """Return the response format's value, its violations, the Python type's refusal, and a note if no validator
        could judge it.
        """
        response = self.response
        if self.plan is None or response is None:
            return None, (), None, ()
        if response.kind != "json":
            return content, (), None, ()
        try:
            value, faults = _read_json(content)
        except (ValueError, RecursionError) as error:
            return None, (f"not JSON: {error}",), None, ()
        is_relaxed = bool(response.report.relaxed)
        found, unjudged = self._judged(response.schema, value, is_relaxed, documents=response.documents)
        violations = faults + found
        python_type = self.plan.python_type
        if violations or python_type is None:
            return (value if not violations else None), violations, None, unjudged
        value, refusal = _read(lambda text: read_value(python_type, text), content, "response_format")
        return value, (), refusal, unjudged


def _read(read: Callable[[str], Any], text: str, place: str) -> tuple[Any, ParseError | None]:
    """Return what ``read`` makes of a JSON text, or its refusal: of a validator that no schema can express, say."""
    try:
        return read(text), None
    except Exception as error:  # pydantic.ValidationError; a validator of the caller may raise anything
        details = error.errors(include_url=False) if hasattr(error, "errors") else ()
        problems = [": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in details]
        refusal = ParseError("; ".join(problems) or f"{type(error).__name__}: {error}", place=place)
        refusal.__cause__ = error
        return None, refusal


def _unknown(token_ids: tuple[int, ...], vocab_size: int | None) -> tuple[str, ...]:
    """Return a note on the ids that the tokenizer does not have; () without any."""
    if vocab_size is None or max(token_ids, default=0) < vocab_size:
        return ()
    ids = ", ".join(str(i) for i in sorted(set(token_ids)) if i >= vocab_size)
    return (f"ids {ids} lie past the tokenizer, which ends at {vocab_size - 1}: no text",)


def _read_json(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a JSON text, and its faults: a duplicate key, a number too large for a double.

    Raises `ValueError` for invalid JSON, ``NaN`` and ``Infinity`` included.
    """
    faults: dict[str, None] = {}

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(members)
        if len(value) < len(members):
            keys = [key for key, _ in members]
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            faults[f"JSON: the key {json.dumps(twice[:100], ensure_ascii=False)} is written twice in one object"] = None
        return value

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            faults[f"JSON: the number {digits[:100]} is larger than a double can be"] = None
        return value

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is not a JSON value")

    value = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)
    return value, tuple(faults)
