"""The places of a schema that a value violates, by two validators: a report must mention them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jsonschema
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import specification_with

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.values.json_pointer import pointer_of, step_into
from grammars.values.report import ReportRow
from guided.validation.validate import needed_documents
from special_tokens.errors import GuidedError

__all__ = ["unexcused", "violated", "violations"]

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))


class _Path(NamedTuple):
    """A validator's way into the schema; ``schema`` is the one that it says stands at the end, if it does."""

    steps: tuple[str, ...]
    schema: Any = None


class _Step(NamedTuple):
    pointer: str
    word: str
    schema: Any


def violated(schema: Any, value: Any, documents: Any = None) -> set[tuple[str, str]]:
    """Pointer and keyword of everything in the schema that ``value`` violates, branches included."""
    return set().union(*violations(schema, value, documents))


def violations(schema: Any, value: Any, documents: Any = None) -> list[set[tuple[str, str]]]:
    """For each violation that a validator names: pointer and keyword of all that it is made of, branches included."""
    dialect = dialect_of(schema)
    needed = needed_documents(schema, documents or {})  # what is wrong with another must not end the search
    named = {uri: _with_dialect(other, dialect) for uri, other in needed.items()}
    known = Documents(schema, documents)
    found: list[set[tuple[str, str]]] = []
    for paths in (*_violated_by_python(schema, value, named), *_violated_by_rs(schema, value, named)):
        causes = {(step.pointer, step.word) for path in paths for step in _places(known, path)}
        # the validator's paths do not name the condition that a branch belongs to
        found.append(causes | {(pointer, "if") for pointer, keyword in causes if keyword in ("then", "else")})
    return found


def unexcused(schema: Any, value: Any, documents: Any, relaxed: Collection[ReportRow]) -> list[set[tuple[str, str]]]:
    """The violations of ``value`` of which no ``relaxed`` row speaks; an empty one where none is named at all."""
    every = violations(schema, value, documents)
    rows = {(row.pointer, row.keyword) for row in relaxed}
    return [causes for causes in every if not causes & rows] if every else [set()]


# -- the validators' words


def _with_dialect(document: Any, dialect: Dialect) -> Any:
    """A document that names its dialect: its own, or that of the schema it came with."""
    return {**document, "$schema": dialect_of(document, dialect).uri} if isinstance(document, dict) else document


def _violated_by_python(schema: Any, value: Any, documents: dict[str, Any]) -> list[list[_Path]]:
    """The paths of each violation that jsonschema finds; none where it has no opinion."""
    dialect = dialect_of(schema)
    resources = [
        (uri, specification_with(dialect_of(other, dialect).uri).create_resource(other))
        for uri, other in documents.items()
    ]
    kind: Any = jsonschema.validators.validator_for({"$schema": dialect.uri})
    validator = kind(schema, registry=REGISTRY.with_resources(resources), format_checker=kind.FORMAT_CHECKER)
    found: list[list[_Path]] = []
    try:
        for error in validator.iter_errors(value):
            paths, todo = [], [error]
            while todo:
                one = todo.pop()
                todo.extend(one.context)
                paths.append(_Path(tuple(map(str, one.absolute_schema_path)), one.schema))
            found.append(paths)
    except Exception:  # a pattern that it cannot read: the other validator may
        return []
    return found


def _violated_by_rs(schema: Any, value: Any, documents: dict[str, Any]) -> list[list[_Path]]:
    """The paths of each violation that jsonschema-rs finds; none where it is not installed or has no opinion."""
    try:
        import jsonschema_rs

        order = dialect_of(schema).order
        kinds = {4: "Draft4", 6: "Draft6", 7: "Draft7", 8: "Draft201909", 9: "Draft202012"}
        registry = jsonschema_rs.Registry(list(documents.items())) if documents else None
        kind = getattr(jsonschema_rs, f"{kinds[order]}Validator")
        errors = list(kind(schema, validate_formats=True, registry=registry).iter_errors(value))
    except Exception:  # a broken schema, or one that it cannot follow
        return []
    found: list[list[_Path]] = []
    for error in errors:
        paths, todo = [], [error]
        while todo:
            one = todo.pop()
            paths.append(_Path(tuple(map(str, one.evaluation_path))))  # it names references
            branches = getattr(one.kind, "context", None)
            for branch in branches if isinstance(branches, list) else ():
                todo += branch
        found.append(paths)
    return found


# -- the places that they mention


def _places(known: Documents, path: _Path) -> Sequence[_Step]:
    """The places on a path, as the report names them: those of the reading at whose end stands what should.

    That is the very object where the validator has the caller's, and else one that is equal to it (the top of another
    document is a copy that names its dialect).
    """
    first: Sequence[_Step] = ()
    equal: Sequence[_Step] = ()
    for steps in _readings(known, known.root, known.root.schema, (), path.steps):
        first = first or steps
        end = steps[-1].schema if steps else None
        if not isinstance(path.schema, dict):
            break
        if end is path.schema:
            return steps
        if _without_dialect(end) == _without_dialect(path.schema):
            equal = equal or steps
    return equal or first


def _without_dialect(schema: Any) -> Any:
    return {k: v for k, v in schema.items() if k != "$schema"} if isinstance(schema, dict) else schema


def _readings(
    known: Documents,
    place: Place,
    at: Any,
    since: tuple[str, ...],
    steps: tuple[str, ...],
    *,
    is_named: bool = False,
    hops: int = 100,
) -> Iterator[tuple[_Step, ...]]:
    """The ways to understand a path from ``at``, which stands ``since`` below ``place``.

    A validator may leave out that it follows a reference: a step is then one of the schema that is referred to, though
    there may be one of that name next to the reference.
    """
    if not steps:
        yield ()
        return
    step, rest = steps[0], steps[1:]
    is_schema = isinstance(at, dict) and not is_named
    words = [word for word in _REFERENCES if is_schema and isinstance(at.get(word), str)]
    if step not in words and (not words or step in at):
        here = _Step(place.pointer + pointer_of(since), step, at)
        below = {"is_named": is_schema and step in _NAMED}
        for others in _readings(known, place, step_into(at, step), (*since, step), rest, **below):
            yield (here, *others)
    for word in words if hops else ():
        if step in words and word != step:
            continue
        try:
            target = known.target(known.at(place, at, *since), at[word], word)
        except GuidedError:
            continue
        left = rest if word == step else steps
        yield from _readings(known, target, target.schema, (), left, hops=hops - 1)
