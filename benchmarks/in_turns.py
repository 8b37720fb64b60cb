"""Compares two decoding loops with one model by alternating their steps, so that both see the same noise.

On a shared machine the time of a forward varies by several per cent within seconds, more than two loops differ, and a
median over consecutive whole runs inherits that.  Here both run in two threads, of which only the one that holds the
turn works.  A thread passes the turn on before it enters the model's forward, so the steps alternate and the two
halves of a pair are milliseconds apart.

Times are CPU seconds of the process (`time.process_time`) while the other thread waits; waiting is not included, work
in threads that a call starts is.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

__all__ = ["Steps", "in_turns", "take_turns"]


@dataclass
class Steps:
    """CPU seconds of one call.

    ``whole[0]`` is the time before the first forward; ``whole[n]`` is that of the n-th forward and everything up to the
    next forward or the end of the call; ``outside[n]`` is the same without the forward.
    """

    whole: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)


class _Turns:
    """Two calls in two threads, one at a time."""

    def __init__(self, calls: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
        self.calls = calls
        self.steps = (Steps(), Steps())
        self.failed: list[BaseException] = []
        self._turn = 0
        self._finished = [False, False]
        self._changed = threading.Condition()
        self._own = threading.local()

    def run(self, number: int) -> None:
        """Run thread ``number``."""
        self._own.number = number
        self._take()
        try:
            self.calls[number]()
            self._close_step()
        except BaseException as problem:  # raised in the calling thread
            self.failed.append(problem)
        finally:
            self._finished[number] = True
            self._give()

    def before_forward(self, *_: Any) -> None:
        self._close_step()
        self._give()
        self._take()

    def after_forward(self, *_: Any) -> None:
        self._own.forward = time.process_time() - self._own.began

    def _close_step(self) -> None:
        whole = time.process_time() - self._own.began
        steps = self.steps[self._own.number]
        steps.whole.append(whole)
        steps.outside.append(whole - self._own.forward)

    def _take(self) -> None:
        number = self._own.number
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number)
        self._own.forward = 0.0
        self._own.began = time.process_time()

    def _give(self) -> None:
        number = self._own.number
        with self._changed:
            if not self._finished[1 - number]:
                self._turn = 1 - number
            self._changed.notify_all()


def take_turns(model: Any, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Steps, Steps]:
    """Run two calls that decode with ``model``, alternating at each step; ``first`` takes the first turn."""
    turns = _Turns((first, second))
    hooks = [
        model.register_forward_pre_hook(turns.before_forward),
        model.register_forward_hook(turns.after_forward),
    ]
    try:
        threads = [threading.Thread(target=turns.run, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for hook in hooks:
            hook.remove()
    if turns.failed:
        raise turns.failed[0]
    return turns.steps


def in_turns(name: str, model: Any, one: Callable[[], Any], other: Callable[[], Any], runs: int) -> dict[str, Any]:
    """Return ratios ``one / other``: of the n-th steps, of the time outside the forward, and of whole calls.

    ``step`` is the median over the pairs of steps of all runs, ``step_low`` and ``step_high`` the 95 % interval of that
    median (by order statistics); ``quiet`` compares the minimum of each step over the runs, which is its cost without
    cache evictions by other processes; ``outside`` is a median over pairs as well; ``call`` is the median over runs of
    whole calls, set-up and prefill included, with the lowest and the highest.
    """
    one(), other()
    steps: list[float] = []
    outside: list[float] = []
    calls: list[float] = []
    of_one: list[list[float]] = []
    of_other: list[list[float]] = []
    for n in range(runs):  # alternate who goes first
        b, a = take_turns(model, other, one) if n % 2 else reversed(take_turns(model, one, other))
        assert len(a.whole) == len(b.whole), f"{name}: {len(a.whole)} and {len(b.whole)} steps"
        steps += [x / y for x, y in zip(a.whole[1:], b.whole[1:], strict=True)]
        outside += [x / y for x, y in zip(a.outside[1:], b.outside[1:], strict=True)]
        calls.append(sum(a.whole) / sum(b.whole))
        of_one.append(a.whole[1:])
        of_other.append(b.whole[1:])
    steps.sort()
    margin = round(0.98 * len(steps) ** 0.5)  # 1.96 standard deviations of the rank of a median
    middle = len(steps) // 2
    return {
        "what": name,
        "step": statistics.median(steps),
        "step_low": steps[max(0, middle - margin)],
        "step_high": steps[min(len(steps) - 1, middle + margin)],
        "quiet": _quiet(of_one) / _quiet(of_other),
        "outside": statistics.median(outside),
        "call": statistics.median(calls),
        "call_low": min(calls),
        "call_high": max(calls),
        "ms_per_step": statistics.median(chain(*of_one)) * 1e3,
        "ms_per_step_other": statistics.median(chain(*of_other)) * 1e3,
        "pairs": len(steps),
    }


def _quiet(runs: list[list[float]]) -> float:
    """Return the sum of the minima of all steps, in seconds."""
    return sum(min(times) for times in zip(*runs, strict=True))
