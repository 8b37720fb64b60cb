"""An upper bound on the steps that a backtracking regex engine takes: `backtracking_steps(pattern, length)`.

Python's ``re`` cannot be interrupted, so callers check a client's pattern here before they run it.  The bound counts
in how many ways the parts of a pattern may be laid over a text before the engine gives up.  A repeat has one way only
if nothing that may follow it begins with a character that it repeats; otherwise as many as it has possible ends, and
repeats in a row multiply theirs.  A small bound proves a quick match; a large one does not prove a slow match.
"""

from __future__ import annotations

import math
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]  # the only way to a pattern's tree
from typing import Any, NamedTuple

__all__ = ["backtracking_steps", "no_nested_set_warnings"]

_WITHOUT_END = 1e18
_ASCII = (1 << 128) - 1
_ALL = _ASCII << 1 | 1  # the lowest bit represents every non-ASCII character
_DEEPEST = 60  # nested groups that are followed; beyond, the worst is assumed

#: The characters of a category: bits as in `_bit`.
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


#: Constructs of which ``re`` warns that they may become nested sets one day.
_NESTED = re.compile(r"\[\[|--|&&|~~|\|\|")
_quiet = threading.RLock()


@contextmanager
def no_nested_set_warnings(*patterns: str) -> Iterator[None]:
    """Suppress the FutureWarning of ``re`` about nested sets: a client's pattern is no concern of the user's.

    Warning filters are process-wide, so they are changed only for a pattern with such a construct, by one thread at a
    time.
    """
    if not any(map(_NESTED.search, patterns)):
        yield
        return
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


class _Part(NamedTuple):
    """``ways``: the number of ways to match a part from one position; ``work``: the steps that all of them take.

    ``first``: the characters that it may begin with; ``nullable``: it may match nothing.
    """

    ways: float
    work: float
    first: int
    nullable: bool


@lru_cache(maxsize=4_096)
def backtracking_steps(pattern: str, length: int, *, search: bool = True) -> float:
    """An upper bound, up to a factor, on the steps over a text of ``length``; ``search``: from each position of it.

    0.0 for a pattern that ``re`` refuses: it does so at once.
    """
    try:
        with no_nested_set_warnings(pattern):
            tree = _parser.parse(pattern)
    except (re.error, OverflowError):
        return 0.0
    except RecursionError:
        return math.inf
    items = list(tree)
    found = _Count(length, blind=bool(tree.state.flags & re.IGNORECASE)).sequence(items, 0)
    anchored = not search or (bool(items) and items[0] == (_constants.AT, _constants.AT_BEGINNING))
    return found.work if anchored else found.work * max(length, 1)


