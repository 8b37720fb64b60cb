"""What a grammar keeps of a schema, keyword by keyword."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Outcome", "ReportRow", "SchemaReport"]


class Outcome(StrEnum):
    """How much of a keyword the masks enforce."""

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
    """All rows of one schema that are worth a word; what is not listed is exact."""

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
        """The report as the policy ``strict`` has it: what is not enforced in full is refused."""
        return SchemaReport(
            tuple(replace(row, outcome=Outcome.REFUSED) if row.outcome is Outcome.RELAXED else row for row in self.rows)
        )

    def below(self, place: str) -> SchemaReport:
        """The report with ``place`` before all pointers."""
        return SchemaReport(tuple(replace(row, pointer=place + row.pointer) for row in self.rows))
