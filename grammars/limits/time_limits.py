"""The time that each part of a request may take, and the block that sets it.

Limits on processor time (``*_cpu_s``) decide what becomes of a request, so that a busy machine makes the same plan of
it.  Limits on elapsed time (``*_s``) decide only whether there is a result: what is late ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["TimeLimits", "time_limits", "use_time_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that the steps of a request may take."""

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
