"""The answers to one request: from what vLLM's engine returns to OpenAI's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.hf.model.tokenizer_context import BoundPrompt
from guided.openai import Deltas, Head, completion, custom_tools
from guided.output.message import Message, Usage
from guided.output.parser import Event
from guided.rows.reader import AnswerReader
from guided.rows.report import RowReport
from guided.sampling import TokenLogprob
from guided.vllm.sealed import read_report
from special_tokens.errors import GuidanceError

__all__ = ["AcceptedChat", "Answers"]


@dataclass(frozen=True, kw_only=True)
class AcceptedChat:
    """A request that was accepted: its plan, its prompt, and how its answers are sent.

    ``rows`` are written, and each is the answer of as many ``choices``: greedy answers are all the same.
    """

    plan: Plan
    prompt: BoundPrompt
    params: Any  # vLLM's
    head: Head
    is_streamed: bool = False
    with_usage: bool = False
    rows: int = 1
    copies: int = 1


class Answers:
    """The answers of one request while they are written.  `message` blocks: it may judge a value in a process."""

    def __init__(self, asked: AcceptedChat, engine: Engine) -> None:
        self._asked = asked
        self._engine = engine
        self._readers = [
            AnswerReader(
                asked.plan, engine, begin=asked.prompt.begin, number=r, prompt_tokens=len(asked.prompt.token_ids)
            )
            for r in range(asked.rows)
        ]
        self._logprobs: list[list[TokenLogprob]] = [[] for _ in range(asked.rows)]
        self._sent = [0] * asked.rows
        self._reports: list[RowReport | None] = [None] * asked.rows
        self._cached = 0
        self._deltas = Deltas(
            asked.head, engine.token_bytes, custom=custom_tools(asked.plan), with_usage=asked.with_usage
        )

    # -- chunks

    def first(self) -> list[dict[str, Any]]:
        """Return the chunks that open the choices."""
        return [self._deltas.first(i) for r in range(self._asked.rows) for i in self._choices(r)]

    def read(self, output: Any) -> list[dict[str, Any]]:
        """Read what the engine wrote since the last call, or all of it; return the chunks of what is certain."""
        self._cached = output.num_cached_tokens or self._cached
        chunks: list[dict[str, Any]] = []
        for part in output.outputs:
            r, reader = part.index, self._readers[part.index]
            events = reader.feed(part.token_ids)
            found = zip(part.token_ids, part.logprobs or (), strict=False)
            self._logprobs[r] += [_logprob(token, one, self._asked.params.logprobs) for token, one in found]
            if part.finish_reason is not None:
                self._reports[r] = read_report(part.stop_reason) or _unsaid(part.finish_reason)
                events += reader.finish("stop" if part.finish_reason == "stop" else "length")
            chunks += self._chunks(r, events)
        return chunks

    def _chunks(self, r: int, events: Sequence[Event]) -> list[dict[str, Any]]:
        unsent = self._logprobs[r][self._sent[r] :] if events else ()
        chunks = [chunk for i in self._choices(r) for chunk in self._deltas.of(i, events, unsent)]
        if chunks:
            self._sent[r] = len(self._logprobs[r])
        return chunks

    def check(self) -> None:
        """Raise the error of a row where all rows have failed."""
        errors = [report.error for report in self._reports if report is not None and report.error is not None]
        if len(errors) == len(self._reports):
            raise errors[0]

    def last(self) -> list[dict[str, Any]]:
        """Return the chunks that end the choices; raises the error where every row failed."""
        sent = [self._sent[r] for r in range(self._asked.rows) for _ in self._choices(r)]
        return self._deltas.last(self._messages(), sent, self._asked.plan.ignored)

    def whole(self) -> dict[str, Any]:
        """Return the ``chat.completion``; raises the error where every row failed."""
        return completion(self._asked.head, self._messages(), self._engine.token_bytes, self._asked.plan.ignored)

    # -- messages

    def _choices(self, r: int) -> range:
        return range(r * self._asked.copies, (r + 1) * self._asked.copies)

    def _messages(self) -> list[Message]:
        messages = [self._message(r) for r in range(self._asked.rows)]
        failed = [message.error for message in messages if message.finish_reason == "error"]
        if len(failed) == len(messages) and failed[0] is not None:
            raise failed[0]
        return [message for message in messages for _ in range(self._asked.copies)]

    def _message(self, r: int) -> Message:
        message = self._readers[r].message(Usage(cached_tokens=self._cached), self._reports[r])
        if self._asked.params.logprobs is None:
            return message
        return replace(message, logprobs=tuple(self._logprobs[r][: len(message.token_ids)]))


def _unsaid(finish_reason: str) -> RowReport:
    """The report of a row that said nothing: it wrote to its limit unguided by us, or vLLM ended it."""
    if finish_reason in ("stop", "length"):
        return RowReport()
    return RowReport(error=GuidanceError(f"vLLM ended the row: {finish_reason}", place="engine"))


def _logprob(token: int, found: Mapping[int, Any], num_top: int) -> TokenLogprob:
    """The log-probabilities at one position; vLLM masks before it computes them, so both are the masked ones."""
    best = sorted((one.rank, token_id, one.logprob) for token_id, one in found.items())  # the token may be past the top
    top = tuple((token_id, logprob) for _, token_id, logprob in best[:num_top])
    own = found[token].logprob
    return TokenLogprob(token, own, own, top, top)
