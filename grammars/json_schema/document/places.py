"""Subschemas where they stand, and by which words: those that are written, or those of draft 2020-12 they are read as.

A `Place` is a subschema with all that its meaning depends on: its dialect, its base URI, the dynamic scope it was
entered by.  `grammars.json_schema.document.documents` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.values.json_pointer import escaped
from grammars.json_schema.document.dialects import Dialect

__all__ = ["OLDER", "Place", "is_wrapped", "written_word"]


class Place:
    """A subschema at a pointer.  ``number`` is its literal; ``pointer`` is into the document as it was given."""

    __slots__ = ("base", "dialect", "number", "parent", "root", "schema", "scope", "steps")

    def __init__(
        self,
        number: int,
        schema: Any,
        parent: Place | None,
        steps: tuple[str | int, ...],
        dialect: Dialect,
        base: str,
        scope: tuple[str, ...],
        root: str = "",
    ) -> None:
        self.number = number
        self.schema = schema
        self.parent = parent
        self.steps = steps
        self.dialect = dialect
        self.base = base
        self.scope = scope
        self.root = root  # what stands before the pointer: "" or the URI of another document with "#"

    @property
    def pointer(self) -> str:
        """Where it stands in the document, by the words that are written there."""
        parts: list[str] = []
        place: Place | None = self
        prefix = ""
        while place is not None:
            written = _as_written(place)
            parts[:0] = map(escaped, written)
            prefix = place.root
            place = place.parent
        return prefix + "".join("/" + p for p in parts)


def _as_written(place: Place) -> tuple[str | int, ...]:
    """The steps to a place from its parent, which may be in words of draft 2020-12 where others are written."""
    owner = place.parent
    while owner is not None and owner.parent is not None and not owner.steps:
        owner = owner.parent  # what we made on behalf of it
    steps = place.steps
    if owner is None or not isinstance(owner.schema, dict) or not steps:
        return steps
    word, others = written_word(owner.schema, str(steps[0])), steps[1:]
    if word == "items" and steps[0] == "items" and isinstance(owner.schema["items"], list) and not others:
        word = "additionalItems"
    elif steps[0] == "anyOf" and is_wrapped(owner.schema):
        return others[1:]
    elif steps[0] == "enum" and word == "const":
        others = others[1:]
    return (word or steps[0], *others)


def is_wrapped(schema: Mapping[str, Any]) -> bool:
    """Is OpenAPI's ``nullable`` read as an ``anyOf`` around the schema, for want of a ``type`` to add null to?"""
    return schema.get("nullable") is True and "type" not in schema and not _WRAPPED.isdisjoint(schema)


_WRAPPED = frozenset(("$ref", "allOf", "anyOf", "oneOf", "enum"))

#: Words of draft 2020-12, and what schemas may have in their place.
OLDER = {
    "prefixItems": "items",
    "dependentSchemas": "dependencies",
    "dependentRequired": "dependencies",
    "enum": "const",
}


def written_word(schema: Mapping[str, Any], word: str) -> str | None:
    """The keyword of ``schema`` that ``word`` is read from; None where there is none."""
    if word in schema:
        return word
    older = OLDER.get(word)
    return older if older in schema else None
