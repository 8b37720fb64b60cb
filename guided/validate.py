"""Finished values against their schema, by validators that we did not write.

Two look at each value: ``jsonschema`` and, where it is installed, ``jsonschema-rs``.  Neither knows our grammars, so
what they find is what a message reports.  Nothing is fetched: references lead into the schema, the documents that
came with it, and the published meta-schemas.  A validator that fails itself has no opinion.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import specification_with

from grammars.json_schema.backtracking import effort
from grammars.json_schema.dialects import Dialect, dialect_of
from grammars.json_schema.passes.dialect import exclusive_flags, nullable

try:
    import jsonschema_rs
except ImportError:  # an optional extra
    jsonschema_rs = None  # type: ignore[assignment]

__all__ = ["VALIDATORS", "Verdict", "judge", "violations"]

_MOST = 20  # violations that one validator lists

#: Patterns whose search may take exponential time in a backtracking engine: a repeat of something that itself repeats
#: or chooses.
_REPEATED_GROUP = re.compile(r"[+*|{?][^()]*\)+[*+{]")

_MOST_STEPS = 50_000_000  # of a backtracking engine over all strings of a value: a second at the worst
_ROOM = 80  # frames that following a reference takes, with much to spare


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one validator says.  ``violations`` is None when it could not judge, then ``failure`` says why."""

    validator: str
    violations: tuple[str, ...] | None
    failure: str = ""

    @property
    def is_valid(self) -> bool | None:
        return None if self.violations is None else not self.violations


def violations(
    schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None, must_judge: bool = False
) -> tuple[str, ...]:
    """What is wrong with ``value``, each as ``validator: place: what``; () when nothing is.

    With ``must_judge`` it is a violation as well that no validator had an opinion.
    """
    verdicts = judge(schema, value, documents=documents)
    found = [f"{v.validator}: {text}" for v in verdicts for text in v.violations or ()]
    if must_judge and all(v.violations is None for v in verdicts):
        found.append("not validated: " + "; ".join(f"{v.validator}: {v.failure}" for v in verdicts))
    return tuple(found)


def judge(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[Verdict, ...]:
    """The verdict of every validator that is installed."""
    if not isinstance(schema, Mapping | bool):
        return ()
    return tuple(_verdict(name, check, schema, value, documents or {}) for name, check in VALIDATORS.items())


def _verdict(name: str, check: _Check, schema: Any, value: Any, documents: Mapping[str, Any]) -> Verdict:
    """What ``check`` finds.  A validator's Rust has no opinion as well where it panics: that is no `Exception`."""
    try:
        others = {uri: _in_plain_words(document) for uri, document in documents.items()}
        return Verdict(name, tuple(dict.fromkeys(check(_in_plain_words(schema), value, others))))
    except BaseException as error:  # a broken schema, a pattern it cannot read, a reference it cannot follow
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(error).strip().splitlines()
        return Verdict(name, None, f"{type(error).__name__}: {reason[0][:200] if reason else ''}")


def _in_plain_words(schema: Any, *, old: bool | None = None) -> Any:
    """The schema without OpenAPI 3.0's words, which validators do not know: ``nullable``, flags beside bounds.

    ``old``: the flags are the dialect's own, as in draft 4.
    """
    if old is None:
        old = dialect_of(schema).order <= 4
    if isinstance(schema, list):
        return [_in_plain_words(item, old=old) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            out[key] = value
        elif key in _MAPS and isinstance(value, Mapping):
            out[key] = {name: _in_plain_words(sub, old=old) for name, sub in value.items()}
        else:
            out[key] = _in_plain_words(value, old=old)
    if out.get("nullable") is True:
        out = nullable(out, None, [])
    if not old and any(isinstance(out.get(flag), bool) for flag in ("exclusiveMinimum", "exclusiveMaximum")):
        out = exclusive_flags(out, None, [])
    return out


#: Keywords whose values are data, and those whose values are maps from names to schemas.
_DATA = frozenset(("const", "enum", "default", "example", "examples"))
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))


# -- jsonschema


