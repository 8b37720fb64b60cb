"""Whether Python can hash the values of a type, and so put them into a set: read off pydantic's core schema of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["is_hashable"]

_NEVER = frozenset(("list", "set", "dict", "typed-dict", "deque", "ordered-dict", "counter"))
_ALWAYS = frozenset((
    "str", "int", "float", "bool", "none", "decimal", "date", "datetime", "time", "timedelta", "uuid", "url",
    "multi-host-url", "enum", "literal", "bytes", "frozenset",
))  # fmt: skip


def is_hashable(schema: Any, definitions: Mapping[str, Any]) -> bool | None:
    """Whether all values of ``schema`` can be hashed (False: none can); None where that depends on their parts."""
    if schema["type"] == "definition-ref":
        schema = definitions[schema["schema_ref"]]
    kind, made_by = schema["type"], schema.get("cls")
    if kind in _NEVER or (made_by is not None and made_by.__hash__ is None):
        return False
    inside = {"nullable": [schema.get("schema")], "tuple": schema.get("items_schema")}.get(kind)
    parts = [schema] if inside is None else inside
    return True if all(part["type"] in _ALWAYS for part in parts) else None
