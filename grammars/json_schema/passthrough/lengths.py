"""Patterns beside lengths, for the engine's own compiler.

There it asks whether the two leave anything, and of many patterns it gives up on asking: ``^[a-z]+(\\.[a-z]+)+$``
beside a ``maxLength`` of 100 is refused.  So a length goes into the pattern where it can, and stays beside those
patterns that the engine was seen to see through; of all others our own grammar is made.
"""

from __future__ import annotations

from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.json_schema.passthrough.patterns import EnginePattern, engine_pattern, trimmed, written_pattern
from grammars.regular.syntax.ecma import has_borders, language
from grammars.regular.syntax.ecma_parser import has_disputed_case
from grammars.regular.languages import (
    ALL,
    EPS,
    NONE,
    Regular,
    alt,
    cat,
    chars,
    disjoint,
    lengths,
    ranges_minus,
    remembered,
    rep,
    words,
)

__all__ = ["fitted_pattern", "is_seen_through", "kept_pattern"]

_FEW_WORDS = 4  # of a choice that are looked at one by one
_MOST_WORDS = 100  # that a pattern counts, and the characters that they may have together
_MOST_OF_WORDS = 10_000
_LONGEST_TOLD = 30  # characters of a shortest word behind which the engine still sees that something is left
_LEAST_TRIED = 20  # characters beside a single class


