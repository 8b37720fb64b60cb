"""Short words of languages, and the work limits of searches for shortest texts."""

from __future__ import annotations

from grammars.regular.astar import astar_word, without_counts
from grammars.regular.languages import (
    MAX_CODE_POINT,
    UNKNOWN,
    Regular,
    Unknown,
    chars,
    inter,
    matches,
    rep,
    shortest,
    work_budget,
)
from grammars.regular.syntax import ecma

__all__ = ["PATIENT", "TooLarge", "Visits", "joined", "pattern_word", "repeated"]

_MOST = 100_000  # characters of a text
_CHARACTERS = 200  # writing this many costs as much as one visit
_MOST_VISITS = 20_000  # nodes and schemas; ten times as many where there is time
_LAST_ASCII = 0x7E
_BUDGET, _QUICK = 300, 100_000  # states of one search for a word, and parts of languages in it, about 5 ms
PATIENT = 20_000, 8_000_000  #: where there is time: states of one search, and parts of languages in all, about 0.5 s


class TooLarge(Exception):
    """The work limit is used up."""


class Visits:
    """A count of visited nodes and schemas, with a limit; `word` searches one language."""

    def __init__(self, *, patient: bool = False) -> None:
        self.left = _MOST_VISITS * (10 if patient else 1)
        self.patient = patient
        self.words: dict[Regular, str | None] = {}  # found, by language: a text asks for the same one many times

    def word(self, term: Regular) -> str | None:
        """Return a shortest word of a language, or None if nothing was found.

        Where breadth-first search runs out of budget and there is time, A* follows, first among words that need no JSON
        escape; the result may then not be shortest.
        """
        if term not in self.words:
            found = shortest(term, _BUDGET, _QUICK)
            if found is UNKNOWN and self.patient:
                found = _patient_word(term)
            self.words[term] = found if isinstance(found, str) else None
        return self.words[term]

    def count(self, characters: int = 0) -> None:
        """Count one visit, or a text of that many ``characters``; raises `TooLarge` past the limit."""
        self.left -= 1 + characters // _CHARACTERS
        if self.left < 0:
            raise TooLarge


def _patient_word(term: Regular) -> str | Unknown | None:
    """A shortest word of a language in which breadth-first search gave up, else some word.

    Repeat counts of a pattern are widened at first; a word found that way counts if it is in the language.
    """
    for wider in without_counts(term):
        found = _readable_word(wider, PATIENT[1] // 8)
        if isinstance(found, str) and matches(term, found):
            return found
    found = _readable_word(term, PATIENT[1] // 2)
    return _readable_word(term, PATIENT[1] // 4, hasty=True) if found is UNKNOWN else found


def _readable_word(term: Regular, work: int, *, hasty: bool = False) -> str | Unknown | None:
    """A word without a backslash where there is one, else any; of ASCII letters if possible, else of all."""
    found: str | Unknown | None = UNKNOWN
    for last in (_LAST_ASCII, MAX_CODE_POINT):
        for one in (inter(term, _SPELLED), term):
            with work_budget(work // 2):
                found = astar_word(one, PATIENT[0], any_word=hasty, max_code_point=last)
            if found is not None:
                break
        if found is not UNKNOWN:
            break
    return found


#: Texts without a backslash: in an intersection of languages escapes cause most of the states of a search.
_SPELLED = rep(chars(((0x20, 0x5B), (0x5D, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)
#: Strings that JSON writes without ``\u``.
_WRITTEN = rep(chars(((0x08, 0x0A), (0x0C, 0x0D), (0x20, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)


def pattern_word(pattern: str) -> str | None:
    """Return a short string that a schema's ``pattern`` accepts; None where none is found in a few ms."""
    try:
        with work_budget(PATIENT[1] // 64, is_repeatable=True):
            found = _readable_word(ecma.language(pattern), PATIENT[1] // 64, hasty=True)
    except (ecma.InvalidPattern, ecma.NotRegular):
        return None
    return found if isinstance(found, str) else None


def joined(parts: list[str | None]) -> str | None:
    found = [part for part in parts if part is not None]
    return "".join(found) if len(found) == len(parts) and sum(map(len, found)) <= _MOST else None


def repeated(body: str | None, times: int) -> str | None:
    return body * times if body is not None and len(body) * times <= _MOST else None
