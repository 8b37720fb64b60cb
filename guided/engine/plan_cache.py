"""A cache of plans by the parts of their requests.

Bounded by number and by bytes; the least recently used plan is dropped first.  A plan is immutable, so the same object
is returned, and the compile cache finds its grammar by identity of the text, without comparing it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from grammars.compose.cache_key import cache_key
from grammars.compose.compose import Parts
from grammars.plan.plan import Plan
from guided.engine.engine import CacheInfo

__all__ = ["PlanCache"]

MAX_PLANS = 256
MAX_BYTES = 32 * 1024 * 1024


class PlanCache:
    """A cache of plans by request parts.  Thread-safe; two threads may compute the same plan at the same time."""

    def __init__(self, *, capacity: int = MAX_PLANS, max_bytes: int = MAX_BYTES) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._plans: OrderedDict[Hashable, tuple[Plan, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._evictions = self._bytes = 0

    def get(self, parts: Parts, make: Callable[[Parts], Plan]) -> Plan:
        """Return the cached plan of equal parts; if there is none, call ``make`` and keep its plan."""
        key = cache_key(parts)
        if key is not None:
            with self._lock:
                found = self._plans.get(key)
                if found is not None:
                    self._plans.move_to_end(key)
                    self._hits += 1
                    return found[0]
        plan = make(parts)
        self._keep(key, plan)
        return plan

    def _keep(self, key: Hashable | None, plan: Plan) -> None:
        with self._lock:
            self._misses += 1
            if key is None or key in self._plans:
                return
            size = _size(key, plan)
            self._plans[key] = plan, size
            self._bytes += size
            while self._plans and (len(self._plans) > self.capacity or self._bytes > self.max_bytes):
                _, (_, size) = self._plans.popitem(last=False)
                self._bytes -= size
                self._evictions += 1

    def info(self) -> CacheInfo:
        """Return counters since the cache was created; ``size_bytes`` is the size of its keys and grammars as text."""
        with self._lock:
            counters = self._hits, self._misses, self._evictions
            return CacheInfo(*counters, len(self._plans), self.capacity, self._bytes, self.max_bytes)


def _size(key: Hashable, plan: Plan) -> int:
    data = key[0] if isinstance(key, tuple) else b""
    return len(data) + plan.grammar.size
