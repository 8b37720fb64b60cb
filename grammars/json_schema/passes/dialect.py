"""What older and neighbouring dialects write differently, rewritten to the words of draft 2020-12."""

from __future__ import annotations

from typing import Any

from grammars.json_schema.dialects import Dialect, dialect_of
from grammars.json_schema.documents import Place
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.report import Outcome, ReportRow

__all__ = [
    "drop_later_words",
    "exclusive_flags",
    "lone_reference",
    "nullable",
    "positional_items",
    "split_dependencies",
]


_DRAFT_4 = 4


def lone_reference(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Up to draft 7 the keywords beside ``$ref`` are ignored."""
    if "$ref" not in schema or not place.dialect.ref_stands_alone or len(schema) == 1:
        return schema
    for keyword in schema:
        if keyword in CHECKS and keyword != "$ref":
            reason = f"ignored: in {place.dialect.name} nothing counts beside $ref"
            rows.append(ReportRow(place.pointer, keyword, Outcome.EXACT, reason))
    return {"$ref": schema["$ref"]}


def drop_later_words(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Keywords that the dialect does not have mean nothing in it (``const`` in draft 4)."""
    unknown = place.dialect.unknown
    if unknown.isdisjoint(schema):
        return schema
    stray = _stray_dialects(place)
    for keyword in schema:
        if keyword in unknown:
            reason = f"ignored: {place.dialect.name} has no such keyword"
            outcome = Outcome.EXACT
            if any(keyword not in dialect.unknown for dialect in stray):
                reason += ", though a $schema that begins no resource says otherwise"
                outcome = Outcome.RELAXED
            rows.append(ReportRow(place.pointer, keyword, outcome, reason))
    return {k: v for k, v in schema.items() if k not in unknown}


def _stray_dialects(place: Place) -> list[Dialect]:
    """Dialects that are named there or around it where no resource begins: some validators heed them, we do not."""
    found = []
    at: Place | None = place
    while at is not None and at.dialect == place.dialect:
        found.append(dialect_of(at.schema, place.dialect))
        at = at.parent
    return [dialect for dialect in found if dialect != place.dialect]


def nullable(schema: dict[str, Any], place: Place | None, rows: list[ReportRow]) -> dict[str, Any]:
    """OpenAPI 3.0: ``nullable: true`` beside ``type`` adds null to the types (and to an ``enum``)."""
    if "nullable" not in schema:
        return schema
    out = {k: v for k, v in schema.items() if k != "nullable"}
    if schema["nullable"] is not True:
        return out
    if "type" in out:
        types = out["type"] if isinstance(out["type"], list) else [out["type"]]
        out["type"] = types if "null" in types else [*types, "null"]
        if "enum" in out and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
        return out
    if "$ref" in out or "allOf" in out or "anyOf" in out or "oneOf" in out or "enum" in out:
        return {"anyOf": [out, {"type": "null"}]}
    return out


def exclusive_flags(schema: dict[str, Any], place: Place | None, rows: list[ReportRow]) -> dict[str, Any]:
    """Draft 4 and OpenAPI 3.0: ``exclusiveMinimum: true`` makes ``minimum`` exclusive."""
    out = schema
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(flag), bool):
            exclusive = out[flag] and bound in out
            value = out.get(bound)
            out = {k: v for k, v in out.items() if k != flag and not (exclusive and k == bound)}
            if exclusive:
                out[flag] = value
        elif flag in out and place is not None and place.dialect.order == _DRAFT_4:
            reason = f"a number, as in draft 6, where {place.dialect.name} has true or false"
            rows.append(ReportRow(place.pointer, flag, Outcome.NARROWED, reason))
    return out


def positional_items(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """``items`` as a list, with ``additionalItems``, becomes ``prefixItems`` with ``items``."""
    items = schema.get("items")
    if not isinstance(items, list):
        if "additionalItems" not in schema:
            return schema
        return {k: v for k, v in schema.items() if k != "additionalItems"}  # it has no meaning beside a schema
    out: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "items":
            if items:
                out["prefixItems"] = items
            if "additionalItems" in schema:
                out["items"] = schema["additionalItems"]
        elif keyword != "additionalItems":
            out[keyword] = value
    return out


def split_dependencies(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """``dependencies`` becomes ``dependentRequired`` and ``dependentSchemas``, in every dialect.

    Drafts after 7 dropped the word, yet schemas without ``$schema`` still mean it.
    """
    if "dependencies" not in schema:
        return schema
    required = dict(schema.get("dependentRequired", {}))
    schemas = dict(schema.get("dependentSchemas", {}))
    for key, value in schema["dependencies"].items():
        if isinstance(value, str):
            required[key] = [*required.get(key, ()), value]
        elif isinstance(value, list):
            required[key] = [*required.get(key, ()), *value]
        else:
            schemas[key] = {"allOf": [value, schemas[key]]} if key in schemas else value
    if place.dialect.order > 7:
        reason = f"applied, though {place.dialect.name} has no such keyword"
        rows.append(ReportRow(place.pointer, "dependencies", Outcome.NARROWED, reason))
    out: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "dependencies":
            out["dependentRequired"], out["dependentSchemas"] = required, schemas
        elif keyword not in ("dependentRequired", "dependentSchemas"):
            out[keyword] = value
    return out
