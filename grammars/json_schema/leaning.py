"""Rows of the report for what stands around a row: the keywords that lean on a relaxed part, the words as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.json_pointer import unescaped
from grammars.json_schema.documents import OLDER, written_word
from grammars.json_schema.report import Outcome, ReportRow
from grammars.json_schema.space import Space

__all__ = ["as_written", "leaning"]

#: Keywords of which a validator does not say what inside them is broken.
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"))


def leaning(space: Space, rows: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Relaxed rows for the keywords around what is relaxed, by way of references too, that are broken as a whole."""
    todo = list(dict.fromkeys(row.pointer for row in rows if row.outcome is Outcome.RELAXED))
    seen = set(todo)
    references = [(target.pointer, space.documents[at].pointer) for (at, _), target in space.targets()] if todo else []
    for pointer in todo:
        steps = pointer.split("/")
        for n in range(1, len(steps)):
            if steps[n] in _OPAQUE and (n == 1 or steps[n - 1] not in _NAMED):
                reason = "leans on a part that is relaxed"
                yield ReportRow("/".join(steps[:n]), steps[n], Outcome.RELAXED, reason)
        for target, place in references:
            if (pointer == target or pointer.startswith(target + "/")) and place not in seen:
                seen.add(place)
                todo.append(place)


_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))


def as_written(row: ReportRow, root: Any) -> ReportRow:
    """The row with the keyword that stands there, which may be an older word than the one we read it as."""
    if row.keyword not in OLDER:
        return row
    at = root
    for step in map(unescaped, row.pointer.split("/")[1:]):
        if isinstance(at, list) and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        else:
            at = at.get(step) if isinstance(at, dict) else None
    word = written_word(at, row.keyword) if isinstance(at, dict) else None
    return row if word is None else replace(row, keyword=word)