class _Count:
    """One walk over a pattern's tree.  ``blind``: characters are not distinguished, because case is ignored."""

    def __init__(self, length: int, *, blind: bool) -> None:
        self.length = max(length, 1)
        self.blind = blind
        self.depth = 0

    def sequence(self, items: Sequence[Any], follow: int) -> _Part:
        """The items in sequence, before characters in ``follow`` (0: before the end, where any match is final)."""
        self.depth += 1
        parts: list[_Part] = []
        first, nullable = 0, True
        after = follow
        for op, argument in reversed(items):
            part = self._item(str(op), op, argument, after)
            parts.append(part)
            after = part.first | (after if part.nullable else 0)
            first = part.first | (first if part.nullable else 0)
            nullable = nullable and part.nullable
        ways, work = 1.0, 1.0
        for part in reversed(parts):
            work = min(work + ways * part.work, _WITHOUT_END)
            ways = min(ways * part.ways, _WITHOUT_END)
        self.depth -= 1
        return _Part(ways, work, first, nullable)

    def _item(self, name: str, op: Any, argument: Any, follow: int) -> _Part:
        if self.depth > _DEEPEST:
            return _Part(_WITHOUT_END, _WITHOUT_END, _ALL, True)
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return _Part(1.0, 1.0, _ALL if self.blind else _characters(name, argument), False)
            case "AT":
                ends = argument in (_constants.AT_END, _constants.AT_END_STRING)
                return _Part(1.0, 1.0, 0, not ends)
            case "SUBPATTERN":
                _, added, removed, body = argument
                return self._flagged(body, follow) if added or removed else self.sequence(body, follow)
            case "ATOMIC_GROUP":
                return self.sequence(argument, follow)._replace(ways=1.0)
            case "ASSERT" | "ASSERT_NOT":
                return _Part(1.0, self.sequence(argument[1], 0).work, 0, True)
            case "BRANCH":
                return _choice([self.sequence(option, follow) for option in argument[1]])
            case "GROUPREF_EXISTS":
                return _choice([self.sequence(option, follow) for option in argument[1:] if option is not None], True)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(argument, follow)
            case "POSSESSIVE_REPEAT":
                return self._repeat(argument, follow)._replace(ways=1.0)
        return _Part(1.0, float(self.length), _ALL, True)  # a group read before: any text

    def _begin(self, items: Sequence[Any]) -> tuple[int, bool]:
        """The characters that the items may begin with, and whether they may match nothing; counts no work."""
        first = 0
        for op, argument in items:
            own, nullable = self._begins(str(op), argument)
            first |= own
            if not nullable:
                return first, False
        return first, True

    def _begins(self, name: str, argument: Any) -> tuple[int, bool]:
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return _ALL if self.blind else _characters(name, argument), False
            case "AT" | "ASSERT" | "ASSERT_NOT":
                return 0, True
        bodies = _bodies(name, argument)
        if not bodies or (name == "SUBPATTERN" and (argument[1] or argument[2])):
            return _ALL, True
        each = [self._begin(body) for body in bodies]
        first = 0
        for own, _ in each:
            first |= own
        optional = name.endswith("REPEAT") and argument[0] == 0
        return first, optional or any(nullable for _, nullable in each)

    def _flagged(self, body: Sequence[Any], follow: int) -> _Part:
        before, self.blind = self.blind, True
        try:
            return self.sequence(body, follow)
        finally:
            self.blind = before

    def _repeat(self, argument: tuple[int, Any, Sequence[Any]], follow: int) -> _Part:
        least, most, items = argument
        many = self.length if most is _constants.MAXREPEAT else min(int(most), max(self.length, int(least)))
        once = self.sequence(items, self._begin(items)[0] | follow if many > 1 else follow)
        nullable = least == 0 or once.nullable
        if once.ways > 1 and many > 0:
            if many * math.log(once.ways) > math.log(_WITHOUT_END):
                return _Part(_WITHOUT_END, _WITHOUT_END, once.first, nullable)
            ways = once.ways**many * (1 if least >= many else 2)
            return _Part(ways, ways * once.work * many, once.first, nullable)
        is_clear = not once.nullable and not once.first & follow
        ends = 1 if is_clear else max(many - least, 0) + 1
        return _Part(float(ends), max(many, 1) * once.work, once.first, nullable)


def _bodies(name: str, argument: Any) -> list[Sequence[Any]]:
    """The sequences inside an item that is not a character."""
    match name:
        case "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [argument[-1]]
        case "ATOMIC_GROUP":
            return [argument]
        case "BRANCH":
            return list(argument[1])
    return []


def _choice(parts: Sequence[_Part], nullable: bool = False) -> _Part:
    """One of the parts; the first character selects it if no two parts begin alike."""
    seen, clear = 0, not nullable
    for part in parts:
        clear = clear and not part.nullable and not part.first & seen
        seen |= part.first
    ways = [part.ways for part in parts] or [1.0]
    is_nullable = nullable or any(part.nullable for part in parts)
    work = min(sum(part.work for part in parts), _WITHOUT_END)
    return _Part(max(ways) if clear else min(sum(ways), _WITHOUT_END), work, seen, is_nullable)


# -- characters


def _characters(name: str, argument: Any) -> int:
    """The characters of a class, as bits."""
    match name:
        case "LITERAL":
            return _bits(argument, argument)
        case "NOT_LITERAL":
            return _ALL & ~_bits(argument, argument) | 1
        case "ANY":
            return _ALL
    found, negated = 0, False
    for op, value in argument:
        match str(op):
            case "NEGATE":
                negated = True
            case "LITERAL":
                found |= _bits(value, value)
            case "RANGE":
                found |= _bits(*value)
            case "CATEGORY":
                found |= _category(str(value))
            case _:
                return _ALL
    return _ALL & ~found | 1 if negated else found


def _bits(low: int, high: int) -> int:
    beyond = 1 if high >= 128 else 0
    high = min(high, 127)
    return beyond if low > high else beyond | ((1 << (high - low + 1)) - 1) << (low + 1)


@lru_cache(maxsize=16)
def _category(name: str) -> int:
    if name not in _CATEGORIES:
        return _ALL
    fits = re.compile(_CATEGORIES[name]).match
    return sum(2 << code for code in range(128) if fits(chr(code))) | 1
