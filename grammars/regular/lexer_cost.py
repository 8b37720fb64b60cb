"""The cost of a language for the engine: its size written out, and counts that multiply the states of its lexer.

After every character the engine's lexer searches for a way to the end.  For most languages that is quick.  Where
counted repeats that may begin anywhere meet other conditions, it visits all sets of counts that may be running, until
its limits end the row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from grammars.regular.languages import disjoint
from grammars.regular.terms import ANY, EPS, NONE, Regular, chars

__all__ = ["expanded_size", "is_costly"]

_MAX_STATES = 1_000  # limit on the product of nested counts that may overlap with what follows


def expanded_size(term: Regular) -> int:
    """The number of characters of a term with its repeats expanded: its cost for the engine."""
    match term.op:
        case "chars":
            return 1
        case "words":
            return sum(map(len, term.args))
        case "rep":
            body, least, most = cast(tuple[Regular, int, int | None], term.args)
            return expanded_size(body) * max(1, least if most is None else most)
    return sum(expanded_size(p) for p in term.args) + 1


def is_costly(term: Regular, around: int = 1) -> bool:
    """Whether a counted repeat, itself repeated, shares characters with what follows it.

    In ``(.{1,63}\\.){1,127}`` every dot may end the inner repeat or not: the engine's states multiply until its limits
    end the generation.  ``around`` is the product of the counts outside.
    """
    if term.op in ("chars", "words"):
        return False
    if term.op == "rep":
        body, least, most = term.args
        return is_costly(body, around * max(1, least if most is None else most))
    if term.op == "cat":
        for part, after in pairwise((*term.args, EPS)):
            if part.op == "rep" and part.args[1] != part.args[2]:
                count = part.args[2] if part.args[2] is not None else 1
                if count > 4 and around * count > _MAX_STATES and not disjoint(part.args[0], _first(after)):
                    return True
    return any(is_costly(part, around) for part in term.args)


def _first(term: Regular) -> Regular:
    """The first characters of a term (roughly: of the first part that is not a choice)."""
    match term.op:
        case "words":
            return chars([(ord(w[0]), ord(w[0])) for w in term.args if w])
        case "rep":
            return _first(term.args[0])
        case "cat" if term.args:
            return _first(term.args[0])
        case "chars":
            return term
    return ANY if term != EPS else NONE
