"""The key of a plan in the plan cache: equal request parts have equal keys.

JSON values and constraints are compared by content (key order counts: it is the order in which a model writes),
Python types and functions by identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

import msgpack

from grammars.compose.compose import Parts

__all__ = ["cache_key"]


def cache_key(parts: Parts) -> Hashable | None:
    """Return the key of ``parts``; None where a value in them can be compared neither by content nor by identity."""
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
