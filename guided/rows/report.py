"""The report of a row on its answer: all that its tokens do not show."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.engine.counters import Guidance
from guided.landing.control import Marks
from special_tokens.errors import GuidedError

__all__ = ["RowReport"]


@dataclass(frozen=True, slots=True)
class RowReport:
    """The counters of a row, its error and what its budget decided; a host may carry them to where answers are read.

    ``is_freed``: the row went on without guidance after its error.  ``notes`` say why it was cut, or may be.
    """

    guidance: Guidance = field(default_factory=Guidance)
    error: GuidedError | None = None
    is_freed: bool = False
    marks: Marks = Marks()
    notes: tuple[str, ...] = ()
