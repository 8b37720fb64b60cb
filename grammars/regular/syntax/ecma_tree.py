"""The syntax tree of a pattern: regular terms where possible, assertions around them where needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeAlias, cast

from grammars.regular.terms import EPS, Regular, alt, cat, rep, text

__all__ = [
    "END",
    "START",
    "Alternation",
    "Boundary",
    "Concatenation",
    "InvalidPattern",
    "LookAround",
    "NotRegular",
    "Repetition",
    "Tree",
    "tree_alt",
    "tree_cat",
    "tree_rep",
]


class InvalidPattern(ValueError):
    """The pattern is not one of its dialect."""


class NotRegular(ValueError):
    """The pattern is understood but is not expressible as a regular language here."""


@dataclass(frozen=True, slots=True)
class Concatenation:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    body: Tree
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class LookAround:
    ahead: bool
    negative: bool
    body: Tree


@dataclass(frozen=True, slots=True)
class Boundary:
    kind: str  # "start", "end", "word", "no word"


Tree: TypeAlias = Regular | Concatenation | Alternation | Repetition | LookAround | Boundary

START = Boundary("start")
END = Boundary("end")


def tree_cat(parts: Sequence[Tree]) -> Tree:
    flat: list[Tree] = []
    every = chain.from_iterable(part.parts if isinstance(part, Concatenation) else (part,) for part in parts)
    for _, run in groupby(every, lambda part: isinstance(part, Regular)):
        several = list(run)
        flat += [cat(*_joined(cast(list[Regular], several)))] if isinstance(several[0], Regular) else several
    if not flat:
        return EPS
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def _joined(parts: Sequence[Regular]) -> Iterator[Regular]:
    """The parts with neighbouring words as one: long literals would be quadratic otherwise."""
    for is_word, run in groupby(parts, lambda part: part.op == "words" and len(part.args) == 1):
        if is_word:
            yield text("".join(next(iter(part.args)) for part in run))
        else:
            yield from run


def tree_rep(body: Tree, least: int, most: int | None) -> Tree:
    """The repeat, as a regular term where its body is a regular term; an optional assertion asserts nothing."""
    if isinstance(body, Boundary | LookAround):
        return body if least else EPS
    if isinstance(body, Regular):
        return rep(body, least, most)
    return body if (least, most) == (1, 1) else Repetition(body, least, most)


def tree_alt(options: Sequence[Tree]) -> Tree:
    plain = [o for o in options if isinstance(o, Regular)]
    trees = [o for o in options if not isinstance(o, Regular)]
    if not trees:
        return alt(*plain)
    return Alternation((*trees, alt(*plain)) if plain else tuple(trees)) if len(options) > 1 else options[0]
