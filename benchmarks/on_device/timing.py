"""Ways that do the same, timed one after the other in changing order until their time is over."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.loop import interval

__all__ = ["limited", "ratio", "rounds", "shown"]

#: Rounds of one comparison: with three the interval is the whole range. Without any time, as in a test, there is one.
LEAST, MOST = 3, 15


def rounds(ways: Mapping[str, Callable[[], float]], seconds: float, *, is_warm: bool = False) -> dict[str, list[float]]:
    """Return what each way measured in each round; the first round only warms up, unless it was done before."""
    names = list(ways)
    found: dict[str, list[float]] = {name: [] for name in names}
    for way in () if is_warm else ways.values():
        way()
    until = time.monotonic() + seconds
    for n in range(MOST):
        if n >= (LEAST if seconds > 0 else 1) and time.monotonic() > until:
            break
        turn = n % len(names)
        for name in (names[turn:] + names[:turn])[:: -1 if n // len(names) % 2 else 1]:
            found[name].append(ways[name]())
    return found


def ratio(found: Mapping[str, Sequence[float]], way: str, base: str) -> str:
    """Return the median of ``way`` over ``base`` of the same round, with its interval; a dash without the way."""
    if way not in found:
        return "-"
    return shown([a / b for a, b in zip(found[way], found[base], strict=True)])


def shown(values: Sequence[float], places: int = 3) -> str:
    """Return a median, its 90 % interval and the number of values."""
    middle, low, high = interval(values)
    return f"{middle:.{places}f} ({low:.{places}f} to {high:.{places}f}, {len(values)})"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block after this many seconds; for the main thread."""

    def over(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
