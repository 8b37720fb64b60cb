"""The effort of searches, counted in places: what is found must not depend on how busy the machine is."""

from __future__ import annotations

import time

__all__ = ["Effort"]


class Effort:
    """The most that searches may take in all: ``places`` tried, and processor time of this thread in seconds.

    Places come first, and other work is counted as the number of places that takes its time; time is the last resort.
    A text that costs more than ``cost`` is useless.  With ``is_small`` no other end is sought where a known one is only
    too long, which near the budget took most of the time and seldom found any.  Not thread-safe.
    """

    __slots__ = ("_until", "cost", "is_small", "left")

    def __init__(self, cpu_s: float, places: float = 4_000, cost: float = float("inf")) -> None:
        self.left: float = places
        self.cost = cost
        self.is_small = False
        self._until = time.thread_time() + cpu_s

    def spend(self, places: float) -> None:
        """Take off ``places``, or the places that take the time of other work."""
        self.left -= places

    def part(self, places: float, *, is_small: bool = False) -> Effort:
        """Take ``places`` places out, for a search that must end at the same time."""
        part = Effort.__new__(Effort)  # copy.copy took a tenth of the time of a trial
        part.cost, part._until, part.is_small = self.cost, self._until, is_small
        part.left = min(places, self.left)
        self.left -= part.left
        return part

    @property
    def is_spent(self) -> bool:
        return self.left <= 0 or time.thread_time() > self._until

    @property
    def end(self) -> str:
        """Return why a search ends, in words."""
        return "when its processor time was used up" if time.thread_time() > self._until else "as many as it may try"
