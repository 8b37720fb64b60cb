"""Request bodies of OpenAI's Chat Completions, answered with its objects."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from grammars.plan.plan import Plan
from grammars.requests.read import Request, read_request
from guided.hf.answering import generation_of, rows_of
from guided.hf.loop.generation import Generation
from guided.hf.options import AnswerOptions
from guided.hf.planning import Planner
from guided.openai import Deltas, Head, completion
from guided.output.message import Message
from guided.output.parser import Event
from guided.sampling import Sampling, TokenLogprob
from special_tokens.errors import RequestError

__all__ = ["ChatForm", "Chunks", "Completing", "CompletionRun", "WrittenText", "asked_of", "completing", "ignored_of"]

#: The chunks of an answer while it is generated.
Chunks: TypeAlias = Generator[dict[str, Any], None, None]

#: Makes the chunks of events of one choice, with the log-probabilities of the tokens that they come from.
Write: TypeAlias = Callable[[int, Sequence[Event], Sequence[TokenLogprob]], list[dict[str, Any]]]

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


@dataclass(frozen=True)
class CompletionRun:
    """The run of the decode loop of one accepted request, not begun; each of its prompts has as many choices.

    ``with_states``: `messages` may run the model.
    """

    generation: Generation
    with_states: bool = False
    num_prompts: int = 1

    def messages(self) -> list[Message]:
        """Return the message of each choice; raises the error where every row failed."""
        messages = self.generation.messages()
        failed = [message.error for message in messages if message.finish_reason == "error"]
        if len(failed) == len(messages) and failed[0] is not None:
            raise failed[0]
        return messages

    def token_bytes(self, token: int) -> bytes:
        return self.generation.context.engine.token_bytes(token)


class WrittenText:
    """The text of a run, handed to ``write`` choice by choice as soon as it is certain.

    It waits for log-probabilities of its tokens that are asked for.
    """

    def __init__(self, run: CompletionRun, write: Write) -> None:
        self._generation = run.generation
        self._write = write
        self._waiting: list[list[tuple[int, list[Event]]]] = [[] for _ in run.generation.answers]
        self._sent = [0] * len(run.generation.answers)

    @property
    def sent(self) -> list[int]:
        """The number of tokens of each choice whose log-probabilities have been handed over."""
        return [self._sent[r] for r in self._generation.choices]

    def step(self, *, is_last: bool = False) -> list[dict[str, Any]]:
        """Return the chunks of the tokens since the last call; the last ones come out with ``is_last``."""
        chunks: list[dict[str, Any]] = []
        for r, answer in enumerate(self._generation.answers):
            waiting = self._waiting[r]
            waiting.append((len(answer.tokens), answer.finish() if is_last else answer.read()))
            num_recorded = None if is_last else self._generation.num_recorded(r)
            while waiting and (num_recorded is None or waiting[0][0] <= num_recorded):
                chunks += self._of(r, *waiting.pop(0))
        return chunks

    def _of(self, r: int, size: int, events: list[Event]) -> list[dict[str, Any]]:
        logprobs = self._generation.logprobs(r, self._sent[r], size) if events else ()
        choices = [i for i, row in enumerate(self._generation.choices) if row == r]
        chunks = [chunk for i in choices if events for chunk in self._write(i, events, logprobs)]
        self._sent[r] = size if chunks else self._sent[r]
        return chunks


@dataclass(frozen=True)
class Completing(CompletionRun):
    """One accepted request of Chat Completions."""

    head: Head = field(kw_only=True)
    is_streamed: bool = False
    with_usage: bool = False
    custom: tuple[str, ...] = ()  #: names of custom tools
    ignored: tuple[str, ...] = ()

    def whole(self) -> Generator[None, None, dict[str, Any]]:
        """Run the loop, a step at a time; return the ``chat.completion``.  Raises the error where every row failed."""
        for _ in self.generation.steps():
            yield
        return ChatForm(self).whole(self.messages())

    def chunks(self) -> Chunks:
        """Run the loop; yield the chunks."""
        form = ChatForm(self)
        yield from form.first()
        for _ in self.generation.steps():
            yield from form.step()
        yield from form.held_back()
        yield from form.last(self.messages())


class ChatForm:
    """The objects of Chat Completions for one run, for loops that say when tokens were written."""

    def __init__(self, run: Completing) -> None:
        self._run = run
        self._deltas = Deltas(run.head, run.token_bytes, custom=run.custom, with_usage=run.with_usage)
        self._written = WrittenText(run, self._deltas.of)

    def whole(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the ``chat.completion``."""
        return completion(self._run.head, messages, self._run.token_bytes, self._run.ignored)

    def first(self) -> list[dict[str, Any]]:
        """Return the chunks that open the choices."""
        return [self._deltas.first(i) for i in range(len(self._run.generation.choices))]

    def step(self) -> list[dict[str, Any]]:
        """Return the chunks of the tokens since the last call."""
        return self._written.step()

    def held_back(self) -> list[dict[str, Any]]:
        """Return the chunks of what was held back, when all rows have ended."""
        return self._written.step(is_last=True)

    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the chunks that end the choices."""
        return self._deltas.last(messages, self._written.sent, self._run.ignored)


def completing(
    planner: Planner, body: Mapping[str, Any], *, trusted: bool, ignore_unknown: bool, describe: bool
) -> Completing:
    """Return the request of ``body``, planned and bound; raises `RequestError` for what cannot be answered."""
    for key, right in _OTHER_BODIES.items():
        if isinstance(body, Mapping) and body.get(key) is not None:
            raise RequestError("not a key of Chat Completions", place=key, expected=right)
    request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
    plan = planner.plan_request(request)
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
    asked = asked_of(request, describe=describe)
    chat = _with_line(messages, _VERBOSITY.get(request.verbosity, ""))
    generation = generation_of(planner, *rows_of(planner, chat, plan, asked, "messages", is_one=True), asked)
    return Completing(
        generation,
        request.return_last_hidden_state,
        head=Head(model or planner.context.name),
        is_streamed=stream,
        with_usage=bool((options or {}).get("include_usage") or body.get("include_usage")),
        custom=tuple(tool.name for tool in plan.tools if tool.kind == "custom"),
        ignored=ignored_of(plan),
    )


def ignored_of(plan: Plan) -> tuple[str, ...]:
    """Return the keys without effect; those that a plan ignores but its host reads are not among them."""
    return tuple(key for key in plan.ignored if key not in ("stream_options", "include_usage"))


def asked_of(request: Request, *, describe: bool) -> AnswerOptions:
    """Return the settings of a request's answers."""
    return AnswerOptions(
        sampling=Sampling(**request.sampling),
        describe=describe,
        return_last_hidden_state=request.return_last_hidden_state,
        landing=request.landing,
        short_budget=request.short_budget,
    )


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
