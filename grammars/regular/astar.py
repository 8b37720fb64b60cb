"""A search for words that goes where the end is near: for languages of which a search by size alone sees no end.

How far the end is at the least is told by the term (`lengths`).  A search that adds that to what is written finds a
shortest word among few states (A*); one that heeds it more than what is written finds some word among fewer still.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush

from grammars.regular.alphabets import within_letters
from grammars.regular.languages import (
    MAX_CODE_POINT,
    NONE,
    UNKNOWN,
    Regular,
    Spent,
    Unknown,
    derive,
    lengths,
    rep,
    representatives,
    shortest,
    spend,
)
from grammars.regular.terms import cat, inter

__all__ = ["directed", "widened"]

_HASTE = 1_000  # characters that one nearer to the end is worth, where any word will do
_WORK_A_STATE = 100  # parts of terms that cost as much as to look at a state


def directed(term: Regular, budget: int, *, hasty: bool = False, last: int = MAX_CODE_POINT) -> str | Unknown | None:
    """A shortest word, if ``hasty`` any word; None when there is none at all.

    `UNKNOWN` past ``budget`` states, past all work, or where only words with a letter beyond ``last`` are left: those
    are not looked at.
    """
    try:
        return _directed(within_letters(term), budget, hasty, last)
    except Spent:
        return UNKNOWN


@lru_cache(maxsize=2_000)
def _directed(start: Regular, budget: int, hasty: bool, last: int) -> str | Unknown | None:
    """Raises `Spent`, which is not kept."""
    reached: dict[Regular, tuple[Regular, int] | None] = {start: None}
    depths = {start: 0}
    #: Cost and size, depth below 0, number, state, and its characters that are left: one is tried at a time, since
    #: on a straight path the first of each state is enough.  Of equals the deepest comes first, then the friendliest.
    heap: list[tuple[int, int, int, int, Regular, Iterator[int] | None]] = [(lengths(start)[0], 0, 0, 0, start, None)]
    numbers, is_all = itertools.count(1), True
    while heap:
        cost, size, above, number, state, left = heappop(heap)
        if -above > depths[state]:
            continue  # a shorter way there was found since
        if left is None:
            word = _ended(reached, state, last)
            if word is not None:
                return word
            spend(_WORK_A_STATE)
            left = iter(representatives(state))
        spend(state.size)
        code = next(left, None)
        if code is None:
            continue
        heappush(heap, (cost, size, above, number, state, left))
        if code > last:
            is_all = False
            continue
        following = derive(state, code)
        if following == NONE or depths.get(following, 2 - above) <= 1 - above:
            continue
        if len(reached) >= budget:
            return UNKNOWN
        reached[following], depths[following] = (state, code), 1 - above
        ahead, size = (_together(following) * _HASTE, following.size) if hasty else (lengths(following)[0], 0)
        heappush(heap, (ahead - above + 1, size, above - 1, next(numbers), following, None))
    return None if is_all else UNKNOWN


def _ended(reached: dict[Regular, tuple[Regular, int] | None], state: Regular, last: int) -> str | None:
    """The word by which a state ends, where that is known at sight."""
    if state.nullable:
        return _path(reached, state)
    rest = shortest(state) if state.plain else None
    if isinstance(rest, str) and all(ord(char) <= last for char in rest):
        return _path(reached, state) + rest
    return None


def _together(term: Regular) -> int:
    """How far all parts together are from their ends: parts that meet seldom come nearer by the same character."""
    return sum(lengths(part)[0] for part in term.args) if term.op == "and" else lengths(term)[0]


def _path(reached: dict[Regular, tuple[Regular, int] | None], state: Regular) -> str:
    """What is written on the way to a state."""
    found: list[str] = []
    while (step := reached[state]) is not None:
        state = step[0]
        found.append(chr(step[1]))
    return "".join(reversed(found))


def widened(term: Regular) -> Iterator[Regular]:
    """Languages that hold all of ``term`` and do not count as it does: without its most and least, without its most.

    A count beside another pattern makes of each of its states as many as it counts.  A shortest word of such a
    language that is in ``term`` is a shortest one there.
    """
    before = {term}
    for keeps_least in (False, True):
        parts = term.args if term.op == "and" else (term,)
        wider = inter(*(_uncounted(part, keeps_least) for part in parts))
        if wider not in before:
            before.add(wider)
            yield wider


def _uncounted(part: Regular, keeps_least: bool) -> Regular:
    """A repeat, or one in quotes, without its bounds; another term as it is."""
    if part.op == "rep":
        body, least, _ = part.args
        return rep(body, least if keeps_least else min(least, 1), None)
    if part.op == "cat" and len(part.args) == 3 and part.args[1].op == "rep":
        begin, middle, end = part.args
        return cat(begin, _uncounted(middle, keeps_least), end)
    return part
