"""Work that may be done, counted in steps and never in time: a busy machine must make the same plan."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WORK", "TooMuch", "Work", "WorkLimits"]


class TooMuch(Exception):
    """More work, or a larger result, than a limit allows: the caller takes the worst for granted, or a coarser way."""


class Work:
    """The steps that may still be done: parts of a term, states, forms or words that are looked at or made.

    `spend` raises `TooMuch` when they are used up.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuch


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The limits that no caller sets; those on a schema are `grammars.limits.schema_limits.Limits`."""

    searches: int = 9_000_000  #: parts of terms in all searches of languages for one schema: real ones take 8 million
    search: int = 6_000_000  #: parts of terms in one of them: some seconds in the worst case
    enumeration: int = 40_000  #: parts of terms in one enumeration of words: a tenth of a second
    spelled: int = 1_000_000  #: characters of all prefixes that it makes, each counted in full
    assertions: int = 5_000  #: parts of a pattern that are looked at where assertions occur among choices
    clauses: int = 30  #: conditions across keys that are looked at, per node of an object's limit
    lexemes: int = 1_000_000  #: parts of terms in the analysis of one client's grammar: some tenths of a second
    lexeme_states: int = 400  #: of one lexeme; a larger one passes


WORK = WorkLimits()
