"""The dialects of JSON Schema as rows: which URI names them, which keywords they know.

``referencing`` does the work of bases and anchors; its specifications are named by the same URIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

__all__ = [
    "DEFAULT_DIALECT",
    "DIALECTS",
    "LATER_FORMATS",
    "Dialect",
    "dialect_of",
    "disputed_words",
    "has_later_formats",
    "is_known",
    "read_alike",
]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect.  ``order`` counts drafts; ``unknown`` are assertion keywords that came later."""

    name: str
    uri: str
    order: int
    id_keyword: str = "$id"
    unknown: frozenset[str] = field(default_factory=frozenset)

    @property
    def ref_stands_alone(self) -> bool:
        """Up to draft 7 everything beside ``$ref`` is ignored."""
        return self.order <= 7


_SINCE = {
    6: ("const", "contains", "propertyNames"),
    7: ("if", "then", "else"),
    8: (
        "dependentRequired",
        "dependentSchemas",
        "maxContains",
        "minContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$recursiveRef",
    ),
    9: ("prefixItems", "$dynamicRef"),
}


def _row(name: str, uri: str, order: int, id_keyword: str = "$id") -> Dialect:
    later = frozenset(k for since, keys in _SINCE.items() if since > order for k in keys)
    return Dialect(name, uri, order, id_keyword, later - {"$recursiveRef"} if order == 9 else later)


DIALECTS: tuple[Dialect, ...] = (
    _row("draft 4", "http://json-schema.org/draft-04/schema#", 4, "id"),
    _row("draft 6", "http://json-schema.org/draft-06/schema#", 6),
    _row("draft 7", "http://json-schema.org/draft-07/schema#", 7),
    _row("draft 2019-09", "https://json-schema.org/draft/2019-09/schema", 8),
    _row("draft 2020-12", "https://json-schema.org/draft/2020-12/schema", 9),
)

#: What a schema without ``$schema``, or with one that is not known (OpenAPI 3.1, a house's own), is read as.
DEFAULT_DIALECT = DIALECTS[-1]

#: Pieces of URIs, so that https for http, a missing "#", and draft 3 find the nearest row.
_NAMES = (
    ("draft-03", DIALECTS[0]),
    ("draft-04", DIALECTS[0]),
    ("draft-05", DIALECTS[0]),
    ("draft-06", DIALECTS[1]),
    ("draft-07", DIALECTS[2]),
    ("draft/2019-09", DIALECTS[3]),
    ("draft/2020-12", DIALECTS[4]),
)


def is_known(uri: str) -> bool:
    """Is this the URI of a published meta-schema, however it is spelled?"""
    return "json-schema.org" in uri and (
        any(piece in uri for piece, _ in _NAMES) or uri.rstrip("#").endswith("/schema")
    )


def dialect_of(schema: object, inherited: Dialect = DEFAULT_DIALECT) -> Dialect:
    """The dialect that a schema resource names, or the one of the resource around it."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return inherited
    if "json-schema.org" in named:
        for piece, dialect in _NAMES:
            if piece in named:
                return dialect
    return inherited


def disputed_words(schema: Mapping[str, Any], order: int) -> list[str]:
    """Keywords that we read as another dialect does, since schemas of this one mean it: some validators do not.

    ``order`` is the dialect's.  In draft 4 bounds that are numbers, as in draft 6; ``dependencies`` after draft 7.
    """
    if order > 7:
        return ["dependencies"] if schema.get("dependencies") else []
    if order > 4:
        return []
    return [flag for flag in ("exclusiveMinimum", "exclusiveMaximum") if type(schema.get(flag)) in (int, float)]


def read_alike(schema: Mapping[str, Any], other: Dialect, ours: Dialect) -> bool:
    """Do the words of a schema surely mean in ``other`` what we read in ``ours``, formats and its own name aside?

    False as well for one of more than `_MOST` objects.
    """
    if other == ours:
        return True
    different = (other.unknown ^ ours.unknown) | _RENAMED
    is_alone = other.ref_stands_alone != ours.ref_stands_alone
    if is_alone and ours.ref_stands_alone:
        different |= {"dependencies"}
    if (other.order > 4) != (ours.order > 4):
        different |= {"exclusiveMinimum", "exclusiveMaximum"}
    several = list(islice(_schemas(schema), _MOST))
    for value in several:
        if value is not schema and any(isinstance(value.get(word), str) for word in ("$id", "id")):
            return False
        if isinstance(value.get("items"), list) or not different.isdisjoint(value):
            return False
        if is_alone and "$ref" in value and len(value) > 1:
            return False
    return len(several) < _MOST


def has_later_formats(schema: Mapping[str, Any]) -> bool:
    """May a schema, or one below, name a format that draft 4 does not have?  True for more than `_MOST` objects."""
    several = list(islice(_schemas(schema), _MOST))
    named = (value.get("format") for value in several)
    return len(several) == _MOST or any(isinstance(name, str) and name in LATER_FORMATS for name in named)


def _schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and those below, its other objects among them, but for data."""
    todo: list[Any] = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            yield value
            for word, below in value.items():
                if word in _MAPS and isinstance(below, dict):
                    todo += below.values()
                elif word not in _DATA:
                    todo.append(below)


_MOST = 500  # objects: each schema that names another dialect is looked through
_RENAMED = frozenset(("$recursiveRef", "$dynamicRef", "additionalItems", "unevaluatedItems"))
_MAPS = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired", "dependencies")
)
_DATA = frozenset(("const", "enum", "default", "example", "examples", "required"))

#: Formats that came after draft 4.
LATER_FORMATS = frozenset(
    (
        "date", "duration", "idn-hostname", "iri", "iri-reference", "json-pointer", "relative-json-pointer", "time",
        "uri-reference", "uri-template", "uuid",
    )
)  # fmt: skip
