"""Differences between our reading of a schema and that of validators.

They concern keywords of other dialects and a ``$schema`` outside the root of a resource.  Each has a row in the
report, and proofs that must hold for all validators are not made where they matter
(`grammars.json_schema.solver.solver.Solver.may_be_wider`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grammars.json_schema.document.dialects import DIALECTS, Dialect, dialect_of
from grammars.json_schema.document.places import Place
from grammars.json_schema.document.string_formats import FORMATS

__all__ = [
    "disputed_keywords",
    "has_ignored_dialect",
    "ignored_dialect_reason",
    "ignored_dialects",
    "validators_may_differ",
]


def validators_may_differ(place: Place, *, is_document: bool = False) -> bool:
    """Whether a validator may accept more at the place than we would write, because it reads it differently.

    Causes: a negated format with a wider outer pattern, a format the dialect does not have, a pattern that readers
    match differently, narrowed ``unevaluated*``, a keyword read as in another dialect.  A reference may lead to one of
    these; for a whole document only a reference that leads out of it.
    """
    order, todo = place.dialect.order, [place.schema]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            named, refs = value.get("format"), [value[word] for word in _REFERENCES if word in value]
            if isinstance(named, str) and named in FORMATS and (FORMATS[named].outer or FORMATS[named].since > order):
                return True
            if "$schema" in value and (value is not place.schema or has_ignored_dialect(place)):
                return True
            if not _UNEVALUATED.isdisjoint(value) or disputed_keywords(value, order):
                return True
            keys = value.get("patternProperties")
            patterns = [value.get("pattern"), *(keys if isinstance(keys, dict) else ())]
            if any(isinstance(pattern, str) and _DIFFERENT.search(pattern) for pattern in patterns):
                return True
            if any(not is_document or (isinstance(ref, str) and not ref.startswith("#")) for ref in refs):
                return True
            todo += value.values()
    return False


_DIFFERENT = re.compile(r"\(\?|\$|\\[bB]")
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


# -- keywords that we read as another dialect does


def disputed_keywords(schema: Mapping[str, Any], order: int) -> list[str]:
    """Return the keywords that we read as another dialect does, because schemas mean it; some validators do not.

    ``order`` is the dialect's.  In draft 4 numeric exclusive bounds, as in draft 6; ``dependencies`` after draft 7.
    """
    if order > 7:
        return ["dependencies"] if schema.get("dependencies") else []
    if order > 4:
        return []
    return [flag for flag in ("exclusiveMinimum", "exclusiveMaximum") if type(schema.get(flag)) in (int, float)]


# -- a $schema that is not honoured


def ignored_dialect_reason(dialect: Dialect) -> str:
    """The report's reason for a ``$schema`` that is not honoured."""
    return f"not honoured outside the root of a resource: read as {dialect.name}"


def has_ignored_dialect(place: Place) -> bool:
    """Whether another dialect is named at the place, is not honoured, and may read something in it differently."""
    named, ours = dialect_of(place.schema, place.dialect), place.dialect
    if named == ours:
        return False
    words = (named.unknown ^ ours.unknown) | _RENAMED
    if (named.order > 4) != (ours.order > 4):
        words |= {"exclusiveMinimum", "exclusiveMaximum"}
    if named.ref_ignores_siblings != ours.ref_ignores_siblings:
        words |= {"$ref", "dependencies"}
    todo: list[Any] = [place.schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if not words.isdisjoint(value) or isinstance(value.get("items"), list) or _has_later_format(value):
                return True
            todo += (inner for inner in value.values() if not isinstance(inner, dict) or "$schema" not in inner)
        elif isinstance(value, list):
            todo += value
    return False


def _has_later_format(schema: Mapping[str, Any]) -> bool:
    """Whether the schema names a format that draft 4 does not have."""
    name = schema.get("format")
    row = FORMATS.get(name) if isinstance(name, str) else None
    return row is not None and row.since > DIALECTS[0].order


_RENAMED = frozenset(("$recursiveRef", "$dynamicRef", "additionalItems", "unevaluatedItems"))


def ignored_dialects(place: Place) -> list[Dialect]:
    """Return the dialects named at or around the place outside a resource root: some validators honour them, we do
    not.
    """
    dialects = []
    at: Place | None = place
    while at is not None and at.dialect == place.dialect:
        dialects.append(dialect_of(at.schema, place.dialect))
        at = at.parent
    return [dialect for dialect in dialects if dialect != place.dialect]