def _by_jsonschema(schema: Any, value: Any, documents: Mapping[str, Any]) -> Iterable[str]:
    texts = Counter(_rounded(len(text)) for text in _texts(value))
    if any(_has_slow_pattern(one, texts) for one in (schema, *documents.values())):
        raise ValueError("a pattern that may take its backtracking engine for ever")
    dialect = dialect_of(schema)
    resources = [(uri, _resource(document, dialect)) for uri, document in documents.items()]
    kind: Any = _kind(dialect)
    if isinstance(schema, Mapping):  # a dialect named in it would bring the library's own class back
        schema = {key: sub for key, sub in schema.items() if key != "$schema"}
    validator = kind(schema, registry=REGISTRY.with_resources(resources), format_checker=kind.FORMAT_CHECKER)
    for number, error in enumerate(validator.iter_errors(value)):
        if number == _MOST:
            yield "and more"
            return
        yield f"{_pointer(error.absolute_path)}: {error.message[:300]}"


def _resource(document: Any, dialect: Dialect) -> Any:
    return specification_with(dialect_of(document, dialect).uri).create_resource(document)


@lru_cache(maxsize=16)
def _kind(dialect: Dialect) -> Any:
    """The validator class of a dialect; what the library reads as a bool-blind draft stays the library's own."""
    kind: Any = jsonschema.validators.validator_for({"$schema": dialect.uri})
    with_room = {name: _with_room(check) for name, check in kind.VALIDATORS.items() if name.lower().endswith("ref")}
    extend: Any = jsonschema.validators.extend
    return extend(kind, with_room)


def _with_room(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """The check of a reference, which ends a recursion here and not in the Rust below, where it would be a panic."""

    def checked(*args: Any) -> Iterator[Any]:
        _recurse(_ROOM)
        yield from check(*args) or ()

    return checked


def _recurse(frames: int) -> None:
    if frames:
        _recurse(frames - 1)


def _texts(value: Any) -> Iterator[str]:
    """All strings and keys of a value."""
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
    """A length in three figures of two, never less: few numbers for many texts."""
    unit = max(length.bit_length() - 3, 3)
    return -(-length >> unit) << unit


def _has_slow_pattern(schema: Any, texts: Mapping[int, int]) -> bool:
    """May a pattern of the schema take for ever over so many texts of these lengths?"""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            pattern, keys = value.get("pattern"), value.get("patternProperties")
            several = [pattern, *(keys if isinstance(keys, dict) else ())]
            if any(isinstance(p, str) and _is_slow(p, texts) for p in several):
                return True
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return False


def _is_slow(pattern: str, texts: Mapping[int, int]) -> bool:
    if _REPEATED_GROUP.search(pattern):
        return True
    return sum(effort(pattern, length) * count for length, count in texts.items()) > _MOST_STEPS


# -- jsonschema-rs


def _by_jsonschema_rs(schema: Any, value: Any, documents: Mapping[str, Any]) -> Iterable[str]:
    dialect = dialect_of(schema)
    kind = _RUST_KINDS[dialect.order]
    registry = None
    if documents:
        registry = jsonschema_rs.Registry(list(documents.items()), draft=_RUST_DRAFTS[dialect.order])
    validator = kind(schema, validate_formats=True, retriever=_published, registry=registry)
    for number, error in enumerate(validator.iter_errors(value)):
        if number == _MOST:
            yield "and more"
            return
        yield f"{_pointer(error.instance_path)}: {error.message[:300]}"


def _published(uri: str) -> Any:
    """A published meta-schema; raises for any other document, for nothing is fetched."""
    return REGISTRY[uri.removesuffix("#")].contents


_RUST_KINDS: Mapping[int, Any] = {}
_RUST_DRAFTS: Mapping[int, Any] = {}
if jsonschema_rs is not None:
    _RUST_KINDS = {
        4: jsonschema_rs.Draft4Validator,
        6: jsonschema_rs.Draft6Validator,
        7: jsonschema_rs.Draft7Validator,
        8: jsonschema_rs.Draft201909Validator,
        9: jsonschema_rs.Draft202012Validator,
    }
    _RUST_DRAFTS = {
        4: jsonschema_rs.Draft4,
        6: jsonschema_rs.Draft6,
        7: jsonschema_rs.Draft7,
        8: jsonschema_rs.Draft201909,
        9: jsonschema_rs.Draft202012,
    }


def _pointer(path: Iterable[Any]) -> str:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    return "".join(f"/{step}" for step in steps) or "the value"


_Check = Callable[[Any, Any, Mapping[str, Any]], Iterable[str]]

#: The validators that are installed, by name.
VALIDATORS: Mapping[str, _Check] = {"jsonschema": _by_jsonschema}
if jsonschema_rs is not None:
    VALIDATORS = {**VALIDATORS, "jsonschema-rs": _by_jsonschema_rs}
