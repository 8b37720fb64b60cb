"""Compiles a grammar of which the cost is not known in a process that can be ended.

The engine cannot be stopped while it compiles, and a few lines of a client (intersections of repeats) can keep it
busy for minutes.  A `Trial` asks a helper process first (`guided.engine.worker`); what takes too long there is never
begun here.  What came out is remembered, so that a request that comes again is answered at once.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path

from grammars.limits.deadline import time_left
from grammars.limits.outcome_cache import OutcomeCache, digest
from grammars.limits.time_limits import time_limits
from guided.engine.worker import Ended, Helper
from special_tokens.errors import LimitExceeded

__all__ = ["Trial", "TrialOutcome"]

_CHILD = Path(__file__).with_name("compile_child.py")

_MOST_HASHES = 10_000

#: A grammar near the limit of processor time may pass on a machine that is less busy: its error is kept so long.
_KEPT_S = 600.0
#: What the clock on the wall ended says more of the machine than of the grammar; kept only against retries at once.
_KEPT_LATE_S = 30.0
#: A helper that has grown larger than this is not used again.
_LARGE = 500 << 20


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of a trial of a grammar: the engine's ``error`` (None: it compiled), or the ``limit`` it passed.

    ``seconds`` of processor time are what compiling it took, and will take again.
    """

    error: str | None = None
    limit: str = ""
    seconds: float = 0.0


class Trial(Helper):
    """A helper process and its two bounds for one grammar: processor time in seconds and memory in bytes.

    ``seconds``: `TimeLimits.grammar_cpu_s` unless given.
    Ended (`close`), it still knows what it has found out.
    """

    def __init__(self, *, seconds: float | None = None, size: int = 1 << 30) -> None:
        super().__init__(_CHILD)
        self._seconds = seconds
        self.size = size
        self._verdicts: OutcomeCache[TrialOutcome] = OutcomeCache()
        self._hashes: set[int] = set()  #: of grammars with a verdict: most are of none, and should not be digested

    @property
    def seconds(self) -> float:
        return time_limits().grammar_cpu_s if self._seconds is None else self._seconds

    def known(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> TrialOutcome | None:
        """The verdict on a grammar that was tried before, where it is still remembered."""
        if hash(grammar) not in self._hashes:
            return None
        return self._verdicts.get(digest(grammar, vocab_size, limits, self.seconds))

    def verdict(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> TrialOutcome:
        """Return what becomes of ``grammar`` under ``limits`` (arguments of the engine's `LLParserLimits`).

        The same grammar is not tried twice: what the engine says and what a grammar costs is kept until better-used
        verdicts need the room, what a limit of time or memory ended for ten minutes, and what only the deadline
        (`grammars.limits.deadline`) ended for half a minute.  What could not be tried at all is not kept.
        """
        key = digest(grammar, vocab_size, limits, self.seconds)
        request = {"grammar": grammar, "vocab_size": vocab_size, "limits": limits}
        body = json.dumps(request | {"seconds": self.seconds, "bytes": self.size}).encode()
        if not self._lock.acquire(timeout=self._patience()):
            return TrialOutcome(limit="other grammars are on trial and there was no time left for this one")
        try:
            found = self._verdicts.get(key)  # perhaps it was being tried while we waited
            if found is None:
                found, kept = self._tried(body)
                if kept:
                    self._verdicts.put(key, found, kept)
                    if len(self._hashes) > _MOST_HASHES:
                        self._hashes.clear()  # who is not known asks for the verdict, and finds it there
                    self._hashes.add(hash(grammar))
        finally:
            self._lock.release()
        return found

    def error_of(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> str | None:
        """Return what the engine says to ``grammar``, None if nothing; raises `LimitExceeded` past a limit."""
        found = self.verdict(grammar, vocab_size=vocab_size, limits=limits)
        if found.limit:
            raise LimitExceeded(found.limit, hint="use fewer or simpler intersections, complements and repeats")
        return found.error

    def _patience(self) -> float:
        return max(0.0, min(time_left(), time_limits().grammar_s))

    def _tried(self, body: bytes) -> tuple[TrialOutcome, float]:
        """The verdict and for how many seconds it is worth remembering; 0 where nothing was found out."""
        patience = self._patience()
        try:
            answer = self._asked(body, patience)
        except OSError as error:
            return TrialOutcome(limit=f"a costly grammar needs a helper process, and none can be started: {error}"), 0.0
        if isinstance(answer, Ended):
            if answer.late:
                return TrialOutcome(limit=_over(f"the {patience:.1f} s left until its deadline")), _KEPT_LATE_S
            cause = self._cause(answer.code)
            if cause is None:
                return TrialOutcome(limit=f"the helper process that tried the grammar ended with {answer.code}"), 0.0
            return TrialOutcome(limit=_over(cause)), _KEPT_S
        if answer["bytes"] > _LARGE:
            self._end()
        return TrialOutcome(answer["error"], seconds=answer["seconds"]), float("inf")

    def _cause(self, code: int | None) -> str | None:
        """The limit that a helper passed which ended by itself, from its exit code; None where it passed none."""
        if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
            return f"{self.seconds:g} s of processor time"
        if code in (-signal.SIGABRT, -signal.SIGSEGV):  # how an allocation fails in Rust, and in its C
            return f"{self.size / 2**30:.2g} GB of memory"
        return None


def _over(limit: str) -> str:
    return f"compiling the grammar takes more than {limit}, one of the limits of a trial"
