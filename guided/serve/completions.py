"""The older Completions API: prompts as text or token ids, without a chat template."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.requests.chat import read_delivery
from grammars.requests.read import read_request
from guided.hf.answering import generation_of, rows_of
from guided.hf.completing import AnswerForm, CompletionRun, WrittenText, asked_of
from guided.hf.planning import Planner
from guided.openai import Head, end_of, extras, usage_object
from guided.output.message import Message
from guided.output.parser import ContentDelta, Event, ReasoningDelta
from guided.sampling import TokenLogprob
from special_tokens.errors import ContextExceeded, RequestError

__all__ = ["TextForm", "text_completing"]

_OTHER_BODIES = {
    "messages": "prompt (this is a body of Chat Completions)",
    "input": "prompt (this is a body of the Responses API)",
    "instructions": "prompt (this is a body of the Responses API)",
    "tools": "/v1/chat/completions, whose answers have a place for calls",
    "functions": "/v1/chat/completions, whose answers have a place for calls",
    "verbosity": "/v1/chat/completions: a prompt is read as it is",
}


def text_completing(planner: Planner, body: Mapping[str, Any]) -> CompletionRun:
    """Return the request of ``body``, planned and bound; raises `RequestError` for what cannot be answered."""
    for key, right in _OTHER_BODIES.items():
        if body.get(key) is not None:
            raise RequestError("not a key of Completions", place=key, expected=right)
    request = read_request(body)
    delivery = read_delivery(request)
    plan = planner.plan_request(request)
    prompt = request.prompt.get("prompt")
    if prompt is None:
        raise RequestError("there is no prompt", place="prompt", expected="a text, token ids, or a list of these")
    asked = replace(asked_of(request, describe=False), prompt=prompt)
    inputs, rows = rows_of(planner, None, plan, asked, "prompt")
    try:
        generation = generation_of(planner, inputs, rows, asked)
    except ContextExceeded as error:
        error.place = "prompt"
        raise
    return CompletionRun(
        generation,
        request.return_last_hidden_state,
        inputs.num_rows,
        head=Head(delivery.model or planner.context.name, id=f"cmpl-{uuid.uuid4().hex}"),
        is_streamed=delivery.is_streamed,
        with_usage=delivery.with_usage,
        ignored=plan.ignored,
    )


class TextForm(AnswerForm):
    """The objects of Completions for one run."""

    def __init__(self, run: CompletionRun) -> None:
        self._run = run
        self._written = WrittenText(run, self._of)

    def whole(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the ``text_completion``."""
        choices = [self._last(i, message, message.content or "", 0) for i, message in enumerate(messages)]
        for choice, message in zip(choices, messages, strict=True):
            if message.reasoning:
                choice["reasoning_content"] = message.reasoning
        more = extras(messages, self._run.ignored)
        return self._run.head.object("text_completion", choices, usage=self._usage(messages), **more)

    def first(self) -> list[dict[str, Any]]:
        """Return no chunk: text begins a choice."""
        return []

    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the chunks that end the choices, then the one with the usage."""
        sent = self._written.sent
        chunks = [self._chunk(self._last(i, m, "", sent[i])) for i, m in enumerate(messages)]
        chunks[-1] |= extras(messages, self._run.ignored)
        if self._run.with_usage:
            chunks.append(self._run.head.object("text_completion", [], usage=self._usage(messages)))
        return chunks

    def _of(self, i: int, events: Sequence[Event], logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        chunks = []
        for event in events:
            if isinstance(event, ContentDelta):
                chunks.append(self._choice(i, event.text))
            elif isinstance(event, ReasoningDelta):
                chunks.append(self._choice(i, "") | {"reasoning_content": event.text})
        if chunks and logprobs:
            chunks[-1]["logprobs"] = self._logprobs(logprobs)
        return list(map(self._chunk, chunks))

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        more = {"usage": None} if self._run.with_usage else {}
        return self._run.head.object("text_completion", [choice], **more)

    def _choice(self, i: int, text: str) -> dict[str, Any]:
        return {"index": i, "text": text, "finish_reason": None, "logprobs": None}

    def _last(self, i: int, message: Message, text: str, sent: int) -> dict[str, Any]:
        unsent = message.logprobs[sent:] if message.logprobs is not None else ()
        logprobs = self._logprobs(unsent) if unsent else None
        return self._choice(i, text) | end_of(message) | {"logprobs": logprobs}

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        def text(token: int) -> str:
            return self._run.token_bytes(token).decode("utf-8", "replace")

        return {
            "tokens": [text(position.token_id) for position in logprobs],
            "token_logprobs": [max(position.logprob, -9999.0) for position in logprobs],
            "top_logprobs": [
                {text(token): max(value, -9999.0) for token, value in position.top} for position in logprobs
            ],
        }

    def _usage(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The usage of all prompts together."""
        size = len(messages) // self._run.num_prompts
        parts = [usage_object(messages[i : i + size]) for i in range(0, len(messages), size)]
        whole: dict[str, Any] = _sum(parts)
        return whole


def _sum(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], dict):
        return {key: _sum([part[key] for part in parts]) for key in parts[0]}
    return sum(parts)
