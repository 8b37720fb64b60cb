"""A cache of plans by the parts of their requests.

Bounded by number and by bytes; the least recently used plan is dropped first.  A plan is immutable, so the same object
is returned, and the compile cache finds its grammar by identity of the text, without comparing it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from grammars.compose.cache_key import cache_key
from grammars.compose.compose import Parts
from grammars.limits.bounded_cache import BoundedCache
from grammars.plan.plan import Plan

__all__ = ["PlanCache"]

MAX_PLANS = 256
MAX_BYTES = 32 * 1024 * 1024


class PlanCache:
    """A cache of plans by request parts.  Thread-safe; two threads may compute the same plan at the same time."""

    def __init__(self, *, capacity: int = MAX_PLANS, max_bytes: int = MAX_BYTES) -> None:
        self._plans: BoundedCache[Plan] = BoundedCache(capacity, max_bytes, _size)
        self.info = self._plans.info

    def get(self, parts: Parts, make: Callable[[Parts], Plan]) -> Plan:
        """Return the cached plan of equal parts; if there is none, call ``make`` and keep its plan."""
        key = cache_key(parts)
        plan = self._plans.get(key)
        if plan is None:
            plan = make(parts)
            if key is not None:
                self._plans.put(key, plan)
        return plan


def _size(key: Hashable, plan: Plan) -> int:
    data = key[0] if isinstance(key, tuple) else b""
    return len(data) + plan.grammar.size
