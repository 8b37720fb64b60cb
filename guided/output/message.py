"""The answer as a typed value."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Literal, cast

from typing_extensions import TypeVar

from grammars.values.tool import Tool
from guided.engine.counters import Guidance
from guided.hidden_state import LastHiddenState
from guided.output.parser import UnfinishedMarkup
from guided.output.trace_records import Trace
from guided.sampling import TokenLogprob
from special_tokens.errors import AnswerError, GuidedError, ParseError, ToolError

__all__ = ["AnswerEnd", "FinishReason", "Message", "ToolCall", "Usage"]

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
