"""How soon an object may run out of keys that no schema lists, by the languages of these keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from grammars.json_schema.regular import Regular, lengths
from grammars.json_schema.states import States

__all__ = ["KeyBounds", "joined", "key_bounds", "key_bounds_of"]

_MOST_KEYS = 3_000  # nobody writes more of them into one object


class KeyBounds(NamedTuple):
    """What the languages of keys that no schema lists mean for `UniqueWatch`."""

    tight: bool = False
    fewest: int = 0


def key_bounds(states: States) -> KeyBounds:
    """The bounds of all objects together."""
    found = KeyBounds()
    for state in states.by_conj.values():
        for track in state.objects:
            for node in track.nodes:
                for edges in (node.run[0] if node.run is not None else (), *((edge,) for edge in node.edges)):
                    found = joined(found, key_bounds_of([edge.keys for edge in edges if edge.keys is not None]))
    return found


def joined(one: KeyBounds, two: KeyBounds) -> KeyBounds:
    """The bounds of a schema with both."""
    return KeyBounds(one.tight or two.tight, min(filter(None, (one.fewest, two.fewest)), default=0))


def key_bounds_of(languages: Sequence[Regular]) -> KeyBounds:
    """The bounds of an object whose further keys are of these languages."""
    if all(map(_goes_on, languages)):
        return KeyBounds()
    sizes = [_count_words(language) for language in languages]
    fewest = 0 if None in sizes else max(size for size in sizes if size is not None)
    return KeyBounds(True, max(1, fewest) if None not in sizes and fewest <= _MOST_KEYS else 0)


def _goes_on(language: Regular) -> bool:
    """Can everything that is begun be continued in endlessly many ways?  False where that is not easily seen."""
    match language.op:
        case "rep":
            return language.args[2] is None
        case "cat":
            return bool(language.args) and _goes_on(language.args[-1])
        case "alt":
            return all(map(_goes_on, language.args))
        case "not":
            return lengths(language.args[0])[1] is not None
        case "and":
            others = [part for part in language.args if part.op != "not" or not _goes_on(part)]
            return len(others) <= 1 and all(map(_goes_on, others))
    return False


def _count_words(language: Regular) -> int | None:
    """A number of words that the language surely has; None where it may be endless."""
    if lengths(language)[1] is None:
        return None
    match language.op:
        case "chars":
            return sum(int(high) - int(low) + 1 for low, high in language.args)
        case "words":
            return len(frozenset(language.args))
        case "cat" | "alt":
            counts = [_count_words(part) or 0 for part in language.args]
            if language.op == "cat" and sum(not _is_even(part) for part in language.args) <= 1:
                return min(math.prod(counts), _MOST_KEYS + 1)  # where one part ends is where the others say
            return max(counts, default=1)
        case "rep":
            body, _, most = language.args
            count = _count_words(body) or 0
            return min(count ** min(most, 64), _MOST_KEYS + 1) if _is_even(body) else count
        case "and":
            without = sum(
                len(part.args[0].args) for part in language.args if part.op == "not" and part.args[0].op == "words"
            )
            others = [part for part in language.args if part.op != "not" or part.args[0].op != "words"]
            return max(1, (_count_words(others[0]) or 0) - without) if len(others) == 1 else 1
    return 1


def _is_even(language: Regular) -> bool:
    """Are all words of one length?"""
    low, high = lengths(language)
    return low == high
