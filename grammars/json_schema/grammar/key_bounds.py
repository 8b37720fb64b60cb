"""Bounds on the keys that an object can take beyond those that its schema lists, by the languages of these keys."""

from __future__ import annotations

from typing import NamedTuple

from grammars.json_schema.grammar.nonterminals import Nonterminals
from grammars.regular.finite import count_words
from grammars.regular.languages import Regular, lengths

__all__ = ["KeyBounds", "key_bounds"]


class KeyBounds(NamedTuple):
    """The facts that `UniqueWatch` needs about keys that no schema lists.

    ``tight``: a key may begin in a way that only keys already written complete; ``fewest``: the smallest number of such
    keys that some object has, 0 if practically unlimited.
    """

    tight: bool = False
    fewest: int = 0


def key_bounds(nonterminals: Nonterminals) -> KeyBounds:
    """The bounds of all objects together."""
    tight, fewest = False, 0
    for nonterminal in nonterminals.by_conj.values():
        for node in (node for automaton in nonterminal.objects for node in automaton.nodes):
            for edges in (node.run[0] if node.run is not None else (), *((edge,) for edge in node.edges)):
                languages = [edge.keys for edge in edges if edge.keys is not None]
                if all(map(_goes_on, languages)):
                    continue
                tight, words = True, count_words(languages)
                if words is not None:
                    fewest = min(fewest or words, max(1, words))
    return KeyBounds(tight, fewest)


def _goes_on(language: Regular) -> bool:
    """Whether every prefix can be continued in infinitely many ways; False where that is not easily seen."""
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
