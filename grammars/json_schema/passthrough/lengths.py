"""Patterns combined with lengths, for the engine's own compiler.

The engine checks whether a pattern and a length leave any string, and gives up on many patterns:
``^[a-z]+(\\.[a-z]+)+$`` with a ``maxLength`` of 100 is refused.  So a length is merged into the pattern where
possible, and stays next to those patterns that the engine was seen to decide; all others need our own grammar.
"""

from __future__ import annotations

from grammars.json_schema.passthrough.patterns import (
    EnginePattern,
    engine_pattern,
    pattern_of_language,
    without_padded_repeats,
)
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
    lru_cache_in_budget,
    ranges_minus,
    rep,
    words,
)
from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.regular.syntax.ecma import has_disputed_boundaries, language
from grammars.regular.syntax.ecma_parser import has_disputed_case

__all__ = ["is_decided_by_engine", "pattern_next_to_length", "pattern_with_length"]

_FEW_WORDS = 4  # of a choice, tried one by one
_MOST_WORDS = 100  # that a pattern counts
_MOST_OF_WORDS = 10_000  # characters that they may have together
_LONGEST_DECIDED = 30  # characters of a shortest word up to which the engine still finds that something is left
_LARGEST_LEAST = 20  # largest minLength that was tested with a single class


@lru_cache_in_budget(4_096)
def pattern_with_length(pattern: str, least: int, most: int | None) -> EnginePattern | None:
    """Return a pattern with a length merged into it, where one class repeats and the rest has a fixed length.

    None if it is not that simple.
    """
    try:
        if has_disputed_boundaries(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None
        options = [
            _fitted(option, least, most) for option in _split_by_words(without_padded_repeats(language(pattern)))
        ]
    except ValueError:
        return None
    fitting = [option for option in options if option is not None]
    return pattern_of_language(alt(*fitting)) if len(fitting) == len(options) else None


def _split_by_words(term: Regular) -> list[Regular]:
    """A term as options in which all words of a choice have the same length."""
    if term.op == "alt":
        return [one for option in term.args for one in _split_by_words(option)]
    at = next((at for at, part in enumerate(term.args) if _has_sizes(part)), None) if term.op == "cat" else None
    if at is None:
        return [term]
    before, after = term.args[:at], term.args[at + 1 :]
    return [one for word in sorted(term.args[at].args) for one in _split_by_words(cat(*before, words({word}), *after))]


def _has_sizes(part: Regular) -> bool:
    return part.op == "words" and 1 < len(part.args) <= _FEW_WORDS and len(set(map(len, part.args))) > 1


def _fitted(term: Regular, least: int, most: int | None) -> Regular | None:
    """The words within these lengths; None if more than one part has a variable length."""
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


@lru_cache_in_budget(4_096)
def pattern_next_to_length(pattern: str, least: int, most: int | None) -> EnginePattern | None:
    """Return a pattern that may stay next to the lengths; None if the engine might not decide both together."""
    if is_decided_by_engine(pattern, least, most):
        return engine_pattern(pattern)
    try:
        if has_disputed_boundaries(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None
        term = language(pattern)
    except ValueError:
        return None
    taken = _absorbed(term)
    return pattern_of_language(taken) if taken != term and _is_decided(taken, least, most) else None


def _absorbed(term: Regular) -> Regular:
    """The same language with a repeat reduced next to a wider class: ``[0-9]+.*`` becomes ``[0-9].*``."""
    parts = list(term.args) if term.op == "cat" else [term]
    for at, part in enumerate(parts):
        neighbours = [parts[i] for i in (at - 1, at + 1) if 0 <= i < len(parts)]
        if part.op == "rep" and part.args[0].op == "chars" and any(_takes_all(one, part.args[0]) for one in neighbours):
            body, least, _ = part.args
            parts[at] = rep(body, least, least) if least else EPS
    return cat(*(part for part in parts if part != EPS))


def _takes_all(part: Regular, one: Regular) -> bool:
    """Whether a part repeats a superset of a class, any number of times."""
    is_open = part.op == "rep" and part.args[0].op == "chars" and part.args[1:] == (0, None)
    return is_open and not ranges_minus(one.args, part.args[0].args)


@lru_cache_in_budget(4_096)
def is_decided_by_engine(pattern: str, least: int, most: int | None) -> bool:
    """Whether the engine surely finds that the pattern and the lengths leave some string.

    It did for 50,717 patterns of a single class anywhere, for 75,795 whose parts are distinguished by their first
    characters, and for 87,625 with a maximum number of words, all random, with lengths that their shortest word
    meets.  It failed for 671 of 11,609 with longer shortest words than allowed here, and for some with a minimum
    number of words.
    """
    try:
        return _is_decided(language(pattern), least, most)
    except ValueError:
        return False


def _is_decided(term: Regular, least: int, most: int | None) -> bool:
    parts: tuple[Regular, ...] = term.args if term.op == "cat" else (term,)
    size = lengths(term)[0]
    if most is not None and most < max(size, least):
        return False
    if len(parts) == 3 and parts[0] == parts[2] == ALL and _class_of(parts[1]) is not None:
        return least <= _LARGEST_LEAST
    if _are_words(term):
        return least <= 1 and most is not None and most <= _MOST_OF_WORDS
    return least <= size <= _LONGEST_DECIDED and _is_separated(parts)


def _are_words(term: Regular) -> bool:
    """Whether the term is a maximum number of words with separators, or nothing: ``^(\\S+\\s+){0,9}\\S+$``."""
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
    """A class, or the class of one-character words; None for another part."""
    if part.op == "words" and all(len(word) == 1 for word in part.args):
        return chars([(ord(word), ord(word)) for word in part.args])
    return part if part.op == "chars" else None


def _is_separated(parts: tuple[Regular, ...]) -> bool:
    """Whether each class ends where the next part begins, all but the last of them within ASCII.

    After them there may be an optional repeated group of parts.
    """
    leading = parts[:-1] if parts and _is_tail(parts[-1]) else parts
    return all(_ends_before(part, parts[at + 1 :]) for at, part in enumerate(leading))


def _is_tail(part: Regular) -> bool:
    """Whether a part is an optional repeat of a word followed by words and classes."""
    if part.op != "rep" or part.args[1] or part.args[0].op != "cat":
        return False
    first, *rest = part.args[0].args
    classes = [_class_of(other) for other in rest if other.op != "words"]
    return first.op == "words" and all(own is not None and own.args[-1][1] <= 0x7F for own in classes)


def _ends_before(part: Regular, following: tuple[Regular, ...]) -> bool:
    """Whether a part is one word, or a class that the following parts do not begin with."""
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
    """The first characters of a word, a class or a tail."""
    begun = part.args[0].args[0] if _is_tail(part) else part
    return chars([(ord(word[0]), ord(word[0])) for word in begun.args]) if begun.op == "words" else _class_of(begun)


def _class_of(part: Regular) -> Regular | None:
    """The class that a part repeats, or is; None for another part."""
    while part.op == "rep" and (part.args[0].op == "chars" or part.args[1:] == (0, 1)):
        part = part.args[0]
    return part if part.op == "chars" else None
