"""Schemas in the shape of most requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["closed", "having"]


def closed(properties: Mapping[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object with these properties and no other; the optional ones may be absent."""
    return having(properties, optional) | {"additionalProperties": False}


def having(properties: Mapping[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object with these properties and any others; the optional ones may be absent."""
    required = [key for key in properties if key not in optional]
    return {"type": "object", "properties": properties, "required": required}
