"""The dialects of JSON Schema as table rows: the URI that names them and the keywords they have.

``referencing`` handles base URIs and anchors; its specifications are named by the same URIs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DEFAULT_DIALECT", "DIALECTS", "Dialect", "dialect_of", "is_metaschema_uri"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect.  ``order`` counts drafts; ``unknown`` are assertion keywords that later drafts added."""

    name: str
    uri: str
    order: int
    id_keyword: str = "$id"
    unknown: frozenset[str] = field(default_factory=frozenset)

    @property
    def ref_ignores_siblings(self) -> bool:
        """Whether keywords next to ``$ref`` are ignored, as up to draft 7."""
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

#: The dialect of a schema without ``$schema``, or with an unknown one (OpenAPI 3.1, a vendor's own).
DEFAULT_DIALECT = DIALECTS[-1]

#: Parts of URIs, so that https for http, a missing "#", and draft 3 find the nearest row.
_NAMES = (
    ("draft-03", DIALECTS[0]),
    ("draft-04", DIALECTS[0]),
    ("draft-05", DIALECTS[0]),
    ("draft-06", DIALECTS[1]),
    ("draft-07", DIALECTS[2]),
    ("draft/2019-09", DIALECTS[3]),
    ("draft/2020-12", DIALECTS[4]),
)


def is_metaschema_uri(uri: str) -> bool:
    """Whether this is the URI of a published meta-schema, in any spelling."""
    return "json-schema.org" in uri and (
        any(piece in uri for piece, _ in _NAMES) or uri.rstrip("#").endswith("/schema")
    )


def dialect_of(schema: object, inherited: Dialect = DEFAULT_DIALECT) -> Dialect:
    """Return the dialect that a schema resource names, or else the one of the enclosing resource."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return inherited
    if "json-schema.org" in named:
        for piece, dialect in _NAMES:
            if piece in named:
                return dialect
    return inherited
