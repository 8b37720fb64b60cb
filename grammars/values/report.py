"""The report of a schema: how much of each keyword the masks enforce."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Outcome", "ReportRow", "SchemaReport"]

_MAX_LINES = 10


class Outcome(StrEnum):
    """The degree to which the masks enforce a keyword."""

    EXACT = "exact"  #: the masks accept what the keyword accepts
    RELAXED = "relaxed"  #: the masks accept more; checked after generation
    NARROWED = "narrowed"  #: the masks accept less (key order, one spelling of a number)
    REFUSED = "refused"  #: cannot be enforced and the policy is strict


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One keyword at one place.  ``pointer`` is a JSON pointer into the schema as the caller wrote it.

    ``is_slip``: the caller seems to have meant something else.
    """

    pointer: str
    keyword: str
    outcome: Outcome
    reason: str
    is_slip: bool = False


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The rows of one schema; a keyword without a row is enforced exactly."""

    rows: tuple[ReportRow, ...] = ()

    @property
    def relaxed(self) -> tuple[ReportRow, ...]:
        return tuple(row for row in self.rows if row.outcome is Outcome.RELAXED)

    @property
    def refused(self) -> tuple[ReportRow, ...]:
        return tuple(row for row in self.rows if row.outcome is Outcome.REFUSED)

    @property
    def narrowed(self) -> tuple[ReportRow, ...]:
        return tuple(row for row in self.rows if row.outcome is Outcome.NARROWED)

    @property
    def unknown_formats(self) -> tuple[str, ...]:
        """A line for each format that nothing enforces because the dialect has none of that name; at most ten lines."""
        places: dict[str, list[str]] = {}
        for row in self.rows:
            if row.keyword == "format" and row.outcome is Outcome.EXACT:
                places.setdefault(row.reason, []).append(row.pointer or "the root")
        more = [f"{len(places) - _MAX_LINES} more formats: see the report"] if len(places) > _MAX_LINES else []
        lines = [
            f"format at {first}{f' and {len(others)} more' if others else ''}: {reason}"
            for reason, (first, *others) in places.items()
        ]
        return (*lines[:_MAX_LINES], *more)

    @property
    def misspelt(self) -> tuple[str, ...]:
        """A line for each word that nearly spells a keyword or a property; at most ten lines."""
        rows = [row for row in self.rows if row.is_slip]
        return tuple(f"{row.keyword} at {row.pointer or 'the root'}: {row.reason}" for row in rows[:_MAX_LINES])

    def strictly(self) -> SchemaReport:
        """Return the report under the policy ``strict``: relaxed rows are refused."""
        return SchemaReport(
            tuple(replace(row, outcome=Outcome.REFUSED) if row.outcome is Outcome.RELAXED else row for row in self.rows)
        )

    def below(self, place: str) -> SchemaReport:
        """Return the report with ``place`` in front of all pointers."""
        return SchemaReport(tuple(replace(row, pointer=place + row.pointer) for row in self.rows))
