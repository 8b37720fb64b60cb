"""The time that the steps of a request may take, and its wall-clock deadline.

Limits on processor time and on work decide what plan a request gets, so that a busy machine makes the same plan.  The
deadline decides only whether there is a plan at all: past it the request ends with an error.  A function that needs a
deadline sets one if its thread has none, so a caller can bound several steps by one block around them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["TimeLimits", "deadline", "is_late", "time_left", "time_limits", "use_time_limits"]


class _End(threading.local):
    at: float = math.inf


_end = _End()


class deadline:  # noqa: N801 - reads like a statement, ``with deadline():``
    """A deadline of ``seconds`` for the block; an earlier deadline of a surrounding block stays in force.

    None: `TimeLimits.request_s`, and only where there is no block around it.
    """

    __slots__ = ("_before", "_seconds")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        before = self._before = _end.at
        if self._seconds is not None or before == math.inf:
            seconds = time_limits().request_s if self._seconds is None else self._seconds
            _end.at = min(before, time.monotonic() + seconds)

    def __exit__(self, *error: object) -> None:
        _end.at = self._before


def time_left() -> float:
    """Return the seconds until the deadline of this thread: infinite without one, negative past it."""
    return math.inf if _end.at == math.inf else _end.at - time.monotonic()


def is_late() -> bool:
    """Whether the deadline of this thread has passed."""
    return time.monotonic() > _end.at


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that the steps of a request may take: of processor time (``*_cpu_s``), and elapsed (``*_s``)."""

    request_s: float = 4.6  #: elapsed: planning a request or compiling a grammar, unless the caller set a `deadline`
    schema_cpu_s: float = 2.2  #: solving one schema (a coarse second try may take as much again)
    grammar_cpu_s: float = 1.0  #: compiling one costly grammar in its worker process
    grammar_s: float = 10.0  #: elapsed: waiting for a worker process
    #: one search over bytes for the end of an answer: a last resort, since its places are counted; in a process of many
    #: objects 407 places took 1.0 s, with a pause of the garbage collector as it seems
    landing_cpu_s: float = 2.0
    #: all tokens tried in one step near the budget: as a rule 10 ms at most
    landing_step_cpu_s: float = 1.0
    landing_look_cpu_s: float = 2.0  #: the search of such an answer after tokens that were only counted
    validation_cpu_s: float = 1.0  #: validating one value in its worker process


_DEFAULT = TimeLimits()
_current: ContextVar[TimeLimits] = ContextVar("time_limits", default=_DEFAULT)


def time_limits() -> TimeLimits:
    """Return the limits of the innermost `use_time_limits` block of this thread or task, else the defaults."""
    return _current.get()


@contextmanager
def use_time_limits(limits: TimeLimits) -> Iterator[None]:
    """Apply ``limits`` to what runs in the block; a thread that is started in it has the defaults again."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)
