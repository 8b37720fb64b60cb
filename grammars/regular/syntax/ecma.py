"""Translate ECMA-262 patterns (the dialect of JSON Schema) into regular languages.

`language(pattern)` is the set of strings in which the pattern is found: JSON Schema searches instead of matching whole
strings, so an unanchored pattern is padded on both sides.  Anchors, look-ahead, look-behind and word boundaries vanish
in the translation: they become intersection and complement.  Not supported are back-references, which are not regular,
and most assertions inside an unbounded repeat; `NotRegular` says which.
"""

from __future__ import annotations

from functools import lru_cache

from grammars.regular.languages import (
    ALL,
    EPS,
    Regular,
    cat,
    chars,
    disjoint,
    lru_cache_in_budget,
)
from grammars.regular.syntax.assertions import has, lowered, plain
from grammars.regular.syntax.ecma_parser import EcmaParser
from grammars.regular.syntax.ecma_tree import (
    Alternation,
    Boundary,
    Concatenation,
    InvalidPattern,
    LookAround,
    NotRegular,
    Repetition,
    Tree,
    tree_alt,
    tree_cat,
)

__all__ = ["InvalidPattern", "NotRegular", "has_disputed_boundaries", "has_disputed_boundary_matches", "language"]

_BEYOND_ASCII = cat(ALL, chars(((0x80, 0x10FFFF),)), ALL)
_WORD_BOUNDARIES = ("word", "no word")


@lru_cache(maxsize=4_096)
def language(pattern: str, wide: bool | None = None, *, final_newline: bool = True) -> Regular:
    """Return the strings in which ``pattern`` is found; raises `InvalidPattern` or `NotRegular`.

    Validators differ from ECMA-262: ``.`` matches line separators other than the newline, classes in patterns with
    look-around are read by Unicode, and Python's ``$`` also matches before a ``final_newline``.  ``wide`` None is the
    language of ECMA-262; False excludes strings on which readers differ, True includes them.
    """
    return lowered(EcmaParser(pattern, wide=wide, final_newline=final_newline).parse())


@lru_cache_in_budget(4_096)
def has_disputed_boundaries(pattern: str) -> bool:
    """Whether word boundaries at non-ASCII letters may decide: ECMA-262 and validators differ on what a letter is."""
    if "\\b" not in pattern and "\\B" not in pattern:
        return False
    tree = EcmaParser(pattern).parse()
    if not has(tree, _WORD_BOUNDARIES):
        return False
    try:
        return not disjoint(lowered(_without_boundaries(tree)), _BEYOND_ASCII)
    except NotRegular:
        return True


@lru_cache_in_budget(4_096)
def has_disputed_boundary_matches(pattern: str) -> bool:
    """Whether a pattern of `has_disputed_boundaries` matches strings with non-ASCII characters.

    Raises `NotRegular`.
    """
    return has_disputed_boundaries(pattern) and not disjoint(language(pattern), _BEYOND_ASCII)


def _without_boundaries(tree: Tree) -> Tree:
    """The tree without conditions on word boundaries: it matches at least wherever the original matches."""
    match tree:
        case Boundary(kind=kind) if kind in _WORD_BOUNDARIES:
            return EPS
        case LookAround(ahead=ahead, negative=negative, body=body):
            if negative and has(body, _WORD_BOUNDARIES):
                return EPS
            return LookAround(ahead, negative, _without_boundaries(body))
        case Concatenation(parts=parts):
            return tree_cat([_without_boundaries(part) for part in parts])
        case Alternation(options=options):
            return tree_alt([_without_boundaries(option) for option in options])
        case Repetition(body=body, least=least, most=most):
            return plain(Repetition(_without_boundaries(body), least, most))
    return tree
