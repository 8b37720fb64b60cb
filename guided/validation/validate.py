"""Validation of finished values against their schema, by an independent validator.

A value is checked by ``jsonschema``, which does not know our grammars; a message reports what it finds.  Nothing is
fetched: references resolve to the schema, the documents passed with it, and the published meta-schemas.  If the check
fails, or needs more than a second of processor time, there is no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.passes.dialect import exclusive_flags, nullable
from grammars.values.json_pointer import pointer_of
from guided.validation.validate_python import by_jsonschema

__all__ = ["NOT_VALIDATED", "Verdict", "judge", "needed_documents", "violations"]

NOT_VALIDATED = "not validated: "  #: prefix of the entry in `violations` for a value that could not be judged

_MAX_VIOLATIONS = 20  # listed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one validator.  ``violations`` is None if it could not judge; ``failure`` then says why."""

    validator: str
    violations: tuple[str, ...] | None
    failure: str = ""

    @property
    def is_valid(self) -> bool | None:
        return None if self.violations is None else not self.violations


def violations(
    schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None, must_judge: bool = False
) -> tuple[str, ...]:
    """Return the violations of ``value``, each as ``validator: place: text``; () if it is valid.

    With ``must_judge`` it is also a violation if no validator could judge.
    """
    verdicts = judge(schema, value, documents=documents)
    found = [f"{v.validator}: {text}" for v in verdicts for text in v.violations or ()]
    if must_judge and all(v.violations is None for v in verdicts):
        found.append(NOT_VALIDATED + "; ".join(f"{v.validator}: {v.failure}" for v in verdicts))
    return tuple(found)


def judge(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[Verdict, ...]:
    """Return the verdict of ``jsonschema``; () for what is no schema."""
    if not isinstance(schema, Mapping | bool):
        return ()
    try:
        dialect = dialect_of(schema)
        needed = needed_documents(schema, documents or {})
        others = {uri: _document(one, dialect_of(one, dialect)) for uri, one in needed.items()}
        errors = by_jsonschema(_readable(schema, dialect), value, others, _MAX_VIOLATIONS + 1)
    except Exception as error:  # a broken schema, a pattern it cannot read, a reference it cannot follow
        reason = str(error).strip().splitlines()
        return (Verdict("jsonschema", None, f"{type(error).__name__}: {reason[0][:200] if reason else ''}"),)
    texts = [f"{pointer_of(place) or 'the value'}: {text[:300]}" for place, text in errors[:_MAX_VIOLATIONS]]
    more = ["and more"] if len(errors) > _MAX_VIOLATIONS else []
    return (Verdict("jsonschema", tuple(dict.fromkeys([*texts, *more]))),)


def needed_documents(schema: Any, documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the documents that references reach: an error in any other must not prevent a verdict."""
    named = {name: uri for uri, document in documents.items() for name in (uri, *_ids(document))}
    named = {name.rstrip("#"): uri for name, uri in named.items()}
    found: dict[str, Any] = {}
    todo: list[tuple[Any, str]] = [(schema, "")]
    while todo and len(found) < len(documents):
        node, base = todo.pop()
        for name in _ids(node):
            base = urljoin(base, name)
        for reference in _references(node):
            to = urljoin(base, reference).partition("#")[0]
            if not to or to == base.partition("#")[0] or f"{to}#" in REGISTRY or to in REGISTRY:
                continue
            if to not in named:
                return documents  # one of them may define this name inside
            if named[to] not in found:
                found[named[to]] = documents[named[to]]
                todo.append((documents[named[to]], named[to]))
        below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        todo.extend((sub, base) for sub in below if isinstance(sub, Mapping | list))
    return found


def _ids(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (name for key in ("$id", "id") if isinstance(name := node.get(key), str))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (to for key in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(to := node.get(key), str))


def _document(document: Any, dialect: Dialect) -> Any:
    """Return a document without OpenAPI keywords that names its dialect: its own, or that of the schema."""
    plain = _readable(document, dialect)
    return {**plain, "$schema": dialect.uri} if isinstance(plain, dict) else plain


def _readable(schema: Any, dialect: Dialect) -> Any:
    r"""Rewrite what validators do not know.

    In patterns ``\<`` and ``\>`` are ``<`` and ``>`` to ECMA-262 and word boundaries to Rust.  Of OpenAPI 3.0 these are
    ``nullable`` and boolean exclusive bounds.  They are left where they have no effect (siblings of a ``$ref`` in a
    dialect that ignores siblings), and where the dialect of the resource defines the flags itself.
    """
    if isinstance(schema, list):
        return [_readable(item, dialect) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if any(_ids(schema)):
        dialect = dialect_of(schema, dialect)
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            out[key] = value
        elif key in _MAPS and isinstance(value, Mapping):
            is_pattern = key == "patternProperties"
            out[key] = {_angles(name) if is_pattern else name: _readable(sub, dialect) for name, sub in value.items()}
        elif key == "pattern" and isinstance(value, str):
            out[key] = _angles(value)
        else:
            out[key] = _readable(value, dialect)
    if "$ref" in out and dialect.ref_ignores_siblings:
        return out
    if out.get("nullable") is True:
        out = nullable(out, None, [])
    if dialect.order > 4 and any(isinstance(out.get(flag), bool) for flag in ("exclusiveMinimum", "exclusiveMaximum")):
        out = exclusive_flags(out, None, [])
    return out


def _angles(pattern: str) -> str:
    return _ESCAPE.sub(lambda found: found[0].lstrip("\\") if found[0] in ("\\<", "\\>") else found[0], pattern)


_ESCAPE = re.compile(r"\\.", re.DOTALL)
#: Keywords whose values are data, and those whose values are maps from names to schemas.
_DATA = frozenset(("const", "enum", "default", "example", "examples"))
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
