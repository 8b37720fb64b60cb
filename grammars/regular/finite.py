"""The words of a language that has few."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from grammars.limits.schema_limits import check_deadline, timely
from grammars.regular.languages import NONE, Regular, lengths, matches
from grammars.regular.terms import alike, derive

__all__ = ["few_words", "number_of_words"]

_MOST_KEYS = 3_000  # nobody writes more of them into one object
_MOST_WORK = 40_000  # parts of terms that one search looks at: a tenth of a second
_MOST_SPELLED = 1_000_000  # characters of all words that it begins, those that grow longer counted anew


class _TooMany(Exception):
    """More words than are looked at."""


@lru_cache(maxsize=2_000)
def few_words(language: Regular, most: int) -> frozenset[str] | None:
    """All words of the language; None where they may be more than ``most``."""
    if lengths(language)[1] is None:
        return None
    try:
        return _words(language, most)
    except _TooMany:
        return None


def number_of_words(languages: Iterable[Regular], most: int = _MOST_KEYS) -> int | None:
    """How many words the languages have together; None where they may be more than ``most``."""
    every: set[str] = set()
    for language in languages:
        words = few_words(language, most)
        if words is None:
            return None
        every |= words
        if len(every) > most:
            return None
    return len(every)


def _words(language: Regular, most: int) -> frozenset[str]:
    match language.op:
        case "chars":
            if sum(high - low + 1 for low, high in language.args) > most:
                raise _TooMany
            return frozenset(chr(code) for low, high in language.args for code in range(low, high + 1))
        case "words":
            return _no_more(language.args, most)
        case "alt":
            return _no_more((word for part in language.args for word in _words(part, most)), most)
        case "cat":
            found = frozenset(("",))
            for part in language.args:
                found = _pairs(found, _words(part, most), most)
            return found
        case "rep":
            body, least, times = language.args
            if times is None:
                raise _TooMany
            one = _words(body, most)
            last = frozenset(("",))
            every = set() if least else {""}
            for time in range(1, times + 1):
                longer = _pairs(last, one, most)
                if time >= least:
                    if longer <= every:
                        break
                    every |= longer
                    if len(every) > most:
                        raise _TooMany
                last = longer
            return _no_more(every, most)
        case "and":
            finite = [part for part in language.args if lengths(part)[1] is not None]
            for part in finite:
                words = few_words(part, most)
                if words is not None:
                    return frozenset(word for word in timely(words) if matches(language, word))
            return _searched(language, most)
    raise _TooMany


def _searched(language: Regular, most: int) -> frozenset[str]:
    """The words of a language by its derivatives, for those whose parts have more words than they have together.

    Raises `SchemaError` past the deadline.
    """
    edges = _automaton(language)
    alive = _alive(edges)
    found: set[str] = set()
    level = [(language, "")] if language in alive else []
    spelled = 0
    while level:
        check_deadline()
        longer: list[tuple[Regular, str]] = []
        for term, word in level:
            if term.nullable:
                found.add(word)
            for low, high, after in edges[term]:
                if after not in alive:
                    continue
                if high - low >= most:
                    raise _TooMany
                longer += [(after, word + chr(code)) for code in range(low, high + 1)]
            if len(found) + len(longer) > most:  # each of them leads to a word of its own
                raise _TooMany
            spelled += len(word) + 1
        if spelled > _MOST_SPELLED:
            raise _TooMany
        level = longer
    return frozenset(found)


_Edges: TypeAlias = dict[Regular, list[tuple[int, int, Regular]]]


def _automaton(language: Regular) -> _Edges:
    """Where the code points between two lead, from every state that can be reached."""
    edges: _Edges = {}
    todo = [language]
    work = 0
    while todo:
        term = todo.pop()
        if term in edges:
            continue
        edges[term] = []
        for low, high in alike(term):
            check_deadline()
            work += term.size
            if work > _MOST_WORK:
                raise _TooMany
            after = derive(term, low)
            if after != NONE:
                edges[term].append((low, high, after))
                todo.append(after)
    return edges


def _alive(edges: _Edges) -> set[Regular]:
    """The states from which a word can be finished."""
    before: dict[Regular, list[Regular]] = {}
    for term, several in edges.items():
        for _, _, after in several:
            before.setdefault(after, []).append(term)
    alive = {term for term in edges if term.nullable}
    todo = list(alive)
    while todo:
        for term in before.get(todo.pop(), ()):
            if term not in alive:
                alive.add(term)
                todo.append(term)
    return alive


def _pairs(ones: frozenset[str], twos: frozenset[str], most: int) -> frozenset[str]:
    return _no_more((one + two for one in ones for two in twos), most)


def _no_more(words: Iterable[str], most: int) -> frozenset[str]:
    found: set[str] = set()
    for word in words:
        found.add(word)
        if len(found) > most:
            raise _TooMany
    return frozenset(found)