@remembered(4_096)
def fitted_pattern(pattern: str, least: int, most: int | None) -> EnginePattern | None:
    """A pattern and a length as one pattern: where one class comes any number of times and the rest is of one size.

    None where it is not so simple.
    """
    try:
        if has_borders(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None
        options = [_fitted(option, least, most) for option in _told_by_words(trimmed(language(pattern)))]
    except ValueError:
        return None
    fitting = [option for option in options if option is not None]
    return written_pattern(alt(*fitting)) if len(fitting) == len(options) else None


def _told_by_words(term: Regular) -> list[Regular]:
    """A term as options in which the words of a choice are all of one size."""
    if term.op == "alt":
        return [one for option in term.args for one in _told_by_words(option)]
    at = next((at for at, part in enumerate(term.args) if _has_sizes(part)), None) if term.op == "cat" else None
    if at is None:
        return [term]
    before, after = term.args[:at], term.args[at + 1 :]
    return [one for word in sorted(term.args[at].args) for one in _told_by_words(cat(*before, words({word}), *after))]


def _has_sizes(part: Regular) -> bool:
    return part.op == "words" and 1 < len(part.args) <= _FEW_WORDS and len(set(map(len, part.args))) > 1


def _fitted(term: Regular, least: int, most: int | None) -> Regular | None:
    """The words of these lengths; None where more than one class comes any number of times."""
    parts = list(term.args) if term.op == "cat" else [term]
    sizes = [lengths(part) for part in parts]
    fixed = sum(low for low, high in sizes if low == high)
    loose = [at for at, (low, high) in enumerate(sizes) if low != high]
    if not loose:
        return term if least <= fixed and (most is None or fixed <= most) else NONE
    if len(loose) > 1 or parts[loose[0]].op != "rep" or parts[loose[0]].args[0].op != "chars":
        return None
    body, low, high = parts[loose[0]].args
    low = max(low, least - fixed)
    if most is not None:
        high = most - fixed if high is None else min(high, most - fixed)
    if high is not None and high < low:
        return NONE
    parts[loose[0]] = rep(body, low, high)
    return cat(*parts)


@remembered(4_096)
def kept_pattern(pattern: str, least: int, most: int | None) -> EnginePattern | None:
    """A pattern for the engine beside which the lengths can stay; None where it might not see through both."""
    if is_seen_through(pattern, least, most):
        return engine_pattern(pattern)
    try:
        if has_borders(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None
        term = language(pattern)
    except ValueError:
        return None
    taken = _absorbed(term)
    return written_pattern(taken) if taken != term and _sees_through(taken, least, most) else None


def _absorbed(term: Regular) -> Regular:
    """The same language without what a repeat takes from the wider class beside it: ``[0-9]+.*`` is ``[0-9].*``."""
    parts = list(term.args) if term.op == "cat" else [term]
    for at, part in enumerate(parts):
        beside = [parts[i] for i in (at - 1, at + 1) if 0 <= i < len(parts)]
        if part.op == "rep" and part.args[0].op == "chars" and any(_takes_all(one, part.args[0]) for one in beside):
            body, least, _ = part.args
            parts[at] = rep(body, least, least) if least else EPS
    return cat(*(part for part in parts if part != EPS))


def _takes_all(part: Regular, one: Regular) -> bool:
    """Does a part repeat any letters of a class, from none to any number?"""
    is_open = part.op == "rep" and part.args[0].op == "chars" and part.args[1:] == (0, None)
    return is_open and not ranges_minus(one.args, part.args[0].args)


@remembered(4_096)
def is_seen_through(pattern: str, least: int, most: int | None) -> bool:
    """Does the engine surely find out that the pattern and the lengths leave something?

    It did of 50,717 patterns of a single letter anywhere, of 75,795 whose parts are told apart, and of 87,625 of at
    most so many words, put together at random with lengths that their shortest word fits; not of 671 of 11,609 whose
    shortest words are longer than here, nor of some that ask for several words at the least.
    """
    try:
        return _sees_through(language(pattern), least, most)
    except ValueError:
        return False


def _sees_through(term: Regular, least: int, most: int | None) -> bool:
    parts: tuple[Regular, ...] = term.args if term.op == "cat" else (term,)
    size = lengths(term)[0]
    if most is not None and most < max(size, least):
        return False
    if len(parts) == 3 and parts[0] == parts[2] == ALL and _class_of(parts[1]) is not None:
        return least <= _LEAST_TRIED
    if _are_words(term):
        return least <= 1 and most is not None and most <= _MOST_OF_WORDS
    return least <= size <= _LONGEST_TOLD and _is_told_apart(parts)


def _are_words(term: Regular) -> bool:
    r"""At most so many words and what is between them, or nothing: ``^(\S+\s+){0,9}\S+$``?"""
    if term.op == "alt" and len(term.args) == 2 and EPS in term.args:
        term = next(option for option in term.args if option != EPS)
    if term.op != "cat" or len(term.args) != 2 or not all(part.op == "rep" for part in term.args):
        return False
    (body, least, most), last = term.args[0].args, term.args[1]
    if least or most is None or most > _MOST_WORDS or body.op != "cat" or len(body.args) != 2 or body.args[0] != last:
        return False
    one, two = (
        _letters(part.args[0]) if part.op == "rep" and part.args[1:] == (1, None) else None for part in body.args
    )
    return one is not None and two is not None and disjoint(one, two)


def _letters(part: Regular) -> Regular | None:
    """A class, or the class of words that are letters; None of another part."""
    if part.op == "words" and all(len(word) == 1 for word in part.args):
        return chars([(ord(word), ord(word)) for word in part.args])
    return part if part.op == "chars" else None


def _is_told_apart(parts: tuple[Regular, ...]) -> bool:
    """Does each class end where the next part begins, all of ASCII but the last of them?

    Behind them there may be a row of parts that comes any number of times, or not at all.
    """
    leading = parts[:-1] if _is_tail(parts[-1]) else parts
    return all(_ends_before(part, parts[at + 1 :]) for at, part in enumerate(leading))


def _is_tail(part: Regular) -> bool:
    """Is a part a row of a word and classes that comes any number of times, or not at all?"""
    if part.op != "rep" or part.args[1] or part.args[0].op != "cat":
        return False
    first, *rest = part.args[0].args
    classes = [_class_of(other) for other in rest if other.op != "words"]
    return first.op == "words" and all(own is not None and own.args[-1][1] <= 0x7F for own in classes)


def _ends_before(part: Regular, following: tuple[Regular, ...]) -> bool:
    """Is a part one word, or a class that what follows does not begin with?"""
    if part.op == "words":
        return len(part.args) == 1
    own = _class_of(part)
    if own is None or (following and own.args[-1][1] > 0x7F):
        return False
    low, high = lengths(part)
    if low == high:
        return True
    for other in following:
        first = _first_of(other)
        if first is None or not disjoint(own, first):
            return False
        if lengths(other)[0]:
            return True
    return True


def _first_of(part: Regular) -> Regular | None:
    """What a word, a class or a tail begins with."""
    begun = part.args[0].args[0] if _is_tail(part) else part
    return chars([(ord(word[0]), ord(word[0])) for word in begun.args]) if begun.op == "words" else _class_of(begun)


def _class_of(part: Regular) -> Regular | None:
    """The class that a part repeats, or is; None of another part."""
    while part.op == "rep" and (part.args[0].op == "chars" or part.args[1:] == (0, 1)):
        part = part.args[0]
    return part if part.op == "chars" else None
