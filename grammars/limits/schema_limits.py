"""Limits on the schema document, checked before anything else reads it.

All walks here are iterative, so that deep nesting overflows neither Python's stack nor the engine's.  An error names
the limit and the place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from grammars.limits.deadline import is_late
from grammars.values.json_pointer import pointer_of
from special_tokens.errors import SchemaError

__all__ = ["DEFAULT_LIMITS", "Limits", "Survey", "check_deadline", "survey", "too_deep", "with_deadline"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on a schema: first the size of the document, then what it expands to."""

    nodes: int = 400_000  #: values in the document
    depth: int = 500  #: nesting of the document
    characters: int = 4_000_000  #: characters in all strings and keys together
    digits: int = 300  #: digits of one number
    #: Whole numbers with the hash of another number (equal modulo 2^61 - 1): each of them slows lookups in dicts down.
    collisions: int = 1_000
    #: Characters of one constant or key.  The time for the engine's first mask grows with the square of this length.
    literal: int = 50_000
    states: int = 20_000  #: rules of the grammar; each conjunction of subschemas needs one
    steps: int = 200_000  #: alternatives that are built while subschemas are intersected
    #: Members and items in all rules.  The limit keeps a grammar below the 65,535 symbols that the engine allows.
    edges: int = 16_000
    #: Alternatives in the intersection of two subschemas.  If there are more, one of the two is not enforced (relaxed).
    forms: int = 400
    regex: int = 30_000  #: characters of a pattern with its repeats written out
    keys: int = 3_000  #: listed keys of one object
    items: int = 2_000  #: positions of one array that are written out


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of one walk over a document: ``keys`` are all object keys in it, ``depth`` its nesting."""

    keys: frozenset[str]
    depth: int
    nodes: int


class _Pointed(Protocol):
    @property
    def pointer(self) -> str: ...


def check_deadline(place: _Pointed | None = None) -> None:
    """Raise `SchemaError` past the deadline of the thread (`grammars.limits.deadline`).

    After an `Overrun`, a subclass, the schema is translated again, more coarsely.  A deadline raises none, because
    what a plan enforces must not depend on how busy the machine is.
    """
    if is_late():
        raise SchemaError(
            "the schema was not translated before the deadline of its request",
            pointer=place.pointer if place is not None else "",
            hint="use fewer nested allOf, anyOf and oneOf, or try again when the machine is less busy",
        )


_HASH_BITS = 61  # whole numbers of at most this many bits are not counted: nearly all have different hashes in Python
_VALUES_PER_CHECK = 1_000  # read between two looks at the deadline

_T = TypeVar("_T")


def with_deadline(values: Iterable[_T]) -> Iterator[_T]:
    """Yield the values; raises `SchemaError` past the deadline, which is checked after every thousand."""
    for number, value in enumerate(values, 1):
        if number % _VALUES_PER_CHECK == 0:
            check_deadline()
        yield value


_CONTAINERS = (str, dict, list)
_KINDS = frozenset({*_CONTAINERS, int, float, bool, type(None)})


def survey(schema: Any, limits: Limits = DEFAULT_LIMITS) -> Survey:
    """Walk over a schema document; raises `SchemaError` if it is not JSON or exceeds a limit."""
    if not isinstance(schema, dict | bool):
        raise SchemaError(f"a schema cannot be {_kind(schema)}", expected="an object, true or false")
    keys: set[str] = set()
    nodes = characters = deepest = 0
    level: list[Any] = [schema]
    hashes = _Hashes()
    while level:
        deepest += 1
        nodes += len(level)
        if nodes > limits.nodes:
            raise _limit_error("values", nodes, limits.nodes, "nodes")
        if deepest > limits.depth:
            raise _limit_error(
                "levels of nesting", deepest, limits.depth, "depth", pointer=_deep_pointer(schema, limits.depth)
            )
        if deepest == 1 or len(level) > _VALUES_PER_CHECK:
            check_deadline()
        following: list[Any] = []
        texts: list[Any] = []
        for value in level:
            kind = type(value)
            if kind not in _KINDS:
                kind = next((base for base in _CONTAINERS if isinstance(value, base)), kind)  # a subclass
            if kind is str:
                texts.append(value)
            elif kind is dict:
                texts += value
                keys.update(value)
                following += value.values()
            elif kind is list:
                following += value
            elif value is not None and kind is not bool:
                _check_number(value, limits, hashes)
        characters += _num_characters(texts)
        if characters > limits.characters:
            raise _limit_error("characters", characters, limits.characters, "characters")
        level = following
    return Survey(frozenset(keys), deepest, nodes)


class _Hashes:
    """Large whole numbers by their hashes; ``num_collisions`` counts the numbers with the hash of an earlier number."""

    def __init__(self) -> None:
        self.numbers: dict[int, set[int]] = {}
        self.num_collisions = 0

    def add(self, value: int) -> None:
        same = self.numbers.setdefault(hash(value), set())
        if value not in same:
            self.num_collisions += bool(same)
            same.add(value)


def _check_number(value: Any, limits: Limits, hashes: _Hashes) -> None:
    """Check a scalar that is not a string, boolean or null: also raises for a value that is not JSON."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError(f"{value} is not a JSON number", expected="a finite number")
    elif not isinstance(value, int):
        raise SchemaError(f"{type(value).__name__} is not a JSON value", expected="JSON")
    elif value.bit_length() > limits.digits * 3.33:
        raise SchemaError(
            f"a number has more than {limits.digits} digits, the limit 'digits'",
            hint="use a smaller number",
        )
    elif value.bit_length() > _HASH_BITS:
        hashes.add(int(value))
        if hashes.num_collisions > limits.collisions:
            raise SchemaError(
                f"more than {limits.collisions} whole numbers have the remainder of another number modulo "
                f"2^{_HASH_BITS} - 1, the limit 'collisions'",
                hint="list fewer large numbers",
            )


