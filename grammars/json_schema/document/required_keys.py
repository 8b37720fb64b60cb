"""Keys that a schema may ask objects for by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["demanded_keys"]

_LISTS = frozenset(("required", "dependentRequired", "dependencies", "propertyNames"))
_VALUES = frozenset(("const", "enum"))


def demanded_keys(document: Any) -> Iterator[str]:
    """The names in ``required`` and its like anywhere in a document, and in ``propertyNames``; the keys of constants.

    What only looks like one of these keywords is taken for it: the names are more rather than less.
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
