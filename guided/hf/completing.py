"""Request bodies of OpenAI's Chat Completions, answered with its objects."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from guided.hf.answering import generation_of, rows_of
from guided.hf.loop.generation import Generation
from guided.hf.options import AnswerOptions
from guided.hf.planning import Planner
from guided.openai import Deltas, Head, completion
from guided.output.parser import Event
from guided.sampling import Sampling
from special_tokens.errors import RequestError

__all__ = ["Chunks", "Completing", "completing"]

#: The chunks of an answer while it is generated.
Chunks: TypeAlias = Generator[dict[str, Any], None, None]

#: Keys of other endpoints, and what a Chat Completions body has instead.
_OTHER_BODIES = {
    "input": "messages (this is a body of the Responses API)",
    "instructions": "a system message (this is a body of the Responses API)",
    "prompt": "messages (this is a body of the older Completions API)",
    "functions": "tools (functions are older)",
    "function_call": "tool_choice (function_call is older)",
}


@dataclass(frozen=True)
class Completing:
    """One accepted request: its run of the decode loop, not begun, and the form of the answer."""

    generation: Generation
    head: Head
    is_streamed: bool
    with_usage: bool
    custom: tuple[str, ...]  #: names of custom tools
    ignored: tuple[str, ...]

    def whole(self) -> Generator[None, None, dict[str, Any]]:
        """Run the loop, a step at a time; return the ``chat.completion``.  Raises the error where every row failed."""
        for _ in self.generation.steps():
            yield
        return completion(self.head, self._messages(), self._token_bytes, self.ignored)

    def chunks(self) -> Chunks:
        """Run the loop; yield the chunks.  Text waits for log-probabilities of its tokens that are asked for."""
        answers, rows = self.generation.answers, self.generation.choices
        deltas = Deltas(self.head, self._token_bytes, custom=self.custom, with_usage=self.with_usage)
        for i in range(len(rows)):
            yield deltas.first(i)
        waiting: list[list[tuple[int, list[Event]]]] = [[] for _ in answers]  # events, and the tokens written then
        sent = [0] * len(answers)  # tokens whose log-probabilities have been sent

        def ready(i: int, *, is_last: bool = False) -> Chunks:
            known = None if is_last else self.generation.num_recorded(i)
            while waiting[i] and (known is None or waiting[i][0][0] <= known):
                size, events = waiting[i].pop(0)
                logprobs = self.generation.logprobs(i, sent[i], size)
                chunks = [one for c, r in enumerate(rows) if r == i for one in deltas.of(c, events, logprobs)]
                sent[i] = size if chunks else sent[i]
                yield from chunks

        for _ in self.generation.steps():
            for i, answer in enumerate(answers):
                waiting[i].append((len(answer.tokens), answer.read()))
                yield from ready(i)
        for i, answer in enumerate(answers):
            waiting[i].append((len(answer.tokens), answer.finish()))
            yield from ready(i, is_last=True)
        yield from deltas.last(self._messages(), [sent[r] for r in rows], self.ignored)

    def _messages(self) -> list[Any]:
        messages = self.generation.messages()
        failed = [message.error for message in messages if message.finish_reason == "error"]
        if len(failed) == len(messages) and failed[0] is not None:
            raise failed[0]
        return messages

    def _token_bytes(self, token: int) -> bytes:
        return self.generation.context.engine.token_bytes(token)


def completing(
    planner: Planner, body: Mapping[str, Any], *, trusted: bool, ignore_unknown: bool, describe: bool
) -> Completing:
    """Return the request of ``body``, planned and bound; raises `RequestError` for what cannot be answered."""
    for key, right in _OTHER_BODIES.items():
        if isinstance(body, Mapping) and body.get(key) is not None:
            raise RequestError("not a key of Chat Completions", place=key, expected=right)
    request, plan = planner.request(body, trusted=trusted, ignore_unknown=ignore_unknown)
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
        raise RequestError(f"{type(options).__name__} is no object", place="stream_options")
    asked = AnswerOptions(
        sampling=Sampling(**request.sampling),
        describe=describe,
        return_last_hidden_state=request.return_last_hidden_state,
        landing=request.landing,
        short_budget=request.short_budget,
    )
    generation = generation_of(planner, *rows_of(planner, messages, plan, asked, "messages", is_one=True), asked)
    used = ("stream_options", "include_usage")
    return Completing(
        generation,
        Head(model or planner.context.name),
        stream,
        bool((options or {}).get("include_usage") or body.get("include_usage")),
        tuple(tool.name for tool in plan.tools if tool.kind == "custom"),
        tuple(key for key in plan.ignored if key not in used),
    )
