"""The keys that a schema requires and does not describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["unlisted_keys"]

_ELSEWHERE = (
    "patternProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas",
)  # fmt: skip


def unlisted_keys(schema: Any) -> tuple[str, ...]:
    """The required keys that the ``properties`` of a schema lack, where no other keyword may describe them."""
    listed = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(listed, Mapping) or any(word in schema for word in _ELSEWHERE):
        return ()
    required = schema.get("required")
    named = required if isinstance(required, list) else ()
    return tuple(key for key in named if isinstance(key, str) and key not in listed)
