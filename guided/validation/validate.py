"""Finished values against their schema, by validators that we did not write.

Two look at each value: ``jsonschema`` and, where it is installed, ``jsonschema-rs``.  Neither knows our grammars, so
what they find is what a message reports.  Nothing is fetched: references lead into the schema, the documents that
came with it, and the published meta-schemas.  A validator that fails itself, or does not finish within a second of
processor time, has no opinion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY

from grammars.values.json_pointer import pointer_of
from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.passes.dialect import exclusive_flags, nullable
from guided.validation.validate_python import by_jsonschema, texts_of

_HAS_RUST = find_spec("jsonschema_rs") is not None  # an optional extra
if _HAS_RUST:
    from guided.validation.validate_rust import by_jsonschema_rs

__all__ = ["NOT_VALIDATED", "VALIDATORS", "Verdict", "judge", "needed_documents", "violations"]

NOT_VALIDATED = "not validated: "  #: how it begins what `violations` says of a value that nobody judged

_MOST = 20  # violations that one validator lists


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
        found.append(NOT_VALIDATED + "; ".join(f"{v.validator}: {v.failure}" for v in verdicts))
    return tuple(found)


def judge(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[Verdict, ...]:
    """The verdict of every validator that is installed."""
    if not isinstance(schema, Mapping | bool):
        return ()
    try:
        dialect = dialect_of(schema)
        needed = needed_documents(schema, documents or {})
        others = {uri: _document(one, dialect_of(one, dialect)) for uri, one in needed.items()}
        asked = _Question(_in_plain_words(schema, dialect), value, others)
    except (ValueError, TypeError, RecursionError) as error:  # a document that is no schema
        return tuple(_no_opinion(name, error) for name in VALIDATORS)
    return tuple(_verdict(name, check, asked) for name, check in VALIDATORS.items())


def _verdict(name: str, check: _Check, asked: _Question) -> Verdict:
    """What ``check`` finds.  A validator's Rust has no opinion as well where it panics: that is no `Exception`."""
    try:
        return Verdict(name, tuple(dict.fromkeys(check(asked))))
    except BaseException as error:  # a broken schema, a pattern it cannot read, a reference it cannot follow
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return _no_opinion(name, error)


def _no_opinion(name: str, error: BaseException) -> Verdict:
    reason = str(error).strip().splitlines()
    return Verdict(name, None, f"{type(error).__name__}: {reason[0][:200] if reason else ''}")


def needed_documents(schema: Any, documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """The documents that references come to: what is wrong with another must not end the judging of this schema."""
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
                return documents  # it may have its name inside one of them
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
    """A document in plain words that names its dialect: its own, or that of the schema it came with."""
    plain = _in_plain_words(document, dialect)
    return {**plain, "$schema": dialect.uri} if isinstance(plain, dict) else plain


def _in_plain_words(schema: Any, dialect: Dialect) -> Any:
    """The schema without OpenAPI 3.0's words, which validators do not know: ``nullable``, flags beside bounds.

    Not where they say nothing, beside a ``$ref`` that stands alone, and not where the flags are the dialect's own:
    that of the resource.
    """
    if isinstance(schema, list):
        return [_in_plain_words(item, dialect) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if any(_ids(schema)):
        dialect = dialect_of(schema, dialect)
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            out[key] = value
        elif key in _MAPS and isinstance(value, Mapping):
            out[key] = {name: _in_plain_words(sub, dialect) for name, sub in value.items()}
        else:
            out[key] = _in_plain_words(value, dialect)
    if "$ref" in out and dialect.ref_stands_alone:
        return out
    if out.get("nullable") is True:
        out = nullable(out, None, [])
    if dialect.order > 4 and any(isinstance(out.get(flag), bool) for flag in ("exclusiveMinimum", "exclusiveMaximum")):
        out = exclusive_flags(out, None, [])
    return out


#: Keywords whose values are data, and those whose values are maps from names to schemas.
_DATA = frozenset(("const", "enum", "default", "example", "examples"))
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))


# -- validators


@dataclass(slots=True)
class _Question:
    """What all validators are asked.  ``is_quick``: one has gone through all of it in so few steps that another may."""

    schema: Any
    value: Any
    documents: Mapping[str, Any]
    is_quick: bool = False


_Check = Callable[[_Question], Iterable[str]]

#: Steps of a walk that are few for Rust (50 ns each), and where each may leave an error that is made into words.
_FEW_STEPS, _FEW_ERRORS = 2_000_000, 20_000


def _by_jsonschema(asked: _Question) -> list[str]:
    found = by_jsonschema(asked.schema, asked.value, asked.documents, _MOST + 1)
    asked.is_quick = found.steps <= (_FEW_ERRORS if found.errors else _FEW_STEPS)
    return _told(found.errors)


def _by_jsonschema_rs(asked: _Question) -> list[str]:
    schema, value, documents = asked.schema, asked.value, asked.documents
    length = sum(map(len, texts_of(value)))
    order = dialect_of(schema).order
    return _told(
        by_jsonschema_rs(schema, value, documents, _MOST + 1, order=order, is_quick=asked.is_quick, length=length)
    )


def _told(errors: list[tuple[list[Any], str]]) -> list[str]:
    told = [f"{pointer_of(place) or 'the value'}: {words[:300]}" for place, words in errors[:_MOST]]
    return [*told, "and more"] if len(errors) > _MOST else told


#: The validators that are installed, by name; the first says what the others cost.
VALIDATORS: Mapping[str, _Check] = {"jsonschema": _by_jsonschema}
if _HAS_RUST:
    VALIDATORS = {**VALIDATORS, "jsonschema-rs": _by_jsonschema_rs}
