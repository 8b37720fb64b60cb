"""Locations of subschemas in a document, and their pointers in terms of the keywords as written.

A `Place` is a subschema with everything its meaning depends on: its dialect, its base URI, and the dynamic scope by
which it was entered.  `grammars.json_schema.document.documents` creates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.document.dialects import Dialect
from grammars.values.json_pointer import escaped
from grammars.values.report import ReportRow

__all__ = ["OLDER_KEYWORDS", "Place", "is_nullable_wrapped", "written_keyword"]


class Place:
    """A subschema at a pointer.  ``number`` is its literal; ``pointer`` points into the document as the caller passed
    it.  ``normal`` is what `passes.normalise` made of it, once it was asked.
    """

    __slots__ = ("base", "dialect", "normal", "number", "parent", "root", "schema", "scope", "steps")

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
        self.normal: tuple[dict[str, Any], tuple[ReportRow, ...]] | None = None
        self.root = root  # the prefix of the pointer: "" or the URI of another document with "#"

    @property
    def pointer(self) -> str:
        """The JSON pointer of the place, by the keywords as written in the document."""
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
    """The steps to a place from its parent, with keywords of draft 2020-12 replaced by those actually written."""
    owner = place.parent
    while owner is not None and owner.parent is not None and not owner.steps:
        owner = owner.parent  # a schema that we generated on its behalf
    steps = place.steps
    if owner is None or not isinstance(owner.schema, dict) or not steps:
        return steps
    word, others = written_keyword(owner.schema, str(steps[0])), steps[1:]
    if word == "items" and steps[0] == "items" and isinstance(owner.schema["items"], list) and not others:
        word = "additionalItems"
    elif steps[0] == "anyOf" and is_nullable_wrapped(owner.schema):
        return others[1:]
    elif steps[0] == "enum" and word == "const":
        others = others[1:]
    return (word or steps[0], *others)


def is_nullable_wrapped(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAPI's ``nullable`` becomes an ``anyOf`` around the schema, as there is no ``type`` to add null to."""
    return schema.get("nullable") is True and "type" not in schema and not _WRAPPED.isdisjoint(schema)


_WRAPPED = frozenset(("$ref", "allOf", "anyOf", "oneOf", "enum"))

#: Keywords of draft 2020-12, and the older ones that schemas may have in their place.
OLDER_KEYWORDS = {
    "prefixItems": "items",
    "dependentSchemas": "dependencies",
    "dependentRequired": "dependencies",
    "enum": "const",
}


def written_keyword(schema: Mapping[str, Any], word: str) -> str | None:
    """Return the keyword of ``schema`` that ``word`` was read from; None if there is none."""
    if word in schema:
        return word
    older = OLDER_KEYWORDS.get(word)
    return older if older in schema else None