def _num_characters(texts: list[Any]) -> int:
    """The number of characters in ``texts``.  Checking their joined text takes half as long as checking each text."""
    try:
        whole = "".join(texts)
        if not whole.isascii():
            whole.encode()
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            _check_text(text)
        raise
    return len(whole)


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise SchemaError(f"the key {text!r} is not a string", expected="JSON")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"a string holds a lone surrogate at character {error.start}", expected="text that can be written as UTF-8"
        ) from None


def _limit_error(what: str, size: int, most: int, name: str, *, pointer: str = "") -> SchemaError:
    return SchemaError(
        f"the schema has {size} {what}, the limit {name!r} is {most}",
        pointer=pointer,
        hint="split the schema",
    )


def too_deep(schema: Any) -> SchemaError:
    """Return the error for a schema whose levels, together with those of its references, overflow Python's stack."""
    depth = survey(schema).depth
    return SchemaError(
        f"the schema is nested too deeply: its {depth} levels, and those that references lead to, do not fit the "
        "interpreter's recursion limit",
        pointer=_deep_pointer(schema, depth),
        hint="use fewer levels, and shorter chains of references",
    )


def _deep_pointer(schema: Any, most: int) -> str:
    """The pointer of one of the deepest places, shortened to its first steps."""
    steps: list[str | int] = []
    level: list[tuple[Any, tuple[Any, ...]]] = [(schema, ())]  # a path is a pair: last step, path before it
    for _ in range(most):  # a Python value may contain itself: without ``most`` this would never end
        if not level:
            break
        last = level[0]
        level = [
            (value, (key, path))
            for node, path in level
            for key, value in (node.items() if isinstance(node, dict) else enumerate(node))
            if isinstance(value, dict | list) and value
        ]
    path = last[1]
    while path:
        steps.append(path[0])
        path = path[1]
    steps.reverse()
    return pointer_of(steps[:8]) + ("/..." if len(steps) > 8 else "")


def _kind(value: Any) -> str:
    names = {type(None): "null", str: "a string", list: "an array", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")
