"""How the engine's lexer bears a language: it looks for a way to the end behind every character that is written.

It searches depth first, the smallest term first, and keeps what it found.  Most languages let it through at once; where
counts that may begin anywhere meet others it walks through all sets of counts that may be running, until its limits
end the row.  So the same search is done here beforehand, from the start and along a few texts that keep counts running,
and what is not found within a budget is said to be too costly.
"""

from __future__ import annotations

import random
from enum import Enum
from functools import lru_cache

from grammars.regular.languages import ALL, NONE, Regular, Spent, alt, derive, inter, representatives, spend

__all__ = ["Endurance", "bearable", "endurance", "num_floating"]

_MOST_STATES = 1_600  # of all searches for one language: most that the engine bears take some hundreds
_MOST_WORK = 10_000_000  # parts of terms
_UNDECIDED_STATES = 400  # of a search for any word at all, where one for the shortest has given up
_FEW_STATES = 300  # too few to tell where the work is done: large terms
_WORK_A_STATE = 300  # of what other searches may do as well
_WALKS = 2
_STEPS = 32  # characters of a walk
_COUNTED = 5  # repeats that are counts: fewer make few states


class Endurance(Enum):
    """What the search came to."""

    BEARABLE = "bearable"
    EMPTY = "empty"
    COSTLY = "costly"


def endurance(term: Regular, *, undecided: bool = False) -> Endurance:
    """May the engine be handed the language?  Looked into where counts that may begin anywhere meet a complement.

    Else only where it is ``undecided`` whether there is any word: what takes long then may be no more than long.
    """
    many = not term.plain and _has_complement(term) and num_floating(term) > 1
    if not many and not undecided:
        return Endurance.BEARABLE
    try:
        return _endurance(term) if many else _emptiness(term)
    except Spent:
        return Endurance.BEARABLE  # other searches have used up the time: the engine's own probe decides


def bearable(term: Regular, *, undecided: bool = False) -> Regular:
    """The language; where it is too costly a wider one, of as many of its parts as the engine bears together."""
    if term.op == "alt":
        return alt(*(bearable(option, undecided=undecided) for option in term.args))
    match endurance(term, undecided=undecided):
        case Endurance.BEARABLE:
            return term
        case Endurance.EMPTY:
            return NONE
    kept: Regular = ALL
    for part in sorted(term.args if term.op == "and" else (), key=lambda one: not one.plain):
        if endurance(inter(kept, part), undecided=undecided) is not Endurance.COSTLY:
            kept = inter(kept, part)
    return kept


def _has_complement(term: Regular) -> bool:
    if term.plain:
        return False
    return term.op == "not" or any(_has_complement(part) for part in term.args if isinstance(part, Regular))


def num_floating(term: Regular, *, behind: bool = False) -> int:
    """Counts that may begin at many places; ``behind``: a repeat without end comes before the term."""
    match term.op:
        case "chars" | "words":
            return 0
        case "rep":
            body, least, most = term.args
            own = behind and (least if most is None else most) >= _COUNTED
            return int(own) + num_floating(body, behind=behind)
        case "cat":
            found = 0
            for part in term.args:
                found += num_floating(part, behind=behind)
                behind = behind or (part.op == "rep" and part.args[2] is None)
            return found
    return sum(num_floating(part, behind=behind) for part in term.args)


class _TooMuch(Exception):
    pass


class _Search:
    """The engine's search; what is known of a state is kept."""

    def __init__(self, most_states: int = _MOST_STATES) -> None:
        self.most_states = most_states
        self.known: dict[Regular, bool] = {}
        self.states = 0
        self.work = 0

    def following(self, state: Regular) -> dict[Regular, int]:
        """What may follow, each with the friendliest character that leads there."""
        self.states += 1
        found: dict[Regular, int] = {}
        codes = representatives(state)
        self.work += state.size * len(codes)
        spend(_WORK_A_STATE)
        if self.states > self.most_states or self.work > _MOST_WORK:
            raise _TooMuch
        for code in codes:
            after = derive(state, code)
            if after != NONE:
                found.setdefault(after, code)
        return found

    def has_end(self, start: Regular) -> bool:
        """Does any word lead from here to an end?"""
        path: list[tuple[Regular, list[Regular]]] = [(start, [start])]
        seen: set[Regular] = set()
        while path:
            below = path[-1][1]
            if not below:
                path.pop()
                continue
            state = below.pop()
            if state in seen or self.known.get(state) is False:
                continue
            if state.nullable or state.plain or self.known.get(state):
                self.known.update((one, True) for one, _ in path)
                self.known[state] = True
                return True
            seen.add(state)
            path.append((state, sorted(self.following(state), key=lambda one: -one.size)))
        self.known.update(dict.fromkeys(seen, False))
        return False


@lru_cache(maxsize=2_000)
def _endurance(term: Regular) -> Endurance:
    """Raises `Spent`, which is not kept."""
    search, rng = _Search(), random.Random(0)
    try:
        if not search.has_end(term):
            return Endurance.EMPTY
        for walk in range(_WALKS):
            _walk(term, search, rng, walk)
    except _TooMuch:
        return Endurance.COSTLY if search.states > _FEW_STATES else Endurance.BEARABLE
    return Endurance.BEARABLE


@lru_cache(maxsize=2_000)
def _emptiness(term: Regular) -> Endurance:
    """Raises `Spent`, which is not kept."""
    try:
        return Endurance.BEARABLE if _Search(_UNDECIDED_STATES).has_end(term) else Endurance.EMPTY
    except _TooMuch:
        return Endurance.BEARABLE


def _walk(term: Regular, search: _Search, rng: random.Random, number: int) -> None:
    """Along a text that stays among the largest terms, where the most counts run; the first one always there."""
    for _ in range(_STEPS):
        if term.plain:
            return
        alive = [after for after in search.following(term) if search.has_end(after)]
        if not alive:
            return
        largest = max(alive, key=lambda one: one.size)
        term = largest if number == 0 or rng.random() < 0.5 else rng.choice(alive)
