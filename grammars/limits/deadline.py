"""The wall-clock deadline of a request.

Limits on processor time and on work decide what plan a request gets, so that a busy machine makes the same plan.  This
deadline decides only whether there is a plan at all: past it the request ends with an error.  A function that needs a
deadline sets one if its thread has none, so a caller can bound several steps by one block around them.
"""

from __future__ import annotations

import math
import threading
import time

from grammars.limits.time_limits import time_limits

__all__ = ["deadline", "is_late", "time_left"]


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
