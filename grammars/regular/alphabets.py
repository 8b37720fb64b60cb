"""The characters that words of a language may contain, and the language restricted to an alphabet.

Most disjoint languages differ in their characters: one needs a character that the other never has.  That is found
here without a search, which would first enumerate the other's repeats.
"""

from __future__ import annotations

from functools import lru_cache

from grammars.regular.terms import (
    ALL,
    ANY,
    EPS,
    MAX_CODE_POINT,
    Ranges,
    Regular,
    alt,
    cat,
    chars,
    inter,
    rep,
    words,
)

__all__ = ["restricted_to_alphabet"]

_EVERY: Ranges = ANY.args
_ALL_OF_TEXT: Ranges = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
_ROUNDS = 4  # cutting one part may remove further characters from the others


def restricted_to_alphabet(term: Regular) -> Regular:
    """Return the same language; the parts of an intersection are cut down to the characters that they share."""
    for _ in range(_ROUNDS):
        letters = _letters(term)
        if term.op != "and" or letters in (_EVERY, _ALL_OF_TEXT):
            return term
        cut = inter(*(_cut(part, letters) for part in term.args))
        if cut == term:
            return term
        term = cut
    return term


@lru_cache(maxsize=4_096)
def _letters(term: Regular) -> Ranges:
    """Return a superset of the characters that occur in words of the language."""
    match term.op:
        case "chars":
            ranges: Ranges = term.args
            return ranges
        case "words":
            return _merged(tuple((ord(c), ord(c)) for c in set("".join(term.args))))
        case "not":
            return _EVERY
        case "rep":
            return _letters(term.args[0])
        case "and":
            letters = _EVERY
            for part in term.args:
                letters = _shared(letters, _letters(part))
            return letters
    return _merged(tuple(r for part in term.args for r in _letters(part)))


def _merged(ranges: Ranges) -> Ranges:
    merged: Ranges = chars(ranges).args if ranges else ()
    return merged


def _shared(one: Ranges, two: Ranges) -> Ranges:
    """Return the characters in both, in one pass."""
    if one == _EVERY or two == _EVERY:
        return two if one == _EVERY else one
    out: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(two):
        low, high = max(one[i][0], two[j][0]), min(one[i][1], two[j][1])
        if low <= high:
            out.append((low, high))
        if one[i][1] < two[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


@lru_cache(maxsize=8_192)
def _cut(term: Regular, letters: Ranges) -> Regular:
    """Return the words that contain only characters of ``letters``; a complement is returned unchanged."""
    match term.op:
        case "chars":
            return chars(_shared(term.args, letters))
        case "words":
            return words(w for w in term.args if all(any(a <= ord(c) <= b for a, b in letters) for c in w))
        case "cat":
            return cat(*(_cut(part, letters) for part in term.args)) if term.args else EPS
        case "alt":
            return alt(*(_cut(part, letters) for part in term.args))
        case "and":
            return inter(*(_cut(part, letters) for part in term.args))
        case "not":
            return term
    body, least, most = term.args
    return term if term == ALL else rep(_cut(body, letters), least, most)
