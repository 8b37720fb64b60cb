"""One schema object to the words of draft 2020-12, by small passes in a fixed order.

A pass is a function ``(schema, place, rows) -> schema`` that returns an equivalent object and may add report
rows; it never changes what it is given.  Objects are normalised one at a time, when they are first looked at, so
parts that no reference reaches cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammars.json_schema.documents import Place
from grammars.json_schema.passes import dialect, kinds, plain
from grammars.json_schema.report import ReportRow

__all__ = ["PASSES", "normalise"]

PASSES: tuple[Callable[[dict[str, Any], Place, list[ReportRow]], dict[str, Any]], ...] = (
    dialect.lone_reference,  # first: what it drops must not be read at all
    dialect.drop_later_words,
    kinds.check_kinds,  # everything after may trust the kinds of values
    plain.whole_numbers,
    dialect.exclusive_flags,
    plain.constants,
    dialect.nullable,  # after constants: null joins the enum
    dialect.positional_items,
    dialect.split_dependencies,
    plain.drop_no_ops,
)


def normalise(place: Place) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """The object at ``place`` in plain words, and what the passes have to say about it."""
    rows: list[ReportRow] = []
    schema: dict[str, Any] = place.schema
    for run in PASSES:
        schema = run(schema, place, rows)
    return schema, tuple(rows)
