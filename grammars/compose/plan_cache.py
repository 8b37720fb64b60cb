"""A cache of plans by the parts of their requests.

Bounded by number and by bytes; the least recently used plan is dropped first.  A plan is immutable, so the same object
is returned, and the compile cache finds its grammar by identity of the text, without comparing it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgpack

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
        key = _cache_key(parts)
        plan = self._plans.get(key)
        if plan is None:
            plan = make(parts)
            if key is not None:
                self._plans.put(key, plan)
        return plan


def _size(key: Hashable, plan: Plan) -> int:
    data = key[0] if isinstance(key, tuple) else b""
    return len(data) + plan.grammar.size


def _cache_key(parts: Parts) -> Hashable | None:
    """Return the key of ``parts``; None where a value in them can be compared neither by content nor by identity.

    JSON values and constraints are compared by content (key order counts: it is the order in which a model writes),
    Python types and functions by identity.
    """
    objects: list[Any] = []

    def encode(value: Any) -> Any:
        if isinstance(value, type) or callable(value) or hasattr(value, "__origin__"):
            objects.append(value)
            return msgpack.ExtType(1, len(objects).to_bytes(4, "big"))
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
            return [msgpack.ExtType(2, type(value).__qualname__.encode()), *fields]
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, tuple):
            return [msgpack.ExtType(3, b""), *value]
        schema = getattr(value, "inputSchema", None) or getattr(value, "input_schema", None)
        if schema is not None:  # an MCP tool record
            return [msgpack.ExtType(4, b""), value.name, getattr(value, "description", None), schema]
        raise TypeError(type(value).__name__)

    try:
        data: bytes = msgpack.packb([getattr(parts, name) for name in _FIELDS], default=encode, strict_types=True)
        key = (data, *objects)
        hash(key)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return key


_FIELDS = tuple(field.name for field in dataclasses.fields(Parts))
