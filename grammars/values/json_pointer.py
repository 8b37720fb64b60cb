"""JSON pointers (RFC 6901): how a place in a document is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = ["NOWHERE", "Ways", "escaped", "pointer_into", "pointer_of", "step_into", "unescaped", "way", "ways_into"]

#: What `step_into` finds where nothing is.
NOWHERE = object()
_MOST_DIGITS = 15  # of an index


def escaped(step: str | int) -> str:
    """A key or an index as it stands between two slashes."""
    return str(step).replace("~", "~0").replace("/", "~1")


def unescaped(token: str) -> str:
    """The key that stands between two slashes."""
    return token.replace("~1", "/").replace("~0", "~")


def pointer_of(steps: Iterable[str | int]) -> str:
    """The pointer of a place by the keys and indices that lead to it: empty for the whole document."""
    return "".join("/" + escaped(step) for step in steps)


def step_into(value: Any, step: str) -> Any:
    """The member or the element that an unescaped step leads to from a value; `NOWHERE` where there is none."""
    if isinstance(value, dict):
        return value.get(step, NOWHERE)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) <= _MOST_DIGITS:
        return value[int(step)] if int(step) < len(value) else NOWHERE
    return NOWHERE


#: By the id of a value: the id of what it stands in, and the step from there.
Ways: TypeAlias = dict[int, tuple[int, str | int]]


def ways_into(document: Any) -> Ways:
    """How the objects and arrays of a document are reached."""
    found: Ways = {}
    stack = [document]
    while stack:
        value = stack.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, below in inner:
            if isinstance(below, dict | list) and below is not document and id(below) not in found:
                found[id(below)] = (id(value), step)
                stack.append(below)
    return found


def way(ways: Ways, wanted: Any) -> tuple[str | int, ...] | None:
    """The steps from a document to one of its own objects or arrays, by identity."""
    steps: list[str | int] = []
    at = id(wanted)
    while at in ways:
        at, step = ways[at]
        steps.append(step)
    return tuple(reversed(steps)) or None


def pointer_into(document: Any, wanted: Any) -> str:
    """The pointer of one of a document's own values."""
    return pointer_of(way(ways_into(document), wanted) or ())
