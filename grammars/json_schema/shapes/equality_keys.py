"""JSON Schema's equality by keys: two values are the same where their keys are, in a set as anywhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

__all__ = ["Keys", "distinct"]


class Keys:
    """Keys of JSON values: 1 and 1.0 share theirs, 1 and true do not, and the order of an object's keys is nothing.

    As `equal` of `grammars.json_schema.passes.plain` says of two values, but not by comparing each with each, and at
    any depth.  Arrays and objects are numbered as they are first seen, so only keys of the same instance compare.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, tuple[int]] = {}

    def __call__(self, value: Any) -> Hashable:
        """The key of a value."""
        nested = [value] if isinstance(value, list | dict) else []
        for one in nested:  # what it finds it looks into as well
            inner = one.values() if isinstance(one, dict) else one
            nested.extend(item for item in inner if isinstance(item, list | dict))
        keys: dict[int, tuple[int]] = {}
        for one in reversed(nested):
            body: Hashable
            if isinstance(one, dict):
                body = frozenset((key, _key(item, keys)) for key, item in one.items())
            else:
                body = tuple(_key(item, keys) for item in one)
            keys[id(one)] = self._numbers.setdefault(body, (len(self._numbers),))
        return _key(value, keys)


def _key(value: Any, keys: dict[int, tuple[int]]) -> Hashable:
    if isinstance(value, list | dict):
        return keys[id(value)]
    return (bool, value) if isinstance(value, bool) else value


def distinct(values: Iterable[Any]) -> list[tuple[int, Any]]:
    """Each value that comes for the first time, and where."""
    keys, seen = Keys(), set()
    found: list[tuple[int, Any]] = []
    for at, value in enumerate(values):
        key = keys(value)
        if key not in seen:
            seen.add(key)
            found.append((at, value))
    return found
