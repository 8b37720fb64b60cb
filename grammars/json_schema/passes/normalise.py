"""Normalise one schema object to the keywords of draft 2020-12, by small passes in a fixed order.

A pass is a function ``(schema, place, rows) -> schema`` that returns an equivalent object and may add report rows; it
never changes its argument.  Objects are normalised one at a time, when they are first needed, so parts that no
reference reaches cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from grammars.json_schema.document.places import Place
from grammars.json_schema.passes import dialect, kinds, plain
from grammars.values.report import ReportRow

__all__ = ["PASSES", "normalise"]

Pass: TypeAlias = Callable[[dict[str, Any], Place, list[ReportRow]], dict[str, Any]]

PASSES: tuple[Pass, ...] = (
    dialect.note_ignored_dialect,
    dialect.drop_ref_siblings,  # before all others: the keywords it drops must not be read at all
    dialect.drop_later_keywords,
    kinds.check_kinds,  # later passes rely on the types of values
    plain.whole_numbers,
    dialect.exclusive_flags,
    dialect.nullable,  # before constants: null joins an enum, no const
    plain.constants,
    dialect.positional_items,
    dialect.split_dependencies,
    plain.drop_no_ops,
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
