"""Validation by ``jsonschema`` in bounded time and exact arithmetic.

Each reference is followed once per value, so that conjunctions of references do not double the work at every level; a
check that needs more than a second of processor time is stopped.  Numbers are compared and divided as decimals (0.07
is seven times 0.01, which does not hold for doubles), and equal values are found by hash keys, not pairwise.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import jsonschema
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import specification_with

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.keywords.numeric import exact
from grammars.json_schema.report.document_rows import patterns_of
from grammars.json_schema.shapes.equality_keys import EqualityKeys
from grammars.limits.time_limits import time_limits
from grammars.regular.backtracking import backtracking_steps, no_nested_set_warnings

__all__ = ["Unfinished", "by_jsonschema"]

_SHARE = 0.2  # at most this share of the time limit is charged to one step: a longer step is mostly garbage collection
_ROOM = 80  # stack frames that following a reference takes, with a wide margin
_KEPT = 4  # errors of a reference that are repeated when it is checked against the same value again

_MAX_STEPS = 50_000_000  # of a backtracking engine over all strings of a value: a second at worst
_MAX_PATTERNS = 400  # somewhat less than ``re`` keeps compiled


class Unfinished(Exception):
    """The validator was stopped: it gives no verdict."""


class _KnownResult(NamedTuple):
    """The result of a reference for a value; both are kept alive, so that their ids are not reused."""

    errors: list[Any]
    schema: Any
    value: Any


class _Walk:
    """The state of one check.  ``dialects``: by id, those of subschemas whose dialect differs from the root's."""

    def __init__(self, dialects: Mapping[int, Dialect]) -> None:
        self.seen, self.spent = time.thread_time(), 0.0
        self.seconds = time_limits().validation_cpu_s
        self.dialects = dialects
        self.known: dict[Hashable, _KnownResult] = {}
        self.listed: dict[int, tuple[EqualityKeys, frozenset[Hashable]]] = {}

    def step(self) -> None:
        now = time.thread_time()
        self.spent += min(now - self.seen, self.seconds * _SHARE)
        self.seen = now
        if self.spent > self.seconds:
            raise Unfinished(f"not finished within {self.seconds:g} s of processor time")


class _ThreadWalk(threading.local):
    walk: _Walk


_thread = _ThreadWalk()


def by_jsonschema(schema: Any, value: Any, documents: Mapping[str, Any], most: int) -> list[tuple[list[Any], str]]:
    """Return at most ``most`` violations of ``value``, each as its path and a message.

    Raises what the validator raises, and `Unfinished` if finding them would take too long.
    """
    texts = Counter(_rounded(len(text)) for text in _texts_of(value))
    patterns = [p for one in (schema, *documents.values()) for p in patterns_of(one)]
    with no_nested_set_warnings(*(p for several in patterns for p in several)):
        if any(_are_slow(several, texts) for several in patterns):
            raise Unfinished("a pattern may take exponential time in a backtracking engine")
        return _checked(schema, value, documents, most)


def _checked(schema: Any, value: Any, documents: Mapping[str, Any], most: int) -> list[tuple[list[Any], str]]:
    dialect = dialect_of(schema)
    named = {uri: dialect_of(document, dialect) for uri, document in documents.items()}
    kinds = {uri: specification_with(its.uri) for uri, its in named.items()}
    resources = [(uri, kinds[uri].create_resource(document)) for uri, document in documents.items()]
    if isinstance(schema, Mapping):  # known already; `referencing` may read an unknown one otherwise
        schema = {key: sub for key, sub in schema.items() if key != "$schema"}
    dialects: dict[int, Dialect] = {}
    for document, its in ((schema, dialect), *((documents[uri], its) for uri, its in named.items())):
        _note_dialects(document, its, dialects)
    kind: Any = _kind(dialect)
    _thread.walk = _Walk(dialects)
    validator = kind(schema, registry=REGISTRY.with_resources(resources), format_checker=kind.FORMAT_CHECKER)
    return [(list(error.absolute_path), error.message) for error in islice(validator.iter_errors(value), most)]


# -- dialects


def _note_dialects(document: Any, dialect: Dialect, found: dict[int, Dialect]) -> None:
    """Record the dialect of every subschema in ``found``: a JSON pointer may reference any of them."""
    todo = [(document, dialect)]
    while todo:
        node, its = todo.pop()
        if isinstance(node, dict):
            its = found[id(node)] = _own_dialect(node, its)
            todo.extend((sub, its) for sub in node.values() if isinstance(sub, dict | list))
        elif isinstance(node, list):
            todo.extend((sub, its) for sub in node if isinstance(sub, dict | list))


def _own_dialect(schema: Any, around: Dialect) -> Dialect:
    """Return the dialect of ``schema``; ``$schema`` counts only where a resource begins."""
    if isinstance(schema, dict) and "$schema" in schema and ("$id" in schema or "id" in schema):
        return dialect_of(schema, around)
    return around


