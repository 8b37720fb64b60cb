"""The report of a row on its answer: facts that the tokens of the answer do not show."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.engine.counters import Guidance
from guided.landing.control import Marks
from special_tokens.errors import GuidedError

__all__ = ["RowReport"]


@dataclass(frozen=True, slots=True)
class RowReport:
    """The counters of a row, its error and the decisions of its budget; a host may send them to a reader of answers.

    ``is_freed``: the row went on without guidance after its error.  ``notes`` say why the answer was or may be cut.
    """

    guidance: Guidance = field(default_factory=Guidance)
    error: GuidedError | None = None
    is_freed: bool = False
    marks: Marks = Marks()
    notes: tuple[str, ...] = ()
