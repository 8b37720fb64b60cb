"""Passes that rewrite older and neighbouring dialects to the keywords of draft 2020-12."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.document.places import Place, is_nullable_wrapped
from grammars.json_schema.document.reader_differences import (
    disputed_keywords,
    has_ignored_dialect,
    ignored_dialect_reason,
    ignored_dialects,
)
from grammars.json_schema.passes.kinds import CHECKS
from grammars.values.report import Outcome, ReportRow

__all__ = [
    "drop_later_keywords",
    "drop_ref_siblings",
    "exclusive_flags",
    "note_ignored_dialect",
    "nullable",
    "positional_items",
    "split_dependencies",
]


def note_ignored_dialect(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Report a ``$schema`` outside the root of a resource: we do not honour it, some validators do."""
    if has_ignored_dialect(place):
        rows.append(ReportRow(place.pointer, "$schema", Outcome.NARROWED, ignored_dialect_reason(place.dialect)))
        words = ("contains", "items", "unevaluatedItems") if "prefixItems" in schema else ("contains",)
        reason = "may require less" + _OTHERWISE
        rows += [ReportRow(place.pointer, word, Outcome.RELAXED, reason) for word in words if word in schema]
    return schema


def drop_ref_siblings(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Drop the keywords next to ``$ref``, which drafts up to 7 ignore."""
    if "$ref" not in schema or not place.dialect.ref_ignores_siblings or len(schema) == 1:
        return schema
    is_doubted = not all(dialect.ref_ignores_siblings for dialect in ignored_dialects(place))
    outcome, doubt = (Outcome.RELAXED, _OTHERWISE) if is_doubted else (Outcome.EXACT, "")
    reason = f"ignored: {place.dialect.name} ignores keywords next to $ref{doubt}"
    rows += [ReportRow(place.pointer, word, outcome, reason) for word in schema if word in CHECKS and word != "$ref"]
    return {"$ref": schema["$ref"]}


_OTHERWISE = ", though a $schema next to or around it says otherwise"


def drop_later_keywords(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Drop keywords that the dialect does not have, which mean nothing in it (``const`` in draft 4)."""
    unknown = place.dialect.unknown
    if unknown.isdisjoint(schema):
        return schema
    stray = ignored_dialects(place)
    for keyword in schema:
        if keyword in unknown:
            reason = f"ignored: {place.dialect.name} has no such keyword"
            outcome = Outcome.EXACT
            if any(keyword not in dialect.unknown for dialect in stray):
                outcome, reason = Outcome.RELAXED, reason + _OTHERWISE
            rows.append(ReportRow(place.pointer, keyword, outcome, reason))
    return {k: v for k, v in schema.items() if k not in unknown}


def nullable(schema: dict[str, Any], place: Place | None, rows: list[ReportRow]) -> dict[str, Any]:
    """OpenAPI 3.0: ``nullable: true`` next to ``type`` adds null to the types (and to an ``enum``)."""
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
    return {"anyOf": [out, {"type": "null"}]} if is_nullable_wrapped(schema) else out


def exclusive_flags(schema: dict[str, Any], place: Place | None, rows: list[ReportRow]) -> dict[str, Any]:
    """Draft 4 and OpenAPI 3.0: ``exclusiveMinimum: true`` makes ``minimum`` exclusive.

    A number there in draft 4 is a bound as in draft 6, and makes ``minimum`` exclusive too: validators read it as one
    or the other.
    """
    out = schema
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(flag), bool):
            exclusive = out[flag] and bound in out
            value = out.get(bound)
            out = {k: v for k, v in out.items() if k != flag and not (exclusive and k == bound)}
            if exclusive:
                out[flag] = value
        elif place is not None and flag in disputed_keywords(out, place.dialect.order):
            if _may_be_number(out):
                reason = f"a number, as in draft 6, where {place.dialect.name} has true or false"
                rows.append(ReportRow(place.pointer, flag, Outcome.NARROWED, reason))
            tighter = max if flag == "exclusiveMinimum" else min
            out = {**out, flag: tighter(out[flag], out.get(bound, out[flag]))}
    return out


def _may_be_number(schema: Mapping[str, Any]) -> bool:
    named = schema.get("type", "number")
    return not {"number", "integer"}.isdisjoint([named] if isinstance(named, str) else named)


def positional_items(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """``items`` as a list, with ``additionalItems``, becomes ``prefixItems`` with ``items``."""
    items = schema.get("items")
    if not isinstance(items, list):
        if "additionalItems" not in schema:
            return schema
        return {k: v for k, v in schema.items() if k != "additionalItems"}  # it has no meaning with a single schema
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

    Drafts after 7 dropped the keyword, yet schemas without ``$schema`` still use it.
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
    if disputed_keywords(schema, place.dialect.order):
        reason = f"applied, though {place.dialect.name} has no such keyword"
        rows.append(ReportRow(place.pointer, "dependencies", Outcome.NARROWED, reason))
        if "unevaluatedProperties" in schema and any(isinstance(v, dict) for v in schema["dependencies"].values()):
            reason = "covers fewer keys where dependencies are applied"
            rows.append(ReportRow(place.pointer, "unevaluatedProperties", Outcome.RELAXED, reason))
    out: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "dependencies":
            out["dependentRequired"], out["dependentSchemas"] = required, schemas
        elif keyword not in ("dependentRequired", "dependentSchemas"):
            out[keyword] = value
    return out
