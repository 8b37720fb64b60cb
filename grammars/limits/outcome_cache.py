"""What costly work came to, found again by its content: bounded, and forgotten after a while where need be."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Remembered", "digest"]

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by digest, at most ``capacity``; the one that was not asked for the longest leaves first.

    Safe to share between threads.
    """

    def __init__(self, capacity: int = 1_024) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> V | None:
        """The value kept under ``key``, None where there is none or its time is over."""
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
        """Keep ``value`` for so many seconds at the most."""
        with self._lock:
            self._values[key] = value, time.monotonic() + seconds
            self._values.move_to_end(key)
            while len(self._values) > self.capacity:
                self._values.popitem(last=False)


def digest(*parts: object) -> bytes:
    """The content of ``parts`` (texts, and values that their `repr` tells apart) in 32 bytes."""
    found = hashlib.sha256()
    for part in parts:
        data = (part if isinstance(part, str) else repr(part)).encode()
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.digest()
