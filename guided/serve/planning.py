"""The plans of a server: those of its cache at once, all others composed in worker processes, within a deadline."""

from __future__ import annotations

import base64
import pickle
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from grammars.compose.compose import Parts
from grammars.limits.deadline import time_left, time_limits
from grammars.plan.plan import Plan
from grammars.plan.wire import decode_plan
from grammars.requests.read import Request
from guided.engine.worker import Ended, Worker
from guided.hf.planning import C, Planner
from guided.serve.refusals import Forbidden
from special_tokens.errors import ContextExceeded, LimitExceeded, RequestError, shown

__all__ = ["Composers", "ServerPlanner"]

_JOB = Path(__file__).with_name("plan_job.py")

#: OpenAI's limits, which the library does not have.
_MAX_TEMPERATURE, _MAX_TOP_LOGPROBS = 2, 20


class Composers:
    """Worker processes that compose plans for one vocabulary; each answers one request at a time."""

    def __init__(self, tokens: Any, format: Any, *, number: int = 2) -> None:
        with tempfile.NamedTemporaryFile(prefix="guided-", suffix=".vocabulary", delete=False) as file:
            pickle.dump((tokens, format), file)
        self._file = Path(file.name)
        self._workers = [Worker(_JOB) for _ in range(number)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def warm(self) -> None:
        """Start the processes, so that the first requests need not wait for them."""
        for worker in self._workers:
            worker.ask(self._request(""), seconds=60.0, patience=60.0)

    def compose(self, parts: Parts) -> Plan:
        """Return the plan of ``parts``; raise what composing it raises, and `LimitExceeded` past the deadline."""
        until = time.monotonic() + min(time_left(), time_limits().request_s)
        try:
            worker = self._idle.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            raise LimitExceeded(
                "other plans are composed and there was no time left for this one", hint="try again"
            ) from None
        try:
            left = until - time.monotonic()
            data = base64.b64encode(pickle.dumps((parts, time_limits(), left))).decode()
            # It ends by itself, as a rule.
            answer = worker.ask(self._request(data), seconds=left + 1, patience=left + 0.5)
        finally:
            self._idle.put(worker)
        if isinstance(answer, Ended):
            why = f"takes more than {answer.limit or 'the time for it'}"
            if answer.code is not None:
                why = f"ended its process with {answer.code}"
            raise LimitExceeded(f"composing the plan {why}", hint="use a smaller schema or grammar")
        if "error" in answer:
            error: BaseException = pickle.loads(base64.b64decode(answer["error"]))
            raise error
        return decode_plan(base64.b64decode(answer["plan"]))

    def _request(self, parts: str) -> dict[str, Any]:
        return {"vocabulary": str(self._file), "parts": parts}

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()
        self._file.unlink(missing_ok=True)


@dataclass(frozen=True)
class ServerPlanner(Planner[C]):
    """Makes the plans of a server's requests; ``most_rows`` bounds the choices of one request."""

    composers: Composers | None = None
    allows_constraints: bool = True
    most_rows: int = 16

    def check(self, request: Request) -> None:
        """Raise `RequestError` for what the server does not take, `Forbidden` for a constraint it does not allow."""
        super().check(request)
        sampling, asked = request.sampling, request.parts.max_tokens
        for place, most, value in (
            ("temperature", _MAX_TEMPERATURE, sampling.get("temperature")),
            ("top_logprobs", _MAX_TOP_LOGPROBS, sampling.get("logprobs")),
            ("n", self.most_rows, sampling.get("n")),
        ):
            if value is not None and value > most:
                raise RequestError(f"{shown(value)} is out of range", place=place, expected=f"at most {most}")
        if self.most_tokens is not None and asked is not None and asked > self.most_tokens:
            raise ContextExceeded(
                f"{asked} tokens are more than the context of {self.most_tokens}",
                place="max_tokens",
                expected=f"at most {self.most_tokens}, with the prompt",
            )
        custom = str(request.parts.reasoning_effort or "").startswith("custom:")
        if not self.allows_constraints and (request.source or custom):
            place = request.source or "reasoning_effort"
            raise Forbidden("this server takes no constraints of clients", place=place, hint="leave it out")

    def compose(self, parts: Parts) -> Plan:
        """Return the plan of ``parts``, composed in a worker process."""
        return self.composers.compose(parts) if self.composers is not None else super().compose(parts)
