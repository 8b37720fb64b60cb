"""The report of a schema: how much of each keyword the masks enforce."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Outcome", "ReportRow", "SchemaReport"]


class Outcome(StrEnum):
    """The degree to which the masks enforce a keyword."""

    EXACT = "exact"  #: the masks accept what the keyword accepts
    RELAXED = "relaxed"  #: the masks accept more; checked after generation
    NARROWED = "narrowed"  #: the masks accept less (key order, one spelling of a number)
    REFUSED = "refused"  #: cannot be enforced and the policy is strict


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One keyword at one place.  ``pointer`` is a JSON pointer into the schema as the caller wrote it."""

    pointer: str
    keyword: str
    outcome: Outcome
    reason: str


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

    def strictly(self) -> SchemaReport:
        """Return the report under the policy ``strict``: relaxed rows are refused."""
        return SchemaReport(
            tuple(replace(row, outcome=Outcome.REFUSED) if row.outcome is Outcome.RELAXED else row for row in self.rows)
        )

    def below(self, place: str) -> SchemaReport:
        """Return the report with ``place`` in front of all pointers."""
        return SchemaReport(tuple(replace(row, pointer=place + row.pointer) for row in self.rows))
