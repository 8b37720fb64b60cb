"""A bounded cache of what is costly to make, by a key or the digest of its inputs, with an optional time to live."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["BoundedCache", "CacheInfo", "digest"]

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Counters of a cache, and its two bounds: ``capacity`` entries and ``capacity_bytes`` bytes.

    ``size_bytes`` is the memory held.  Of compiled grammars it is an estimate from their texts
    (`guided.engine.engine.grammar_bytes`), since the engine does not report it; of plans it is the size of their keys
    and grammars.
    """

    hits: int
    misses: int
    evictions: int
    entries: int
    capacity: int
    size_bytes: int
    capacity_bytes: int


class BoundedCache(Generic[V]):
    """Values by key, at most ``capacity`` of at most ``max_bytes`` by ``size_of``; the least recently used goes first.

    The latest stays, however large it is.  Thread-safe; two threads may make the same value at the same time.
    """

    def __init__(
        self, capacity: int = 1_024, max_bytes: int = 1 << 62, size_of: Callable[[Any, V], int] = lambda key, value: 0
    ) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._size_of = size_of
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._hits = self._misses = self._evictions = self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        """Return the value for ``key``, None if there is none or it has expired."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None or time.monotonic() > entry[1]:
                self._misses += 1
                return None
            self._hits += 1
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, seconds: float = math.inf) -> None:
        """Keep ``value`` for at most this many seconds."""
        with self._lock:
            self._remove(key)
            self._values[key] = value, time.monotonic() + seconds
            self._bytes += self._size_of(key, value)
            while len(self) > 1 and (len(self) > self.capacity or self._bytes > self.max_bytes):
                self._remove(next(iter(self._values)))
                self._evictions += 1

    def drop(self, key: Hashable, value: V) -> None:
        """Drop the value for ``key`` if it is this object."""
        with self._lock:
            entry = self._values.get(key)
            if entry is not None and entry[0] is value:
                self._remove(key)

    def _remove(self, key: Hashable) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._bytes -= self._size_of(key, entry[0])

    def info(self) -> CacheInfo:
        """Return counters since the cache was created."""
        with self._lock:
            counters = self._hits, self._misses, self._evictions
            return CacheInfo(*counters, len(self), self.capacity, self._bytes, self.max_bytes)


def digest(*parts: object) -> bytes:
    """Return a digest of ``parts`` in 32 bytes; parts that are not text are distinguished by their `repr`."""
    hasher = hashlib.sha256()
    for part in parts:
        data = (part if isinstance(part, str) else repr(part)).encode()
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.digest()
