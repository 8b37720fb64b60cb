"""How long a request may take by the clock on the wall, whatever else the machine does.

Limits on processor time and on work decide what becomes of a request, so that a busy machine makes the same plan of
it.  This deadline decides nothing but whether there is a plan: what is late ends with an error.  Who works something
out sets one for itself where its thread has none, so a caller can bound many steps by one block around them.
"""

from __future__ import annotations

import math
import threading
import time

__all__ = ["SECONDS", "deadline", "is_late", "time_left"]

#: Seconds that working out a schema, or compiling a grammar, may take when nobody set a deadline around both.
SECONDS = 4.6


class _End(threading.local):
    at: float = math.inf


_end = _End()


class deadline:  # noqa: N801 - read as a word of the language, ``with deadline():``
    """What runs in the block is late after so many seconds, or when a block around it is.

    None: `SECONDS`, and only where there is no block around it.
    """

    __slots__ = ("_before", "_seconds")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        before = self._before = _end.at
        if self._seconds is not None or before == math.inf:
            _end.at = min(before, time.monotonic() + (SECONDS if self._seconds is None else self._seconds))

    def __exit__(self, *error: object) -> None:
        _end.at = self._before


def time_left() -> float:
    """Seconds until the deadline of this thread: infinite without one, negative when it is over."""
    return math.inf if _end.at == math.inf else _end.at - time.monotonic()


def is_late() -> bool:
    """True when the deadline of this thread is over."""
    return time.monotonic() > _end.at
