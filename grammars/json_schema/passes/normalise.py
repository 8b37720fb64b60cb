"""One schema object to the words of draft 2020-12, by small passes in a fixed order.

A pass is a function ``(schema, place, rows) -> schema`` that returns an equivalent object and may add report
rows; it never changes what it is given.  Objects are normalised one at a time, when they are first looked at, so
parts that no reference reaches cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from grammars.json_schema.passes import dialect, kinds, plain
from grammars.json_schema.document.places import Place
from grammars.values.report import ReportRow

__all__ = ["PASSES", "normalise"]

Pass: TypeAlias = Callable[[dict[str, Any], Place, list[ReportRow]], dict[str, Any]]

PASSES: tuple[Pass, ...] = (
    dialect.stray_dialect,
    dialect.lone_reference,  # before all others: what it drops must not be read at all
    dialect.drop_later_words,
    kinds.check_kinds,  # everything after may trust the kinds of values
    plain.whole_numbers,
    dialect.exclusive_flags,
    dialect.nullable,  # before constants: null joins an enum, no const
    plain.constants,
    dialect.positional_items,
    dialect.split_dependencies,
    plain.drop_no_ops,
)

#: As validators read it that keep to the dialect: without what we read as another one does.
_WIDEST = (dialect.drop_disputed, *PASSES)


def normalise(place: Place, *, is_widest: bool = False) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """The object at ``place`` in plain words, and what the passes have to say about it.

    ``is_widest``: with all that some validator may take, see `grammars.json_schema.solver.solver.Space.widest`.
    """
    rows: list[ReportRow] = []
    schema: dict[str, Any] = place.schema
    for run in _WIDEST if is_widest else PASSES:
        schema = run(schema, place, rows)
    return schema, tuple(rows)
