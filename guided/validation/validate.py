"""Validation of finished values against their schema, by an independent validator.

A value is checked by ``jsonschema``, which does not know our grammars; a message reports what it finds.  It runs in a
worker process, since nothing else ends a slow pattern.  Nothing is fetched: references resolve to the schema, the
documents passed with it, and the published meta-schemas.  If the check fails, or needs more than a second of processor
time, there is no verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.passes.dialect import exclusive_flags, nullable
from grammars.limits.deadline import time_limits
from grammars.values.json_pointer import pointer_of
from guided.engine.worker import Ended, Worker

__all__ = ["NOT_VALIDATED", "Verdict", "judge", "needed_documents", "readable", "violations"]

NOT_VALIDATED = "not validated: "  #: prefix of the entry in `violations` for a value that could not be judged

_MAX_VIOLATIONS = 20  # listed

_worker = Worker(Path(__file__).with_name("validation_job.py"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one validator.  ``violations`` is None if it could not judge; ``failure`` then says why."""

    validator: str
    violations: tuple[str, ...] | None
    failure: str = ""

    @property
    def is_valid(self) -> bool | None:
        return None if self.violations is None else not self.violations


def violations(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return the violations of ``value``, each as ``validator: place: text``; () if it is valid.

    It is also a violation if no validator could judge.
    """
    verdicts = judge(schema, value, documents=documents)
    texts = [f"{v.validator}: {text}" for v in verdicts for text in v.violations or ()]
    if all(v.violations is None for v in verdicts):
        texts.append(NOT_VALIDATED + "; ".join(f"{v.validator}: {v.failure}" for v in verdicts))
    return tuple(texts)


def judge(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[Verdict, ...]:
    """Return the verdict of ``jsonschema``; () for what is not a schema."""
    if not isinstance(schema, Mapping | bool):
        return ()
    try:
        errors, failure = _asked(schema, value, documents or {})
    except Exception as error:  # nested too deep, a number of too many digits, no worker can be started
        errors, failure = [], f"{type(error).__name__}: {error}"
    if failure:
        return (Verdict("jsonschema", None, failure),)
    texts = [f"{pointer_of(place) or 'the value'}: {text}" for place, text in errors[:_MAX_VIOLATIONS]]
    more = ["and more"] if len(errors) > _MAX_VIOLATIONS else []
    return (Verdict("jsonschema", tuple(dict.fromkeys([*texts, *more]))),)


def _asked(schema: Any, value: Any, documents: Mapping[str, Any]) -> tuple[list[tuple[list[Any], str]], str]:
    """Return the errors that the worker finds, and why there is no verdict."""
    schema, documents = readable(schema, documents)
    request = {"check": json.dumps([schema, value, documents]), "most": _MAX_VIOLATIONS + 1}
    limits = time_limits()
    answer = _worker.ask(request, seconds=limits.validation_cpu_s, patience=limits.grammar_s)
    if isinstance(answer, Ended):
        late = f"{limits.grammar_s:g} s, the wait for others included" if answer.late else answer.limit
        return [], f"Unfinished: more than {late}" if late else f"Unfinished: the worker ended with {answer.code}"
    return answer.get("errors", []), answer.get("failure", "")


def readable(schema: Any, documents: Mapping[str, Any], *, as_we_do: bool = True) -> tuple[Any, dict[str, Any]]:
    """Return a schema, and of its documents those that it needs, without OpenAPI's keywords and with their dialects.

    ``as_we_do``: a ``$schema`` counts only where a resource begins, so each subschema gets one if there are several.
    """
    dialect = dialect_of(schema)
    needed = {uri: (other, dialect_of(other, dialect)) for uri, other in needed_documents(schema, documents).items()}
    dialects = {dialect} | {its for _, its in needed.values()} | set(_inner_dialects([schema, *documents.values()]))
    mark = len(dialects) > 1 if as_we_do else None
    others = {uri: _root(_readable(other, its, mark), its) for uri, (other, its) in needed.items()}
    return _root(_readable(schema, dialect, mark), dialect), others


def _inner_dialects(node: Any) -> Iterator[Dialect]:
    if isinstance(node, Mapping) and any(_ids(node)) and "$schema" in node:
        yield dialect_of(node)
    below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    for sub in below:
        yield from _inner_dialects(sub)


def _root(schema: Any, dialect: Dialect) -> Any:
    return {**schema, "$schema": dialect.uri} if isinstance(schema, dict) else schema


def needed_documents(schema: Any, documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the documents that references reach: an error in any other must not prevent a verdict."""
    named = {name: uri for uri, document in documents.items() for name in (uri, *_ids(document))}
    named = {name.rstrip("#"): uri for name, uri in named.items()}
    needed: dict[str, Any] = {}
    todo: list[tuple[Any, str]] = [(schema, "")]
    while todo and len(needed) < len(documents):
        node, base = todo.pop()
        for name in _ids(node):
            base = urljoin(base, name)
        for reference in _references(node):
            to = urljoin(base, reference).partition("#")[0]
            if not to or to == base.partition("#")[0] or f"{to}#" in REGISTRY or to in REGISTRY:
                continue
            if to not in named:
                return documents  # one of them may define this name inside
            if named[to] not in needed:
                needed[named[to]] = documents[named[to]]
                todo.append((documents[named[to]], named[to]))
        below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        todo.extend((sub, base) for sub in below if isinstance(sub, Mapping | list))
    return needed


def _ids(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (name for key in ("$id", "id") if isinstance(name := node.get(key), str))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (to for key in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(to := node.get(key), str))


def _readable(schema: Any, dialect: Dialect, mark: bool | None) -> Any:
    """Rewrite what validators do not know; with ``mark`` each schema names its dialect, None leaves those named.

    These are OpenAPI 3.0's ``nullable`` and boolean exclusive bounds.  They are left where they have no effect
    (siblings of a ``$ref`` in a dialect that ignores siblings), and where the dialect of the resource defines the flags
    itself.
    """
    if isinstance(schema, list):
        return [_readable(item, dialect, mark) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if any(_ids(schema)):
        dialect = dialect_of(schema, dialect)
    out: dict[str, Any] = {"$schema": dialect.uri} if mark else {}
    for key, value in schema.items():
        if key == "$schema" and mark is not None:
            continue
        if key in _DATA:
            out[key] = value
        elif key in _MAPS and isinstance(value, Mapping):
            out[key] = {name: _readable(sub, dialect, mark) for name, sub in value.items()}
        else:
            out[key] = _readable(value, dialect, mark)
    if "$ref" in out and dialect.ref_ignores_siblings:
        return out
    if out.get("nullable") is True:
        out = nullable(out, None, [])
    if dialect.order > 4 and any(isinstance(out.get(flag), bool) for flag in ("exclusiveMinimum", "exclusiveMaximum")):
        out = exclusive_flags(out, None, [])
    return out


#: Keywords whose values are data, and those whose values are maps from names to schemas.
_DATA = frozenset(("const", "enum", "default", "example", "examples"))
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
