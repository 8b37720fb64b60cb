"""A shortest text of each subschema of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from referencing.jsonschema import specification_with

from grammars.json_schema.build import DEFAULT_SPELLING, Spelling, build
from grammars.json_schema.document.dialects import Dialect
from grammars.json_schema.document.documents import Documents
from grammars.limits.deadline import deadline, is_late
from grammars.limits.schema_limits import survey
from grammars.shortest.node_texts import shortest_text
from grammars.values.json_pointer import escaped, pointer_of
from special_tokens.errors import SchemaError

__all__ = ["ShortestTexts", "subschemas"]

#: Keywords by which a subschema depends on the schema around it.
_TIES = frozenset(
    ("$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
)


class ShortestTexts(Mapping[str, str | None]):
    """Shortest texts of a schema's own subschemas, by JSON pointer; each is searched when it is first read.

    A text is valid for the subschema alone, regardless of the schema around it, and the shortest found of those that
    the masks allow (see `grammars.shortest.node_texts`).  It is None where no value is valid, where the search found
    none, and where a keyword within is relaxed, since the masks also allow invalid values there.  ``documents`` are
    those that references may lead to, by URI.  Raises `KeyError` for a pointer that leads to no subschema, and
    `SchemaError` past the deadline of the thread; a later read may then still succeed.
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
        """A text of the grammar that a request for the subschema would get."""
        try:
            if pointer and not survey(value).keys.isdisjoint(_TIES):
                return self._built(self._schema, start=pointer)
            return self._built({**value, "$schema": dialect.uri} if pointer and isinstance(value, dict) else value)
        except SchemaError:
            if is_late():
                raise
            return None

    def _built(self, schema: Any, *, start: str = "") -> str | None:
        built = build(
            schema,
            spelling=self._spelling,
            policy="strict",
            documents=self._documents,
            watch=True,
            start=start,
        )
        found = shortest_text(built.node, built.watchers)
        return shortest_text(built.node, built.watchers, patient=True) if found is None else found


def subschemas(schema: Any) -> dict[str, tuple[Any, Dialect]]:
    """Return a schema's subschemas with their dialects by pointer, the schema itself (``""``) first.

    Which values are subschemas depends on the dialect; the ``referencing`` library knows, keyword by keyword.  Values
    under ``$defs`` or ``definitions`` count in any dialect, and so do the targets of references within the schema.
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
            except SchemaError:  # no target, or one in another document
                pass
            else:
                below += [(target.pointer, target)] if target.pointer[:1] in ("", "/") else []
        stack += reversed(below)
    return found


def _subschemas(keyword: str, body: Any, dialect: Dialect) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The subschemas of a keyword, and the steps to them from it."""
    if _is_subschema(body, {keyword: body}, dialect):
        yield (), body
    elif isinstance(body, dict):  # member by member: the library finds none in ``dependencies`` of both kinds
        for step, inner in body.items():
            if (keyword in ("$defs", "definitions") and isinstance(inner, dict | bool)) or _is_subschema(
                inner, {keyword: {step: inner}}, dialect
            ):
                yield (step,), inner
    elif isinstance(body, list):
        yield from (((i,), inner) for i, inner in enumerate(body) if _is_subschema(inner, {keyword: [inner]}, dialect))


def _is_subschema(value: Any, schema: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether ``value`` is one of the subschemas of ``schema``."""
    if not isinstance(value, dict | bool):
        return False
    try:
        return any(value is one for one in specification_with(dialect.uri).subresources_of(schema))
    except (AttributeError, TypeError, KeyError):  # a keyword of the wrong type; reported where it is read
        return False
