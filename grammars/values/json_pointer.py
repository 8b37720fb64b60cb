"""JSON pointers (RFC 6901): how a place in a document is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = [
    "MISSING",
    "Parents",
    "escaped",
    "parents_in",
    "pointer_of",
    "pointer_to",
    "step_into",
    "steps_to",
    "unescaped",
    "value_at",
]

#: What `step_into` returns where there is nothing.
MISSING = object()
_MAX_DIGITS = 15  # of an index


def escaped(step: str | int) -> str:
    """A key or an index as it is written between two slashes."""
    return str(step).replace("~", "~0").replace("/", "~1")


def unescaped(token: str) -> str:
    """The key that is written between two slashes."""
    return token.replace("~1", "/").replace("~0", "~")


def pointer_of(steps: Iterable[str | int]) -> str:
    """The pointer of a place by the keys and indices that lead to it: empty for the whole document."""
    return "".join("/" + escaped(step) for step in steps)


def step_into(value: Any, step: str) -> Any:
    """The member or the element of ``value`` under an unescaped key or index; `MISSING` where there is none."""
    if isinstance(value, dict):
        return value.get(step, MISSING)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) <= _MAX_DIGITS:
        return value[int(step)] if int(step) < len(value) else MISSING
    return MISSING


def value_at(document: Any, pointer: str) -> Any:
    """The value at a pointer; `MISSING` where there is none."""
    for step in pointer.split("/")[1:]:
        document = step_into(document, unescaped(step))
    return document


#: By the id of an object or array: the id of the one that contains it, and its key or index there.
Parents: TypeAlias = dict[int, tuple[int, str | int]]


def parents_in(document: Any) -> Parents:
    """The parents of all objects and arrays of a document; of one that occurs twice, the parent that is met first."""
    parents: Parents = {}
    stack = [document]
    while stack:
        value = stack.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, below in inner:
            if isinstance(below, dict | list) and below is not document and id(below) not in parents:
                parents[id(below)] = (id(value), step)
                stack.append(below)
    return parents


def steps_to(parents: Parents, wanted: Any) -> tuple[str | int, ...] | None:
    """The keys and indices from a document to one of its own objects or arrays, by identity; None for the document."""
    steps: list[str | int] = []
    at = id(wanted)
    while at in parents:
        at, step = parents[at]
        steps.append(step)
    return tuple(reversed(steps)) or None


def pointer_to(document: Any, wanted: Any) -> str:
    """The pointer of one of a document's own objects or arrays, by identity."""
    return pointer_of(steps_to(parents_in(document), wanted) or ())
