"""The answer as a typed value, built from the parser's events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from typing_extensions import TypeVar

from grammars.json_schema.python_types import read_value
from grammars.plan.plan import Plan
from guided.engine.counters import Guidance
from guided.hidden_state import LastHiddenState
from guided.output.json_text import read_json
from guided.output.parser import (
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    UnfinishedMarkup,
)
from guided.output.trace_records import Trace
from guided.sampling import TokenLogprob
from guided.validation.validate import NOT_VALIDATED
from guided.validation.validate import violations as violations_of
from special_tokens.errors import GuidedError

__all__ = ["FinishReason", "Message", "MessageBuilder", "Prompt", "ToolCall", "Usage"]

#: OpenAI's words, and ``error`` for a row whose guidance failed.
FinishReason = Literal["stop", "length", "tool_calls", "error"]

T = TypeVar("T", covariant=True, default=Any)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call.  ``arguments`` is the JSON text exactly as written; ``parsed`` its value.

    ``parsed`` is None if JSON parsers may differ: the text is incomplete, has a duplicate key or a number too large.
    ``landed``: the budget of tokens chose a part of it, see `Message.landed`.
    """

    id: str
    name: str
    arguments: str
    parsed: Any = None
    landed: bool = False

    def to_openai(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts: ``completion_tokens`` includes the end token, ``reasoning_tokens`` are between the markers.

    ``forwards`` counts the forward passes of the model that this answer took part in, the prompt's included, in our
    own decode loop; 0 for answers that ``model.generate`` wrote.  ``cached_tokens`` are the prompt's that a kept row
    had, so that they were not computed again.  ``drafted_tokens`` were guessed and fed ahead, ``accepted_tokens`` of
    them were right; what they force is not counted.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    forwards: int = field(default=0, compare=False)
    cached_tokens: int = field(default=0, compare=False)
    drafted_tokens: int = field(default=0, compare=False)
    accepted_tokens: int = field(default=0, compare=False)

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of an answer: its token ids, and the digests of its messages, those of the system left out."""

    token_ids: tuple[int, ...]
    chat: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
    """One finished answer.

    ``parsed`` is the response format's value (a model instance, a dict, the chosen text); None if there is no format,
    the answer was cut, or it has violations.  ``violations`` lists duplicate keys and numbers that overflow (in call
    arguments as well), what two independent validators find (`guided.validation.validate`; possible only where the
    plan's schema report has ``relaxed`` rows), and what the response format's Python type refuses.  If no validator
    could judge the answer, ``violations`` says so when there are such rows; otherwise the masks alone guarantee
    ``parsed``, and ``notes`` says so.  ``unfinished`` is markup that the end of the output cut (the beginning of a
    call, say); it is no part of ``content``, and no client is sent it.  ``landed`` is the index of the first token
    that was not the model's choice because the answer had to end within its budget; what follows may be hollow.
    """

    content: str | None = None
    reasoning: str | None = None
    parsed: T | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    unfinished: UnfinishedMarkup | None = None
    finish_reason: FinishReason = "stop"
    stop_reason: str | int | None = None
    usage: Usage = Usage()
    guidance: Guidance = Guidance()
    error: GuidedError | None = None
    landed: int | None = None
    violations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = field(default=(), repr=False)
    logprobs: tuple[TokenLogprob, ...] | None = field(default=None, repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    last_hidden_state: LastHiddenState | None = field(default=None, repr=False, compare=False)
    prompt: Prompt | None = field(default=None, repr=False, compare=False)

    def to_chat(self) -> dict[str, Any]:
        """The message for the next turn's chat, in OpenAI's form; arguments stay a JSON string."""
        chat: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            chat["reasoning_content"] = self.reasoning
        if self.tool_calls:
            chat["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return chat


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
    ) -> Message:
        """Return the message; ``ended`` is false if max_tokens cut the answer, ``whole`` is false if a stop cut it.

        ``vocab_size`` is that of the tokenizer: ids past it are noted.  ``freed``: the row continued without guidance
        after ``error``.
        """
        content = "".join(self._content)
        read = [self._tool_call(self._calls[index]) for index in sorted(self._calls)]
        calls = tuple(call for call, _ in read)
        finish: FinishReason = "stop" if ended else "length"
        if error is not None and not freed:
            finish = "error"
        elif ended and calls and all(call.complete for call in self._calls.values()):
            # OpenAI says "stop" for a call that tool_choice named, "tool_calls" for the model's own choice.
            finish = "stop" if self.plan is not None and self.plan.tool_choice == "named" else "tool_calls"
        parsed: Any = None
        unjudged: tuple[str, ...] = ()
        violations = tuple(f"the call of {call.name!r}: {fault}" for call, faults in read for fault in faults)
        if ended and whole and error is None:
            broken = [call.name for call in self._calls.values() if not call.complete]
            if self._unfinished is not None and self._unfinished.name not in ("", *broken):
                broken.append(self._unfinished.name)
            violations += tuple(f"the call of {name!r} breaks off" for name in broken)
        if ended and whole and error is None and not calls:  # an answer cut by its own stop violates nothing
            parsed, found, unjudged = self._parsed(content)
            violations += found
        return Message(
            content=content if content or not calls else None,
            reasoning="".join(self._reasoning) if self._reasoning else None,
            parsed=parsed,
            tool_calls=calls,
            unfinished=self._unfinished,
            finish_reason=finish,
            stop_reason=stop_reason,
            usage=usage,
            guidance=guidance,
            error=error,
            violations=violations,
            notes=(*(self.plan.notes if self.plan is not None else ()), *unjudged, *_unknown(token_ids, vocab_size)),
            token_ids=token_ids,
        )

    def _tool_call(self, call: _Call) -> tuple[ToolCall, tuple[str, ...]]:
        """Return the call, and the faults of its arguments if they are JSON."""
        text = "".join(call.arguments)
        value: Any = None
        faults: tuple[str, ...] = ()
        if call.complete:
            try:
                value, faults = read_json(text) if text else ({}, ())
            except (ValueError, RecursionError) as error:
                value, faults = None, (f"not JSON: {error}",)
        return ToolCall(call.id, call.name, text, None if faults else value), faults

    def _parsed(self, content: str) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
        """Return the response format's value, its violations, and a note if no validator could judge it."""
        response = self.plan.response if self.plan is not None else None
        if self.plan is None or response is None:
            return None, (), ()
        if response.kind != "json":
            return content, (), ()
        try:
            value, faults = read_json(content)
        except (ValueError, RecursionError) as error:
            return None, (f"not JSON: {error}",), ()
        found = faults + violations_of(response.schema, value, documents=response.documents, must_judge=True)
        unjudged: tuple[str, ...] = ()
        if not response.report.relaxed:  # the masks guarantee the value: a missing verdict is a note, no violation
            unjudged = tuple(text for text in found if text.startswith(NOT_VALIDATED))
            found = tuple(text for text in found if not text.startswith(NOT_VALIDATED))
        if found or self.plan.python_type is None:
            return (value if not found else None), found, unjudged
        try:
            return read_value(self.plan.python_type, content), (), unjudged
        except ValueError as error:  # pydantic.ValidationError: a validator that no schema can express
            return None, (str(error),), unjudged


def _unknown(token_ids: tuple[int, ...], vocab_size: int | None) -> tuple[str, ...]:
    """Return a note on the ids that the tokenizer does not have; () without any."""
    if vocab_size is None or max(token_ids, default=0) < vocab_size:
        return ()
    ids = ", ".join(str(i) for i in sorted(set(token_ids)) if i >= vocab_size)
    return (f"ids {ids} lie past the tokenizer, which ends at {vocab_size - 1}: no text",)
