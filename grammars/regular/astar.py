"""A* search for shortest words, for languages whose breadth-first search would visit too many states.

A lower bound on the distance to the end comes from the term (`lengths`).  A search by the sum of that bound and the
length so far finds a shortest word in few states (A*); one that weighs the bound more finds some word in fewer still.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush

from grammars.regular.alphabets import restricted_to_alphabet
from grammars.regular.languages import (
    MAX_CODE_POINT,
    NONE,
    UNKNOWN,
    BudgetSpent,
    Regular,
    Unknown,
    derive,
    lengths,
    lru_cache_of_work,
    rep,
    representatives,
    shortest,
    spend,
)
from grammars.regular.terms import cat, inter

__all__ = ["astar_word", "without_counts"]

_HASTE = 1_000  # weight of one character less to the end, where any word will do
_WORK_A_STATE = 100  # work that visiting a state counts as, in parts of terms


def astar_word(
    term: Regular, budget: int, *, any_word: bool = False, max_code_point: int = MAX_CODE_POINT
) -> str | Unknown | None:
    """Return a shortest word, with ``any_word`` some word; None if the language is empty.

    Words with a character above ``max_code_point`` are not searched.  `UNKNOWN` if only such words are left, past
    ``budget`` states, or past the work budget of the thread.
    """
    try:
        return _search(restricted_to_alphabet(term), budget, any_word, max_code_point)
    except BudgetSpent:
        return UNKNOWN


@lru_cache_of_work(2_000)
def _search(start: Regular, budget: int, any_word: bool, max_code_point: int) -> str | Unknown | None:
    """Raises `BudgetSpent`, which is not cached."""
    reached: dict[Regular, tuple[Regular, int] | None] = {start: None}
    depths = {start: 0}
    #: Cost, size, negative depth, number, state, and the characters left to try: one at a time, since on a straight
    #: path the first one of each state is enough.  Among equals the deepest comes first, then the most readable.
    heap: list[tuple[int, int, int, int, Regular, Iterator[int] | None]] = [(lengths(start)[0], 0, 0, 0, start, None)]
    numbers, is_all = itertools.count(1), True
    while heap:
        cost, size, above, number, state, left = heappop(heap)
        if -above > depths[state]:
            continue  # a shorter path to this state was found meanwhile
        if left is None:
            word = _ended(reached, state, max_code_point)
            if word is not None:
                return word
            spend(_WORK_A_STATE)
            left = iter(representatives(state))
        spend(state.size)
        code = next(left, None)
        if code is None:
            continue
        heappush(heap, (cost, size, above, number, state, left))
        if code > max_code_point:
            is_all = False
            continue
        following = derive(state, code)
        if following == NONE or depths.get(following, 2 - above) <= 1 - above:
            continue
        if len(reached) >= budget:
            return UNKNOWN
        reached[following], depths[following] = (state, code), 1 - above
        ahead, size = (_together(following) * _HASTE, following.size) if any_word else (lengths(following)[0], 0)
        heappush(heap, (ahead - above + 1, size, above - 1, next(numbers), following, None))
    return None if is_all else UNKNOWN


def _ended(reached: dict[Regular, tuple[Regular, int] | None], state: Regular, max_code_point: int) -> str | None:
    """Return the word that ends in a state, where its rest is known without a search."""
    if state.nullable:
        return _path(reached, state)
    rest = shortest(state) if state.plain else None
    if isinstance(rest, str) and all(ord(char) <= max_code_point for char in rest):
        return _path(reached, state) + rest
    return None


def _together(term: Regular) -> int:
    """Return the sum of the distances of all parts: of parts that rarely meet, one character seldom advances both."""
    return sum(lengths(part)[0] for part in term.args) if term.op == "and" else lengths(term)[0]


def _path(reached: dict[Regular, tuple[Regular, int] | None], state: Regular) -> str:
    """Return the characters on the way to a state."""
    found: list[str] = []
    while (step := reached[state]) is not None:
        state = step[0]
        found.append(chr(step[1]))
    return "".join(reversed(found))


def without_counts(term: Regular) -> Iterator[Regular]:
    """Yield supersets of ``term`` with fewer counted repeats: without both bounds, then without upper bounds.

    A count intersected with another pattern multiplies that pattern's states.  A shortest word of a superset that is in
    ``term`` is a shortest word of ``term``.
    """
    before = {term}
    for keeps_least in (False, True):
        parts = term.args if term.op == "and" else (term,)
        wider = inter(*(_uncounted(part, keeps_least) for part in parts))
        if wider not in before:
            before.add(wider)
            yield wider


def _uncounted(part: Regular, keeps_least: bool) -> Regular:
    """Return a repeat, or one in quotes, without its bounds; any other term unchanged."""
    if part.op == "rep":
        body, least, _ = part.args
        return rep(body, least if keeps_least else min(least, 1), None)
    if part.op == "cat" and len(part.args) == 3 and part.args[1].op == "rep":
        begin, middle, end = part.args
        return cat(begin, _uncounted(middle, keeps_least), end)
    return part
