"""A bounded cache of the outcomes of costly work, by the digest of its inputs, with an optional time to live."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["OutcomeCache", "digest"]

V = TypeVar("V")


class OutcomeCache(Generic[V]):
    """Values by digest, at most ``capacity``; the least recently used one is evicted first.

    Thread-safe.
    """

    def __init__(self, capacity: int = 1_024) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> V | None:
        """Return the value for ``key``, None if there is none or it has expired."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            if time.monotonic() > found[1]:
                del self._values[key]
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: bytes, value: V, seconds: float = math.inf) -> None:
        """Keep ``value`` for at most this many seconds."""
        with self._lock:
            self._values[key] = value, time.monotonic() + seconds
            self._values.move_to_end(key)
            while len(self._values) > self.capacity:
                self._values.popitem(last=False)


def digest(*parts: object) -> bytes:
    """Return a digest of ``parts`` in 32 bytes; parts that are not text are distinguished by their `repr`."""
    found = hashlib.sha256()
    for part in parts:
        data = (part if isinstance(part, str) else repr(part)).encode()
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.digest()
