"""The cost of a language: its size written out, and an estimate of the states that the engine's lexer needs for it.

After every character the engine's lexer searches for a way to the end: depth first, smallest term first, keeping what
it found.  For most languages that is quick.  Where counted repeats that may begin anywhere meet other conditions, it
visits all sets of counts that may be running, until its limits end the row.  The same search is therefore made here
beforehand, from the start and along a few texts that keep counts running; a language whose search exceeds a budget is
reported as too costly.
"""

from __future__ import annotations

import random
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import cast

from grammars.regular.languages import (
    ALL,
    ANY,
    EPS,
    NONE,
    BudgetSpent,
    Regular,
    alt,
    chars,
    derive,
    disjoint,
    inter,
    representatives,
    spend,
)

__all__ = [
    "LexerCost",
    "affordable_superset",
    "estimate_lexer_cost",
    "expanded_size",
    "is_costly",
    "num_floating_counts",
]

_MOST_STATES = 1_600  # of all searches for one language: most languages that the engine handles take some hundreds
_MOST_WORK = 10_000_000  # parts of terms
_UNDECIDED_STATES = 400  # of a search for any word at all, after one for the shortest has given up
_FEW_STATES = 300  # below, the work went into large terms and says nothing about states
_WORK_A_STATE = 300  # charged to the work budget of the thread
_WALKS = 2
_STEPS = 32  # characters of a walk
_MAX_STATES = 1_000  # limit on the product of nested counts that may overlap with what follows
_COUNTED = 5  # repetitions from which on a repeat counts: fewer make few states


class LexerCost(Enum):
    """The result of the estimate."""

    AFFORDABLE = "affordable"
    EMPTY = "empty"
    COSTLY = "costly"


def estimate_lexer_cost(term: Regular, *, undecided: bool = False) -> LexerCost:
    """Return whether the engine can handle the language, it is empty, or it is too costly.

    Searched only where counts that may begin anywhere meet a complement, or where it is ``undecided`` whether there is
    any word: then a long search is not held against the language.
    """
    many = not term.plain and _has_complement(term) and num_floating_counts(term) > 1
    if not many and not undecided:
        return LexerCost.AFFORDABLE
    try:
        return _estimate(term) if many else _emptiness(term)
    except BudgetSpent:
        return LexerCost.AFFORDABLE  # other searches have used up the budget: the engine's own probe decides


def affordable_superset(term: Regular, *, undecided: bool = False) -> Regular:
    """Return the language, or if it is too costly the intersection of as many of its parts as are affordable."""
    if term.op == "alt":
        return alt(*(affordable_superset(option, undecided=undecided) for option in term.args))
    match estimate_lexer_cost(term, undecided=undecided):
        case LexerCost.AFFORDABLE:
            return term
        case LexerCost.EMPTY:
            return NONE
    kept: Regular = ALL
    for part in sorted(term.args if term.op == "and" else (), key=lambda one: not one.plain):
        if estimate_lexer_cost(inter(kept, part), undecided=undecided) is not LexerCost.COSTLY:
            kept = inter(kept, part)
    return kept


def _has_complement(term: Regular) -> bool:
    if term.plain:
        return False
    return term.op == "not" or any(_has_complement(part) for part in term.args if isinstance(part, Regular))


def num_floating_counts(term: Regular, *, after_loop: bool = False) -> int:
    """The number of counted repeats that may begin at many places; ``after_loop``: an unbounded repeat comes before."""
    match term.op:
        case "chars" | "words":
            return 0
        case "rep":
            body, least, most = term.args
            own = after_loop and (least if most is None else most) >= _COUNTED
            return int(own) + num_floating_counts(body, after_loop=after_loop)
        case "cat":
            found = 0
            for part in term.args:
                found += num_floating_counts(part, after_loop=after_loop)
                after_loop = after_loop or (part.op == "rep" and part.args[2] is None)
            return found
    return sum(num_floating_counts(part, after_loop=after_loop) for part in term.args)


class _TooMuch(Exception):
    pass


class _Search:
    """The engine's depth-first search; results for visited states are kept."""

    def __init__(self, most_states: int = _MOST_STATES) -> None:
        self.most_states = most_states
        self.known: dict[Regular, bool] = {}
        self.states = 0
        self.work = 0

    def following(self, state: Regular) -> dict[Regular, int]:
        """Return the next states, each with the most readable character that leads there."""
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
        """Whether any word leads from here to an end."""
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
def _estimate(term: Regular) -> LexerCost:
    """Raises `BudgetSpent`, which is not cached."""
    search, rng = _Search(), random.Random(0)
    try:
        if not search.has_end(term):
            return LexerCost.EMPTY
        for walk in range(_WALKS):
            _walk(term, search, rng, walk)
    except _TooMuch:
        return LexerCost.COSTLY if search.states > _FEW_STATES else LexerCost.AFFORDABLE
    return LexerCost.AFFORDABLE


@lru_cache(maxsize=2_000)
def _emptiness(term: Regular) -> LexerCost:
    """Raises `BudgetSpent`, which is not cached."""
    try:
        return LexerCost.AFFORDABLE if _Search(_UNDECIDED_STATES).has_end(term) else LexerCost.EMPTY
    except _TooMuch:
        return LexerCost.AFFORDABLE


def _walk(term: Regular, search: _Search, rng: random.Random, number: int) -> None:
    """Follow a text through the largest terms, where the most counts run; walk 0 always takes the largest."""
    for _ in range(_STEPS):
        if term.plain:
            return
        alive = [after for after in search.following(term) if search.has_end(after)]
        if not alive:
            return
        largest = max(alive, key=lambda one: one.size)
        term = largest if number == 0 or rng.random() < 0.5 else rng.choice(alive)


def expanded_size(term: Regular) -> int:
    """The number of characters of a term with its repeats expanded: its cost for the engine."""
    match term.op:
        case "chars":
            return 1
        case "words":
            return sum(map(len, term.args))
        case "rep":
            body, least, most = cast(tuple[Regular, int, int | None], term.args)
            return expanded_size(body) * max(1, least if most is None else most)
    return sum(expanded_size(p) for p in term.args) + 1


def is_costly(term: Regular, around: int = 1) -> bool:
    """Whether a counted repeat, itself repeated, shares characters with what follows it.

    In ``(.{1,63}\\.){1,127}`` every dot may end the inner repeat or not: the engine's states multiply until its limits
    end the generation.  ``around`` is the product of the counts outside.
    """
    if term.op in ("chars", "words"):
        return False
    if term.op == "rep":
        body, least, most = term.args
        return is_costly(body, around * max(1, least if most is None else most))
    if term.op == "cat":
        for part, after in pairwise((*term.args, EPS)):
            if part.op == "rep" and part.args[1] != part.args[2]:
                count = part.args[2] if part.args[2] is not None else 1
                if count > 4 and around * count > _MAX_STATES and not disjoint(part.args[0], _first(after)):
                    return True
    return any(is_costly(part, around) for part in term.args)


def _first(term: Regular) -> Regular:
    """The first characters of a term (roughly: of the first part that is not a choice)."""
    match term.op:
        case "words":
            return chars([(ord(w[0]), ord(w[0])) for w in term.args if w])
        case "rep":
            return _first(term.args[0])
        case "cat" if term.args:
            return _first(term.args[0])
        case "chars":
            return term
    return ANY if term != EPS else NONE
