"""Trial compilation of grammars of unknown cost, in a worker process that can be killed.

The engine cannot be interrupted while it compiles, and a few lines of a client (intersections of repeats) can keep it
busy for minutes.  So a `Trial` lets a worker process (`guided.engine.worker`) compile the grammar first; one that takes
too long there is not compiled here.  Outcomes are cached, so that a repeated request is answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grammars.limits.bounded_cache import BoundedCache, digest
from grammars.limits.deadline import time_left, time_limits
from guided.engine.worker import Ended, Worker

__all__ = ["Trial", "TrialOutcome"]

_JOB = Path(__file__).with_name("compile_job.py")

#: How long the error of a grammar that exceeded a limit is kept: on a less busy machine it may pass.
_KEPT_S = 600.0
#: How long an outcome past the deadline is kept: it depends on the machine's load, so only immediate retries get it.
_KEPT_LATE_S = 30.0
#: A worker that has grown larger than this is not used again.
_LARGE = 500 << 20


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of a trial of a grammar: the engine's ``error`` (None: it compiled), or the ``limit`` it passed.

    ``seconds`` is the processor time that compiling it took.
    """

    error: str | None = None
    limit: str = ""
    seconds: float = 0.0


class Trial(Worker):
    """A worker process with two limits for each grammar: processor time in seconds and memory in bytes.

    ``seconds`` is by default `TimeLimits.grammar_cpu_s`.  The cached outcomes survive `close`.
    """

    def __init__(self, *, seconds: float | None = None, size: int = 1 << 30) -> None:
        super().__init__(_JOB, size=size)
        self._seconds = seconds
        self._verdicts: BoundedCache[TrialOutcome] = BoundedCache()

    @property
    def seconds(self) -> float:
        return time_limits().grammar_cpu_s if self._seconds is None else self._seconds

    def cached_verdict(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> TrialOutcome | None:
        """Return the cached verdict on a grammar; None if there is none."""
        return self._verdicts.get(digest(grammar, vocab_size, limits, self.seconds))

    def verdict(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> TrialOutcome:
        """Return the outcome of compiling ``grammar`` under ``limits`` (arguments of the engine's `LLParserLimits`).

        Outcomes are cached: the engine's own until they are evicted, those past a limit of processor time or memory
        for ten minutes, those past the deadline (`grammars.limits.deadline`) for half a minute.  If no worker could be
        started, nothing is cached.
        """
        key = digest(grammar, vocab_size, limits, self.seconds)
        request = {"grammar": grammar, "vocab_size": vocab_size, "limits": limits}
        if not self._lock.acquire(timeout=self._patience()):
            return TrialOutcome(limit="other grammars are on trial and there was no time left for this one")
        try:
            outcome = self._verdicts.get(key)  # another thread may have tried it meanwhile
            if outcome is None:
                outcome, kept = self._tried(request)
                if kept:
                    self._verdicts.put(key, outcome, kept)
        finally:
            self._lock.release()
        return outcome

    def _patience(self) -> float:
        return max(0.0, min(time_left(), time_limits().grammar_s))

    def _tried(self, request: dict[str, Any]) -> tuple[TrialOutcome, float]:
        """Return the outcome and for how many seconds it may be cached; 0 if no worker tried the grammar."""
        patience = self._patience()
        try:
            answer = self._asked(request, self.seconds, patience)
        except OSError as error:
            return TrialOutcome(limit=f"a costly grammar needs a worker process, and none can be started: {error}"), 0.0
        if isinstance(answer, Ended):
            if answer.late:
                return TrialOutcome(limit=_over(f"the {patience:.1f} s left until its deadline")), _KEPT_LATE_S
            if not answer.limit:
                return TrialOutcome(limit=f"the worker process that tried the grammar ended with {answer.code}"), 0.0
            return TrialOutcome(limit=_over(answer.limit)), _KEPT_S
        if answer["bytes"] > _LARGE:
            self._end()
        return TrialOutcome(answer["error"], seconds=answer["seconds"]), float("inf")


def _over(limit: str) -> str:
    return f"compiling the grammar takes more than {limit}, one of the limits of a trial"
