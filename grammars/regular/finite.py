"""The words of a finite language that has few."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from grammars.limits.schema_limits import check_deadline, with_deadline
from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.languages import NONE, Regular, lengths, matches
from grammars.regular.terms import derivative_classes, derive

__all__ = ["count_words", "finite_words"]

_MAX_KEYS = 3_000  # more keys in one object are not expected


@lru_cache(maxsize=2_000)
def finite_words(language: Regular, most: int) -> frozenset[str] | None:
    """Return all words of the language; None if there may be more than ``most``."""
    if lengths(language)[1] is None:
        return None
    try:
        return _words(language, most)
    except TooMuch:
        return None


def count_words(languages: Iterable[Regular], most: int = _MAX_KEYS) -> int | None:
    """Return how many different words the languages have together; None if there may be more than ``most``."""
    every: set[str] = set()
    for language in languages:
        words = finite_words(language, most)
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
                raise TooMuch
            return frozenset(chr(code) for low, high in language.args for code in range(low, high + 1))
        case "words":
            return _no_more(language.args, most)
        case "alt":
            return _no_more((word for part in language.args for word in _words(part, most)), most)
        case "cat":
            products = frozenset(("",))
            for part in language.args:
                products = _pairs(products, _words(part, most), most)
            return products
        case "rep":
            body, least, times = language.args
            if times is None:
                raise TooMuch
            body_words = _words(body, most)
            last = frozenset(("",))
            every = set() if least else {""}
            for time in range(1, times + 1):
                longer = _pairs(last, body_words, most)
                if time >= least:
                    if longer <= every:
                        break
                    every |= longer
                    if len(every) > most:
                        raise TooMuch
                last = longer
            return _no_more(every, most)
        case "and":
            finite = [part for part in language.args if lengths(part)[1] is not None]
            for part in finite:
                words = finite_words(part, most)
                if words is not None:
                    return frozenset(word for word in with_deadline(words) if matches(language, word))
            return _searched(language, most)
    raise TooMuch


def _searched(language: Regular, most: int) -> frozenset[str]:
    """Enumerate by derivatives: for an intersection whose parts each have more words than it has.

    Raises `SchemaError` past the deadline.
    """
    edges = _automaton(language)
    alive = _alive(edges)
    words: set[str] = set()
    level = [(language, "")] if language in alive else []
    spelled = Work(WORK.spelled)
    while level:
        check_deadline()
        longer: list[tuple[Regular, str]] = []
        for term, word in level:
            if term.nullable:
                words.add(word)
            for low, high, after in edges[term]:
                if after not in alive:
                    continue
                if high - low >= most:
                    raise TooMuch
                longer += [(after, word + chr(code)) for code in range(low, high + 1)]
            if len(words) + len(longer) > most:  # each of them leads to a word of its own
                raise TooMuch
            spelled.spend(len(word) + 1)
        level = longer
    return frozenset(words)


_Edges: TypeAlias = dict[Regular, list[tuple[int, int, Regular]]]


def _automaton(language: Regular) -> _Edges:
    """Return the edges of every reachable state: (first code point, last code point, next state)."""
    edges: _Edges = {}
    todo = [language]
    work = Work(WORK.enumeration)
    while todo:
        term = todo.pop()
        if term in edges:
            continue
        edges[term] = []
        for low, high in derivative_classes(term):
            check_deadline()
            work.spend(term.size)
            after = derive(term, low)
            if after != NONE:
                edges[term].append((low, high, after))
                todo.append(after)
    return edges


def _alive(edges: _Edges) -> set[Regular]:
    """Return the states from which a word can be completed."""
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
    taken: set[str] = set()
    for word in words:
        taken.add(word)
        if len(taken) > most:
            raise TooMuch
    return frozenset(taken)
