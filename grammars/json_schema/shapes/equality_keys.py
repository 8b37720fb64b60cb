"""Hashable keys for JSON Schema's equality: two values are equal if and only if their keys are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

__all__ = ["EqualityKeys", "distinct_values"]


class EqualityKeys:
    """Keys of JSON values: 1 and 1.0 have the same, 1 and true do not, and the order of members does not matter.

    Needs no pairwise comparison and works at any depth.  Arrays and objects are numbered at first sight, so only keys
    from the same instance can be compared.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, tuple[int]] = {}

    def __call__(self, value: Any) -> Hashable:
        """The key of a value."""
        nested = [value] if isinstance(value, list | dict) else []
        for container in nested:  # the list grows during iteration
            inner = container.values() if isinstance(container, dict) else container
            nested.extend(item for item in inner if isinstance(item, list | dict))
        keys: dict[int, tuple[int]] = {}
        for container in reversed(nested):
            body: Hashable
            if isinstance(container, dict):
                body = frozenset((key, _key(item, keys)) for key, item in container.items())
            else:
                body = tuple(_key(item, keys) for item in container)
            keys[id(container)] = self._numbers.setdefault(body, (len(self._numbers),))
        return _key(value, keys)


def _key(value: Any, keys: dict[int, tuple[int]]) -> Hashable:
    if isinstance(value, list | dict):
        return keys[id(value)]
    return (bool, value) if isinstance(value, bool) else value


def distinct_values(values: Iterable[Any]) -> list[tuple[int, Any]]:
    """The first occurrence of each value, as (index, value)."""
    keys, seen = EqualityKeys(), set()
    distinct: list[tuple[int, Any]] = []
    for at, value in enumerate(values):
        key = keys(value)
        if key not in seen:
            seen.add(key)
            distinct.append((at, value))
    return distinct
