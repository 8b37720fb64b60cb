"""The answer as a typed value, built from the parser's events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Literal, cast

from typing_extensions import TypeVar

from grammars.plan.plan import Plan, ResponsePlan
from grammars.python_types.adapter import read_value
from grammars.python_types.partial import partial_value
from grammars.tools.parameters import CUSTOM_INPUT, arguments_schema, pointer
from grammars.values.tool import Tool
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
from special_tokens.errors import AnswerError, GuidedError, ParseError, ToolError

__all__ = ["AnswerEnd", "FinishReason", "Message", "MessageBuilder", "ToolCall", "Usage"]

#: OpenAI's words, and ``error`` for a row that failed.
FinishReason = Literal["stop", "length", "tool_calls", "error"]

T = TypeVar("T", covariant=True, default=Any)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call.  ``arguments`` is the JSON text exactly as written; ``parsed`` is what the tool takes.

    ``parsed`` is, for a Python function, its keyword arguments by name, as the annotations say (dates, enums, models);
    for a pydantic model its instance; for a custom tool its text; for other tools the JSON object.  It is None if JSON
    parsers may differ (the text is incomplete, has a duplicate key or a number too large), and where the Python types
    refuse the arguments, as ``parse_error`` says.
    ``landed``: the budget of tokens chose a part of it, or of the text before it, see `Message.landed`; not if it only
    ended the reasoning.
    """

    id: str
    name: str
    arguments: str
    parsed: Any = None
    landed: bool = False
    parse_error: ParseError | None = field(default=None, compare=False)
    tool: Tool | None = field(default=None, repr=False, compare=False)

    @property
    def type(self) -> Literal["function", "custom"]:
        """OpenAI's type of the call."""
        return self.tool.kind if self.tool is not None else "function"

    def run(self) -> Any:
        """Return what the tool's Python function returns for these arguments: for an async one, its coroutine.

        A pydantic model returns its instance.  What the function raises passes through.  Raises `ParseError` for
        arguments that its types refuse, and `ToolError` for a tool that is not a function or a call that was cut.
        """
        place = f"tool_calls.{self.name}"
        if self.parse_error is not None:
            raise self.parse_error
        if self.tool is None or self.tool.python is None:
            raise ToolError("the tool has no Python function", place=place, expected="a function or pydantic model")
        if self.parsed is None:
            raise ToolError("the call has no valid arguments", place=place, hint="see message.violations")
        return self.tool.python.run(self.parsed)

    def to_openai(self) -> dict[str, Any]:
        """Return the call in OpenAI's form."""
        if self.type == "custom":
            text = self.parsed if isinstance(self.parsed, str) else self.arguments
            return {"id": self.id, "type": "custom", "custom": {"name": self.name, "input": text}}
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts: ``completion_tokens`` includes the end token, ``reasoning_tokens`` are between the markers.

    ``forwards`` counts the forward passes of the model that this answer took part in, the prompt's included, in our
    own decode loop; 0 for answers that ``model.generate`` wrote.  ``cached_tokens`` are the prompt's that a kept row
    had, so that they were not computed again.  ``drafted_tokens`` were guessed and fed ahead, ``accepted_tokens`` of
    them were right; what they force is not counted.  Of an answer that was asked for again (``retries``) all attempts
    are counted, and in ``forwards`` that of a hidden state that was computed afterwards.
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

    def __add__(self, other: Usage) -> Usage:
        """Return the counts of two answers together."""
        return Usage(**{count.name: getattr(self, count.name) + getattr(other, count.name) for count in fields(self)})


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
    """One finished answer."""

    content: str | None = None
    reasoning: str | None = None
    #: The response format's value (a model instance, a dict, the chosen text); None if there is no format, the answer
    #: was cut, or it was refused: by its schema (``violations``) or by its Python type (``parse_error``).
    parsed: T | None = None
    #: As much of the value as is final (`grammars.python_types.partial`), of a cut answer as well.
    partial: T | None = field(default=None, repr=False, compare=False)
    tool_calls: tuple[ToolCall, ...] = ()
    #: Markup that the end of the output cut (the beginning of a call, say): not in ``content``, and sent to no client.
    unfinished: UnfinishedMarkup | None = None
    finish_reason: FinishReason = "stop"
    stop_reason: str | int | None = None
    usage: Usage = Usage()
    guidance: Guidance = Guidance()
    error: GuidedError | None = None
    #: The index of the first token that was not the model's choice because the answer had to end within its budget;
    #: what follows may be hollow.
    landed: int | None = None
    #: Duplicate keys, numbers that overflow (in call arguments as well), and what an independent validator finds
    #: (`guided.validation.validate`; asked only where the plan's schema report has ``relaxed`` rows, or masks did not
    #: write it).  If it gave no verdict, this says so when there are such rows, otherwise ``notes`` does.
    violations: tuple[str, ...] = ()
    #: A validator of the Python type, which no schema can express, refused the value or the arguments of a call.
    parse_error: ParseError | None = field(default=None, compare=False)
    complete: bool = field(default=True, repr=False)  #: neither cut nor broken off, and no stop cut a response format
    has_format: bool = field(default=False, repr=False)  #: a response format was asked for: then ``parsed`` may be null
    notes: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = field(default=(), repr=False)
    logprobs: tuple[TokenLogprob, ...] | None = field(default=None, repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    last_hidden_state: LastHiddenState | None = field(default=None, repr=False, compare=False)
    prompt_ids: tuple[int, ...] = field(default=(), repr=False, compare=False)  #: of what was answered, if it is known

    @property
    def ok(self) -> bool:
        """Whether the answer is whole, no error ended its guidance, and neither schema nor Python type refuses it."""
        return self.complete and self.error is None and not self.violations and self.parse_error is None

    def failed(self, error: GuidedError) -> Message[T]:
        """Return the message of the same row after it has failed with ``error``."""
        return replace(self, finish_reason="error", error=self.error or error, complete=False, parsed=None)

    def unwrap(self) -> T:
        """Return ``parsed``; without a response format the content, and for calls their ``parsed`` as a tuple.

        Raises what made the answer unusable: ``error``, ``parse_error``, or an `AnswerError` that says why.
        """
        if self.error is not None:
            raise self.error
        if self.parse_error is not None:
            raise self.parse_error
        if self.violations:
            raise AnswerError("; ".join(self.violations), place="message.violations", hint="ask again with retries=")
        if not self.complete:
            was = "was cut" if self.finish_reason == "length" else "breaks off"
            raise AnswerError(f"the answer {was}", place="message.content", hint="read message.partial")
        value: Any = self.parsed if self.has_format else self.content
        if self.tool_calls:
            value = tuple(call.parsed for call in self.tool_calls)
        return cast(T, value)

    def to_chat(self) -> dict[str, Any]:
        """The message for the next turn's chat, in OpenAI's form; arguments stay a JSON string."""
        chat: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            chat["reasoning_content"] = self.reasoning
        if self.tool_calls:
            chat["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return chat

    def to_openai(self) -> dict[str, Any]:
        """The message as OpenAI's ``ChatCompletionMessage``; a chat takes it, and this object as well."""
        return {**self.to_chat(), "refusal": None}


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """The last event of a stream: the answer is finished.  ``text`` is empty, as all of it has come."""

    message: Message
    text: Literal[""] = ""


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
                value, faults = read_json(text) if text else ({}, ())
            except (ValueError, RecursionError) as error:
                value, faults = None, (f"not JSON: {error}",)
        if faults or not call.complete:
            value = None
        elif tool is not None and tool.kind == "custom":
            value = value[CUSTOM_INPUT] if isinstance(value, dict) and CUSTOM_INPUT in value else value
        elif tool is None and self.plan is not None:
            value, faults = None, (f"no tool is called {call.name!r}",)
        elif tool is not None and tool.python is None:
            faults = self._judged(tool, value)
            value = value if not faults else None
        elif tool is not None and tool.python is not None:
            value, refusal = _read(tool.python.read, text or "{}", f"tool_calls[{number}].{call.name}")
        return ToolCall(call.id, call.name, text, value, parse_error=refusal, tool=tool), faults

    def _judged(self, tool: Tool, value: Any) -> tuple[str, ...]:
        """Return what the validator finds in the arguments of a call; no verdict is fine where masks know all."""
        assert self.plan is not None
        place = pointer(tool)
        is_relaxed = any(row.pointer.startswith(place) for row in self.plan.tool_report.relaxed)
        if self._masked and not is_relaxed:
            return ()
        violations = violations_of(arguments_schema(tool), value, must_judge=True)
        if is_relaxed:
            return violations
        return tuple(text for text in violations if not text.startswith(NOT_VALIDATED))

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
            value, faults = read_json(content)
        except (ValueError, RecursionError) as error:
            return None, (f"not JSON: {error}",), None, ()
        violations = faults
        if response.report.relaxed or not self._masked:
            violations += violations_of(response.schema, value, documents=response.documents, must_judge=True)
        unjudged: tuple[str, ...] = ()
        if not response.report.relaxed:  # the masks guarantee the value: a missing verdict is a note, no violation
            unjudged = tuple(text for text in violations if text.startswith(NOT_VALIDATED))
            violations = tuple(text for text in violations if not text.startswith(NOT_VALIDATED))
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