@lru_cache(maxsize=16)
def _kind(dialect: Dialect) -> Any:
    """Return the validator class of a dialect: the library's, with the checks of this module."""
    library: Any = jsonschema.validators.validator_for({"$schema": dialect.uri})
    own: dict[str, Any] = {
        name: _once(check) for name, check in library.VALIDATORS.items() if name.lower().endswith("ref")
    }
    own |= {name: check for name, check in _CHECKS.items() if name in library.VALIDATORS}
    extend: Any = jsonschema.validators.extend
    kind: Any = extend(library, own)
    fields = [(field.name, field.alias) for field in kind.__attrs_attrs__ if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        """Count a step and return the validator of a subschema, in its own dialect and always of our class."""
        walk = _thread.walk
        walk.step()
        schema = changes.setdefault("schema", self.schema)
        for name, alias in fields:
            if alias not in changes:
                changes[alias] = getattr(self, name)
        its = walk.dialects.get(id(schema)) or _own_dialect(schema, dialect)
        return (kind if its is dialect else _kind(its))(**changes)

    kind.evolve = evolve
    return kind


# -- references


def _once(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """Return the check of a reference, made once per value.

    Endless recursion raises here and not in the Rust code below, where it would be a panic.
    """

    def checked(validator: Any, reference: Any, value: Any, schema: Any) -> Iterator[Any]:
        _recurse(_ROOM)
        walk, resolver = _thread.walk, validator._resolver
        scope = tuple(uri for uri, _ in resolver.dynamic_scope())
        key = check, id(schema), id(value), type(validator), resolver._base_uri, scope
        known = walk.known.get(key)
        if known is not None:
            yield from map(_copied, known.errors)
            return
        errors: list[Any] = []
        is_whole = False
        try:
            for error in check(validator, reference, value, schema) or ():
                if len(errors) < _KEPT:
                    errors.append(_copied(error))
                yield error
            is_whole = True
        finally:  # also if the caller stops at the first error
            if is_whole or errors:
                walk.known[key] = _KnownResult(errors, schema, value)

    return checked


def _copied(error: Any) -> Any:
    """Return a copy of an error with its path below the reference: callers extend the path in place."""
    return jsonschema.ValidationError(error.message, path=tuple(error.relative_path))


def _recurse(frames: int) -> None:
    if frames:
        _recurse(frames - 1)


# -- keywords


def _number(check: Callable[[Any, Any, Any], str]) -> Callable[..., Iterator[Any]]:
    """Return the check of a number; ``check`` (value, the keyword's value, schema) returns the fault or ""."""

    def checked(validator: Any, bound: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "number"):
            fault = check(value, bound, schema)
            if fault:
                yield jsonschema.ValidationError(f"{value!r} is {fault} {bound!r}")

    return checked


def _is_infinite(number: Any) -> bool:
    return isinstance(number, float) and not math.isfinite(number)


def _is_less(one: Any, two: Any) -> bool:
    if type(one) is type(two) or _is_infinite(one) or _is_infinite(two):
        return bool(one < two)
    return exact(one) < exact(two)


def _minimum(value: Any, least: Any, schema: Any) -> str:
    if schema.get("exclusiveMinimum") is True:
        return _exclusive_minimum(value, least, schema)
    return "less than the minimum of" if _is_less(value, least) else ""


def _maximum(value: Any, most: Any, schema: Any) -> str:
    if schema.get("exclusiveMaximum") is True:
        return _exclusive_maximum(value, most, schema)
    return "greater than the maximum of" if _is_less(most, value) else ""


def _exclusive_minimum(value: Any, least: Any, schema: Any) -> str:
    return "" if _is_less(least, value) else "less than or equal to the minimum of"


def _exclusive_maximum(value: Any, most: Any, schema: Any) -> str:
    return "" if _is_less(value, most) else "greater than or equal to the maximum of"


def _multiple(value: Any, step: Any, schema: Any) -> str:
    if _is_infinite(value):
        return "not a multiple of"
    if isinstance(value, int) and isinstance(step, int):
        return "not a multiple of" if value % step else ""
    return "not a multiple of" if exact(value) % exact(step) else ""


def _enum(validator: Any, values: Any, value: Any, schema: Any) -> Iterator[Any]:
    walk = _thread.walk
    walk.step()
    listed = walk.listed.get(id(values))
    if listed is None:
        keys = EqualityKeys()
        listed = walk.listed[id(values)] = keys, frozenset(map(keys, values))
    keys, known = listed
    if keys(value) not in known:
        yield jsonschema.ValidationError(f"{value!r} is not one of {values[:50]!r}")


def _unique_items(validator: Any, unique: Any, value: Any, schema: Any) -> Iterator[Any]:
    if unique and validator.is_type(value, "array") and len(set(map(EqualityKeys(), value))) < len(value):
        yield jsonschema.ValidationError(f"{value!r} has non-unique elements")


def _format(validator: Any, name: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check as the library does, without the warnings of ``re`` when it compiles a text for ``regex``."""
    library: Any = jsonschema.Draft202012Validator
    check = library.VALIDATORS["format"]
    with no_nested_set_warnings(value if name == "regex" and isinstance(value, str) else ""):
        errors = list(check(validator, name, value, schema))
    yield from errors


_CHECKS: Mapping[str, Callable[..., Iterator[Any]]] = {
    "minimum": _number(_minimum),
    "maximum": _number(_maximum),
    "exclusiveMinimum": _number(_exclusive_minimum),
    "exclusiveMaximum": _number(_exclusive_maximum),
    "multipleOf": _number(_multiple),
    "enum": _enum,
    "uniqueItems": _unique_items,
    "format": _format,
}


# -- patterns


def _texts_of(value: Any) -> Iterator[str]:
    """Return all strings and keys of a value."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            yield from (key for key in one if isinstance(key, str))
            todo.extend(one.values())
        elif isinstance(one, list | tuple):
            todo.extend(one)


def _rounded(length: int) -> int:
    """Round a length up to three significant bits, so that many texts share few lengths."""
    unit = max(length.bit_length() - 3, 3)
    return -(-length >> unit) << unit


def _are_slow(patterns: tuple[str, ...], texts: Mapping[int, int]) -> bool:
    """Whether the patterns of one object may be too slow on ``texts``, a count by length."""
    if len(patterns) > _MAX_PATTERNS and sum(texts.values()) > 10:  # each is compiled again for each key
        return True
    return sum(backtracking_steps(p, length) * count for p in patterns for length, count in texts.items()) > _MAX_STEPS
