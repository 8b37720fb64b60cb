"""Decisions about regular languages: shortest word, emptiness, disjointness, length bounds.

The engine answers some of these too late for us (may this key match that pattern, is any string left), so they are
searched for here by derivatives.  A search has a budget; past it the result is `UNKNOWN`, and callers must assume the
worst.  Past the deadline of the thread (`grammars.limits.deadline`) it gives up as well; then `build` raises.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import Literal

from grammars.limits.deadline import is_late
from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.terms import NONE, Regular, derive, inter, matches, representatives

__all__ = [
    "UNKNOWN",
    "Unknown",
    "disjoint",
    "fixed_prefix",
    "fixed_suffix",
    "is_finite",
    "lengths",
    "shortest",
    "surely_empty",
    "work_budget",
]


class Unknown(Enum):
    """The result of a search that ran out of budget."""

    UNKNOWN = 0


UNKNOWN: Literal[Unknown.UNKNOWN] = Unknown.UNKNOWN


def lengths(term: Regular) -> tuple[int, int | None]:
    """Return bounds on the length of the words in code points: (shortest, longest or None if unbounded).

    Bounds only: for terms with intersection or complement no word need reach them.
    """
    match term.op:
        case "chars":
            return 1, 1
        case "words":
            sizes = [len(w) for w in term.args]
            return min(sizes), max(sizes)
        case "not":
            return 0, None
        case "rep":
            low, high = lengths(term.args[0])
            least, most = term.args[1:]
            return low * least, None if most is None or high is None else high * most
    if not term.args:
        return 0, 0
    lows, highs = zip(*map(lengths, term.args), strict=True)
    tops = [high for high in highs if high is not None]
    if term.op == "and":
        return max(lows), min(tops, default=None)
    join, pick = (sum, sum) if term.op == "cat" else (min, max)
    return join(lows), pick(tops) if len(tops) == len(highs) else None


def is_finite(term: Regular) -> bool:
    """Whether only finitely many words are possible (by the bounds on their length)."""
    return lengths(term)[1] is not None


class _Budget(threading.local):
    """The work that searches of this thread may still do in all, None while no budget is set."""

    work: Work | None = None


_budget = _Budget()

#: Characters of a word that a repeat spells out: ``(a{65536}){65536}`` has a shortest word of 4 GiB.
_MAX_WORD_LENGTH = 1_000_000


@contextmanager
def work_budget(parts: int) -> Iterator[None]:
    """Limit the parts of terms that all searches of this thread in the block look at; past it all return `UNKNOWN`."""
    before, _budget.work = _budget.work, Work(parts)
    try:
        yield
    finally:
        _budget.work = before


def shortest(term: Regular, budget: int = 3_000, most_work: int = WORK.search) -> str | Unknown | None:
    """Return a shortest word, None for the empty language.

    `UNKNOWN` past ``budget`` states, past ``most_work`` parts of terms or past the work budget of the thread, and where
    a part is repeated to more than `_MAX_WORD_LENGTH` characters.
    """
    try:
        return _shortest(term, budget, most_work)
    except TooMuch:
        return UNKNOWN


@lru_cache(maxsize=20_000)
def _shortest(term: Regular, budget: int, most_work: int) -> str | Unknown | None:
    """Raises `TooMuch` (which is not cached) where a later call may have more work left."""
    if term.plain:
        return _shortest_plain(term)
    low, high = lengths(term)
    if high is not None and low > high:
        return None
    of_thread = _budget.work
    seen = {term}
    queue: deque[tuple[Regular, str]] = deque([(term, "")])
    while queue:
        state, word = queue.popleft()
        if state.nullable:
            return word
        for code in representatives(state):
            most_work -= state.size
            if most_work < 0:
                return UNKNOWN
            if of_thread is not None:
                of_thread.spend(state.size)
            if is_late():
                raise TooMuch
            following = derive(state, code)
            if following in seen or following == NONE:
                continue
            if len(seen) >= budget:
                return UNKNOWN
            seen.add(following)
            queue.append((following, word + chr(code)))
    return None


@lru_cache(maxsize=5_000)
def _shortest_plain(term: Regular) -> str | None:
    match term.op:
        case "chars":
            fitting = (chr(c) for c in representatives(term) if any(a <= c <= b for a, b in term.args))
            return next(fitting, None)
        case "words":
            shortest: str = min(term.args, key=lambda w: (len(w), w))
            return shortest
        case "cat":
            parts = [_shortest_plain(p) for p in term.args]
            return None if None in parts else "".join(p for p in parts if p is not None)
        case "alt":
            options = [w for w in map(_shortest_plain, term.args) if w is not None]
            return min(options, key=lambda w: (len(w), w), default=None)
    body, least, _ = term.args
    if least == 0:
        return ""
    word = _shortest_plain(body)
    if word is not None and len(word) * least > _MAX_WORD_LENGTH:
        raise TooMuch
    return None if word is None else word * least


def surely_empty(term: Regular, budget: int = 400) -> bool:
    """Whether the language is proved to have no word; False if it has one or the search gives up."""
    try:
        return _surely_empty(term, budget)
    except TooMuch:
        return False


@lru_cache(maxsize=20_000)
def _surely_empty(term: Regular, budget: int) -> bool:
    if term == NONE:
        return True
    if term.plain:
        return _shortest_plain(term) is None
    if term.nullable:
        return False
    parts = term.args if term.op == "and" else ()
    samples = [_shortest_plain(p) for p in parts if p.plain]
    if any(word is not None and matches(term, word) for word in (*samples, "a", "0", "A", " ", "aaaa")):
        return False
    wanted = [part for part in parts if part.op != "not"]
    if 1 < len(wanted) < len(parts) and _shortest(inter(*wanted), budget, WORK.search) is None:
        return True  # complements multiply the states, and are seldom the reason why nothing is left
    return _shortest(term, budget, WORK.search) is None


def fixed_prefix(term: Regular) -> str:
    """Return text that every word begins with (not always the longest such text)."""
    if term.op == "words" and len(term.args) == 1:
        return str(next(iter(term.args)))
    if term.op == "cat" and term.args:
        return fixed_prefix(term.args[0])
    if term.op == "and":
        return max(map(fixed_prefix, term.args), key=len)
    return ""


def fixed_suffix(term: Regular) -> str:
    """Return text that every word ends with (not always the longest such text)."""
    if term.op == "words" and len(term.args) == 1:
        return str(next(iter(term.args)))
    return fixed_suffix(term.args[-1]) if term.op == "cat" and term.args else ""


def disjoint(one: Regular, two: Regular) -> bool:
    """Whether no word is proved to be in both languages."""
    a, b = fixed_prefix(one), fixed_prefix(two)
    if not a.startswith(b) and not b.startswith(a):
        return True
    if one.op == "words":
        return not any(matches(two, w) for w in one.args)
    if two.op == "words":
        return not any(matches(one, w) for w in two.args)
    return surely_empty(inter(one, two), 500)
