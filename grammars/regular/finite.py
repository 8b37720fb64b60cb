"""The words of a finite language that has few."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from grammars.limits.schema_limits import with_deadline
from grammars.limits.work import TooMuch
from grammars.regular.languages import lengths
from grammars.regular.terms import Regular, matches

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
    raise TooMuch


def _pairs(ones: frozenset[str], twos: frozenset[str], most: int) -> frozenset[str]:
    return _no_more((one + two for one in ones for two in twos), most)


def _no_more(words: Iterable[str], most: int) -> frozenset[str]:
    taken: set[str] = set()
    for word in words:
        taken.add(word)
        if len(taken) > most:
            raise TooMuch
    return frozenset(taken)
