"""A shortest text of each subschema of a schema: what a value costs at the least, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from referencing.jsonschema import specification_with

from grammars.deadline import deadline, is_late
from grammars.values.json_pointer import escaped, pointer_of
from grammars.json_schema import DEFAULT_SPELLING, Spelling, build
from grammars.json_schema.document.dialects import Dialect
from grammars.json_schema.document.documents import Documents
from grammars.limits.schema_limits import survey
from grammars.shortest.node_texts import shortest_text
from special_tokens.errors import SchemaError

__all__ = ["ShortestTexts", "subschemas"]

#: Words by which a schema depends on what stands around it.
_TIES = frozenset(
    ("$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
)


class ShortestTexts(Mapping[str, str | None]):
    """Shortest texts of a schema's own subschemas, by JSON pointer; each is found when it is first asked for.

    A text is valid for the subschema alone, whatever stands around it, and of those that the masks would write the
    shortest found (see `grammars.shortest.node_texts`).  None stands where no value is valid, where a search found none, and
    where a keyword within is relaxed, since the masks cannot tell what is valid there.  ``documents`` are what
    references may lead to, by URI.  Raises `KeyError` for a pointer that leads to no subschema, and `SchemaError` past
    the deadline of the thread, which tells nothing of the schema.
    """

    def __init__(
        self, schema: Any, *, spelling: Spelling = DEFAULT_SPELLING, documents: Mapping[str, Any] | None = None
    ) -> None:
        self._schema = schema
        self._spelling = spelling
        self._documents = documents
        self._places = subschemas(schema)
        self._found: dict[str, str | None] = {}

    def __getitem__(self, pointer: str) -> str | None:
        if pointer not in self._found:
            value, dialect = self._places[pointer]
            with deadline():
                self._found[pointer] = self._text(pointer, value, dialect)
        return self._found[pointer]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, pointer: object) -> bool:
        return pointer in self._places

    def __repr__(self) -> str:
        return f"<ShortestTexts of {len(self)} subschemas>"

    def _text(self, pointer: str, value: Any, dialect: Dialect) -> str | None:
        """By the road of requests, on which the engine may compile the schema as it is, then worked out in full."""
        is_tied = bool(pointer) and not survey(value).keys.isdisjoint(_TIES)
        alone = {**value, "$schema": dialect.uri} if pointer and isinstance(value, dict) else value
        for in_full in (True,) if is_tied else (False, True):
            try:
                found = (
                    self._built(self._schema, in_full=True, start=pointer)
                    if is_tied
                    else self._built(alone, in_full=in_full)
                )
            except SchemaError:
                if is_late():
                    raise
                found = None
            if found is not None:
                return found
        return None

    def _built(self, schema: Any, *, in_full: bool, start: str = "") -> str | None:
        built = build(
            schema,
            spelling=self._spelling,
            policy="strict",
            documents=self._documents,
            watch=True,
            in_full=in_full,
            start=start,
        )
        found = shortest_text(built.node, built.watchers)
        return shortest_text(built.node, built.watchers, patient=True) if found is None else found


def subschemas(schema: Any) -> dict[str, tuple[Any, Dialect]]:
    """A schema's subschemas with their dialects by their pointers, itself (``""``) first.

    What is a subschema depends on the dialect and is asked of the ``referencing`` library, keyword by keyword; so is
    what stands under ``$defs`` or ``definitions`` in any dialect, and what a reference leads to in the schema itself.
    Raises `SchemaError` where an identifier is no URI.
    """
    found: dict[str, tuple[Any, Dialect]] = {}
    known = Documents(schema)
    stack = [("", known.root)]
    while stack:
        pointer, place = stack.pop()
        if pointer in found:
            continue
        found[pointer] = place.schema, place.dialect
        if not isinstance(place.schema, dict):
            continue
        below = [
            (f"{pointer}/{escaped(keyword)}{pointer_of(way)}", known.at(place, inner, keyword, *way))
            for keyword, body in place.schema.items()
            for way, inner in _subschemas(keyword, body, place.dialect)
        ]
        if isinstance(place.schema.get("$ref"), str):
            try:
                target = known.target(place, place.schema["$ref"])
            except SchemaError:  # it leads nowhere, or into a document of the caller's
                pass
            else:
                below += [(target.pointer, target)] if target.pointer[:1] in ("", "/") else []
        stack += reversed(below)
    return found


def _subschemas(keyword: str, body: Any, dialect: Dialect) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The subschemas that a keyword holds, and the steps to them from it."""
    if _is_subschema(body, {keyword: body}, dialect):
        yield (), body
    elif isinstance(body, dict):  # member by member: the library takes ``dependencies`` of both kinds for none
        for step, inner in body.items():
            if (keyword in ("$defs", "definitions") and isinstance(inner, dict | bool)) or _is_subschema(
                inner, {keyword: {step: inner}}, dialect
            ):
                yield (step,), inner
    elif isinstance(body, list):
        yield from (((i,), inner) for i, inner in enumerate(body) if _is_subschema(inner, {keyword: [inner]}, dialect))


def _is_subschema(value: Any, schema: Mapping[str, Any], dialect: Dialect) -> bool:
    """Is a value one of the subschemas of ``schema``?"""
    if not isinstance(value, dict | bool):
        return False
    try:
        return any(value is one for one in specification_with(dialect.uri).subresources_of(schema))
    except (AttributeError, TypeError, KeyError):  # a keyword of the wrong kind; said where it is read
        return False
