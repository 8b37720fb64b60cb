"""The keys that a schema may require of objects by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["collect_required_keys", "unlisted_keys"]

_LISTS = frozenset(("required", "dependentRequired", "dependencies", "propertyNames"))
_VALUES = frozenset(("const", "enum"))
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


def collect_required_keys(document: Any) -> Iterator[str]:
    """Yield the names in ``required`` and similar keywords anywhere in a document, in ``propertyNames``, and in
    constants.

    Whatever looks like one of these keywords counts, so the result may contain further names.
    """
    todo: list[tuple[Any, bool, bool]] = [(document, False, False)]
    while todo:
        value, is_list, is_constant = todo.pop()
        if isinstance(value, dict):
            if is_constant or is_list:
                yield from value
            todo += [(v, is_list or k in _LISTS, is_constant or k in _VALUES) for k, v in value.items()]
        elif isinstance(value, list):
            todo += [(inner, is_list, is_constant) for inner in value]
        elif is_list and isinstance(value, str):
            yield value
