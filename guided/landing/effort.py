"""The effort of searches, counted in places: what is found must not depend on how busy the machine is."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass

__all__ = ["Effort", "SearchLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """The most that one search may take in all: places tried, and processor time of this thread in seconds.

    Places come first, and other work is counted as the number of places that takes its time; time is the last resort.
    """

    cpu_s: float
    expansions: int = 4_000
    cost: float = float("inf")  #: a text that costs more is of no use


class Effort:
    """Counts what searches may still take in all.  Not thread-safe."""

    __slots__ = ("_until", "cost", "left", "limits")

    def __init__(self, limits: SearchLimits) -> None:
        self.limits = limits
        self.left: float = limits.expansions  #: places
        self.cost = limits.cost  #: of the text sought
        self._until = time.thread_time() + limits.cpu_s

    def spend(self, places: float) -> None:
        """Take off ``places``, or the places that take the time of other work."""
        self.left -= places

    def part(self, places: float) -> Effort:
        """Take ``places`` places out, for a search that must end at the same time."""
        part = copy(self)
        part.left = min(places, self.left)
        self.left -= part.left
        return part

    @property
    def is_spent(self) -> bool:
        return self.left <= 0 or time.thread_time() > self._until

    @property
    def end(self) -> str:
        """Return why a search ends, in words."""
        return "as many as it may try" if self.left <= 0 else "when its processor time was used up"
