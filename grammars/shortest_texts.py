"""A shortest text of each subschema of a schema: what a value costs at the least, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from referencing.jsonschema import specification_with

from grammars.json_pointer import escaped
from grammars.json_schema import DEFAULT_SPELLING, Spelling, build
from grammars.json_schema.dialects import Dialect, dialect_of
from grammars.shortest_text import shortest_text
from special_tokens.errors import SchemaError

__all__ = ["ShortestTexts", "pointers_of"]

#: Stands for what was not looked for yet: None is an answer.
_UNKNOWN = object()


class ShortestTexts(Mapping[str, str | None]):
    """Shortest texts of a schema's own subschemas, by JSON pointer; each is found when it is first asked for.

    A text is valid for the subschema alone, whatever stands around it, and of those that the masks would write the
    shortest found (see `grammars.shortest_text`).  None stands where no value is valid, where a search found none, and
    where a keyword within is relaxed, since the masks cannot tell what is valid there.  ``documents`` are what
    references may lead to, by URI.  Raises `KeyError` for a pointer that leads to no subschema.
    """

    def __init__(
        self, schema: Any, *, spelling: Spelling = DEFAULT_SPELLING, documents: Mapping[str, Any] | None = None
    ) -> None:
        self._schema = schema
        self._spelling = spelling
        self._documents = documents
        self._found: dict[str, Any] = dict.fromkeys(pointers_of(schema), _UNKNOWN)

    def __getitem__(self, pointer: str) -> str | None:
        found = self._found[pointer]
        if found is _UNKNOWN:
            found = self._found[pointer] = self._text(pointer)
        text: str | None = found
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, pointer: object) -> bool:
        return pointer in self._found

    def __repr__(self) -> str:
        return f"<ShortestTexts of {len(self)} subschemas>"

    def _text(self, pointer: str) -> str | None:
        try:
            built = build(
                self._schema,
                spelling=self._spelling,
                policy="strict",
                documents=self._documents,
                watch=True,
                in_full=True,
                start=pointer,
            )
        except SchemaError:
            return None
        found = shortest_text(built.node, built.watchers)
        return shortest_text(built.node, built.watchers, patient=True) if found is None else found


def pointers_of(schema: Any) -> list[str]:
    """The pointers of a schema's subschemas, itself (``""``) first, each before those within it.

    What is a subschema depends on the dialect and is asked of the ``referencing`` library, keyword by keyword.
    """
    found: list[str] = []
    stack: list[tuple[str, Any, Dialect | None]] = [("", schema, None)]
    while stack:
        pointer, value, dialect = stack.pop()
        found.append(pointer)
        if not isinstance(value, dict):
            continue
        if dialect is None or isinstance(value.get(dialect.id_keyword), str):
            dialect = dialect_of(value, dialect) if dialect is not None else dialect_of(value)
        below = [
            (f"{pointer}/{escaped(keyword)}{way}", inner, dialect)
            for keyword, body in value.items()
            for way, inner in _subschemas(keyword, body, dialect)
        ]
        stack += reversed(below)
    return found


def _subschemas(keyword: str, body: Any, dialect: Dialect) -> Iterator[tuple[str, Any]]:
    """The subschemas that a keyword holds, and the ways to them from it."""
    if _is_subschema(body, {keyword: body}, dialect):
        yield "", body
    elif isinstance(body, dict):  # member by member: the library takes ``dependencies`` of both kinds for none
        members = ((f"/{escaped(step)}", inner, {keyword: {step: inner}}) for step, inner in body.items())
        yield from ((way, inner) for way, inner, alone in members if _is_subschema(inner, alone, dialect))
    elif isinstance(body, list):
        elements = ((f"/{i}", inner, {keyword: [inner]}) for i, inner in enumerate(body))
        yield from ((way, inner) for way, inner, alone in elements if _is_subschema(inner, alone, dialect))


def _is_subschema(value: Any, schema: Mapping[str, Any], dialect: Dialect) -> bool:
    """Is a value one of the subschemas of ``schema``?"""
    if not isinstance(value, dict | bool):
        return False
    try:
        return any(value is one for one in specification_with(dialect.uri).subresources_of(schema))
    except (AttributeError, TypeError, KeyError):  # a keyword of the wrong kind; said where it is read
        return False
