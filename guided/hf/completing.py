"""Request bodies of OpenAI's Chat Completions, answered with its objects."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from grammars.requests.chat import read_chat
from grammars.requests.read import Request
from guided.hf.answering import generation_of, rows_of
from guided.hf.loop.generation import Generation
from guided.hf.options import AnswerOptions
from guided.hf.planning import Planner
from guided.openai import Deltas, Head, completion, custom_tools
from guided.output.message import Message
from guided.output.parser import Event
from guided.sampling import Sampling, TokenLogprob

__all__ = ["AnswerForm", "ChatForm", "Chunks", "Completing", "CompletionRun", "WrittenText", "asked_of", "completing"]

#: The chunks of an answer while it is generated.
Chunks: TypeAlias = Generator[dict[str, Any], None, None]

#: Makes the chunks of events of one choice, with the log-probabilities of the tokens that they come from.
Write: TypeAlias = Callable[[int, Sequence[Event], Sequence[TokenLogprob]], list[dict[str, Any]]]


@dataclass(frozen=True)
class CompletionRun:
    """The run of the decode loop of one accepted request, not begun; each of its prompts has as many choices.

    ``with_states``: `messages` may run the model.  ``ignored`` are the keys of the body without effect.
    """

    generation: Generation
    with_states: bool = False
    num_prompts: int = 1
    head: Head = field(kw_only=True)
    is_streamed: bool = False
    with_usage: bool = False
    ignored: tuple[str, ...] = ()

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

    custom: tuple[str, ...] = ()  #: names of custom tools

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


class AnswerForm(Protocol):
    """The objects of one endpoint for one run: a whole answer, or chunks that open it, go on with it and end it."""

    _written: WrittenText

    def whole(self, messages: Sequence[Message]) -> dict[str, Any]: ...
    def first(self) -> list[dict[str, Any]]: ...
    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]: ...

    def step(self) -> list[dict[str, Any]]:
        """Return the chunks of the tokens since the last call."""
        return self._written.step()

    def held_back(self) -> list[dict[str, Any]]:
        """Return the chunks of what was held back, when all rows have ended."""
        return self._written.step(is_last=True)


class ChatForm(AnswerForm):
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

    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the chunks that end the choices."""
        return self._deltas.last(messages, self._written.sent, self._run.ignored)


def completing(
    planner: Planner,
    body: Mapping[str, Any],
    *,
    trusted: bool,
    ignore_unknown: bool,
    describe: bool,
    trace: bool = False,
) -> Completing:
    """Return the request of ``body``, planned and bound; raises `RequestError` for what cannot be answered."""
    chat = read_chat(body, trusted=trusted, ignore_unknown=ignore_unknown)
    plan = planner.plan_request(chat.request)
    asked = asked_of(chat.request, describe=describe, trace=trace)
    generation = generation_of(planner, *rows_of(planner, chat.messages, plan, asked, "messages", is_one=True), asked)
    return Completing(
        generation,
        chat.request.return_last_hidden_state,
        head=Head(chat.delivery.model or planner.context.name),
        is_streamed=chat.delivery.is_streamed,
        with_usage=chat.delivery.with_usage,
        ignored=plan.ignored,
        custom=custom_tools(plan),
    )


def asked_of(request: Request, *, describe: bool, trace: bool = False) -> AnswerOptions:
    """Return the settings of a request's answers."""
    return AnswerOptions(
        sampling=Sampling(**request.sampling),
        describe=describe,
        trace=trace,
        return_last_hidden_state=request.return_last_hidden_state,
        landing=request.landing,
        short_budget=request.short_budget,
    )
