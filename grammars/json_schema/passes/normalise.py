"""Normalise one schema object to the keywords of draft 2020-12, by small passes in a fixed order.

A pass is a function ``(schema, place, rows) -> schema`` that returns an equivalent object and may add report rows; it
never changes its argument.  Objects are normalised one at a time, when they are first needed, so parts that no
reference reaches cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from grammars.json_schema.document.places import Place
from grammars.json_schema.passes import dialect, kinds
from grammars.json_schema.shapes.equality_keys import EqualityKeys
from grammars.limits.schema_limits import DEFAULT_LIMITS
from grammars.values.report import ReportRow
from special_tokens.errors import SchemaError

__all__ = ["PASSES", "normalise"]

Pass: TypeAlias = Callable[[dict[str, Any], Place, list[ReportRow]], dict[str, Any]]

_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
)


def _whole_numbers(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Convert counts such as 2.0 to 2."""
    floats = [k for k in _COUNTS if isinstance(schema.get(k), float)]
    return {**schema, **{k: int(schema[k]) for k in floats}} if floats else schema


def _constants(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """``const`` becomes an ``enum`` of one value (or filters the ``enum`` next to it)."""
    longest = max((len(v) for v in (schema.get("const"), *schema.get("enum", ())) if isinstance(v, str)), default=0)
    if longest > DEFAULT_LIMITS.literal:
        raise SchemaError(
            f"a constant of {longest} characters, the limit 'literal' is {DEFAULT_LIMITS.literal}",
            pointer=place.pointer,
            keyword="const" if "const" in schema else "enum",
            hint="use a shorter constant",
        )
    if "const" not in schema:
        return schema
    out = {k: v for k, v in schema.items() if k not in ("const", "enum")}
    keys = EqualityKeys()
    is_listed = "enum" not in schema or keys(schema["const"]) in map(keys, schema["enum"])
    out["enum"] = [schema["const"]] if is_listed else []
    return out


def _drop_no_ops(schema: dict[str, Any], place: Place, rows: list[ReportRow]) -> dict[str, Any]:
    """Drop keywords that have no effect where they are."""
    gone = {k for k, v in schema.items() if (k in _IDLE and _IDLE[k] == v and type(_IDLE[k]) is type(v))}
    if "contains" not in schema:
        gone |= {"minContains", "maxContains"} & schema.keys()
    if "if" not in schema:
        gone |= {"then", "else"} & schema.keys()
    return {k: v for k, v in schema.items() if k not in gone} if gone else schema


_IDLE: dict[str, Any] = {
    "uniqueItems": False,
    "not": False,
    "dependencies": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "propertyNames": True,
    "patternProperties": {},
    "required": [],
}


PASSES: tuple[Pass, ...] = (
    dialect.note_ignored_dialect,
    dialect.drop_ref_siblings,  # before all others: the keywords it drops must not be read at all
    dialect.drop_later_keywords,
    kinds.check_kinds,  # later passes rely on the types of values
    _whole_numbers,
    dialect.exclusive_flags,
    dialect.nullable,  # before _constants: null joins an enum, no const
    _constants,
    dialect.positional_items,
    dialect.split_dependencies,
    _drop_no_ops,
)


def normalise(place: Place) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """Return the object at ``place`` normalised, and the report rows of the passes."""
    if place.normal is None:
        rows: list[ReportRow] = []
        schema: dict[str, Any] = place.schema
        for run in PASSES:
            schema = run(schema, place, rows)
        place.normal = schema, tuple(rows)
    return place.normal
