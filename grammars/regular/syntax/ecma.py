"""Translate ECMA-262 patterns (the dialect of JSON Schema) into regular languages.

`language(pattern)` is the set of strings in which the pattern is found: JSON Schema searches instead of matching whole
strings, so an unanchored pattern is padded on both sides.  Anchors, look-ahead, look-behind and word boundaries vanish
in the translation: they become intersection and complement.  Not supported are back-references, which are not regular,
and most assertions inside an unbounded repeat; `NotRegular` says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise

from grammars.regular.languages import surely_empty
from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.character_classes import WORD
from grammars.regular.syntax.ecma_parser import EcmaParser
from grammars.regular.syntax.ecma_tree import (
    END,
    START,
    Alternation,
    Concatenation,
    InvalidPattern,
    LookAround,
    NotRegular,
    Repetition,
    Tree,
)
from grammars.regular.terms import MAX_CODE_POINT, Ranges, Regular, inter, neg

__all__ = ["InvalidPattern", "NotRegular", "disputed", "language", "may_match_less"]


@lru_cache(maxsize=4_096)
def language(pattern: str, *, negated: bool = False) -> Regular:
    """Return the strings in which ``pattern`` is found; raises `InvalidPattern` or `NotRegular`.

    Read as ECMA-262, but ``.`` leaves out the newline alone, as for all validators.  Where it forbids (``negated``, or
    in negated look-around) ``$`` also matches before a newline at the end, as in Python.
    """
    return lowered(EcmaParser(pattern, negated=negated).parse())


_BOUNDARIES = "word boundaries are those of ECMA-262, by ASCII letters: validators know other letters too"
_CLASSES = "next to look-around \\w, \\d and \\s are those of ECMA-262: validators read them by Unicode"
_CASE = "without regard to case only those letters are alike that all readers fold alike (not i and the Turkish ones)"
_LOOKS = re.compile(r"\(\?<?[=!]")
_SHORT_CLASS = re.compile(r"\\[wWdDsS]")
_CASE_FLAG = re.compile(r"\(\?[a-z]*i")
#: Parts that match less where a class holds more.
_TURNED = re.compile(r"\\[WDsSbB]|\[\^|\(\?<?!")


def _operators(pattern: str) -> str:
    """Return the pattern without escaped signs, and without what is no operator inside a class."""
    text = re.sub(r"\\[^wWdDsSbB]", "", pattern)
    return re.sub(r"\[\^?[^\]]*\]", lambda match: match[0].replace("\\b", "").replace("(", ""), text)


def disputed(pattern: str) -> str:
    """The reason why validators may read a pattern otherwise than ECMA-262; "" for most patterns."""
    whole, pattern = pattern, _operators(pattern)
    if ("\\b" in pattern or "\\B" in pattern) and not _has_ascii_boundaries(whole):
        return _BOUNDARIES
    if _LOOKS.search(pattern) and _SHORT_CLASS.search(pattern):
        return _CLASSES
    return _CASE if _CASE_FLAG.search(pattern) else ""


@lru_cache(maxsize=1_000)
def _has_ascii_boundaries(pattern: str) -> bool:
    """Whether the pattern is surely found in the same strings, whatever other letters word boundaries know."""
    try:
        tree = EcmaParser(pattern).parse()
        is_whole = isinstance(tree, Concatenation) and (tree.parts[0], tree.parts[-1]) == (START, END)
        if is_whole and all(ranges[-1][1] < 0x80 for ranges in _classes(tree)):
            return True
        found = lowered(tree)
        for more in ((0x80, MAX_CODE_POINT),), _letters(tree):
            other = lowered(tree, (*WORD, *more))
            if not (surely_empty(inter(found, neg(other))) and surely_empty(inter(other, neg(found)))):
                return False
    except (InvalidPattern, NotRegular):
        return False
    return True


def _letters(tree: Tree) -> Ranges:
    """The characters beyond ASCII that Python takes for letters, one for all that the tree tells not apart."""
    ranges = chain.from_iterable(_classes(tree, with_assertions=True))
    edges = {edge for low, high in ranges for edge in (low, high + 1) if 0x80 < edge <= MAX_CODE_POINT}
    out = []
    for low, after in pairwise(sorted({0x80, *edges, MAX_CODE_POINT + 1})):
        is_letter = chr(low).isalnum()
        is_mixed = any(chr(code).isalnum() != is_letter for code in range(low, after))
        if is_letter or is_mixed:
            out.append((low, low if is_mixed else after - 1))
    return tuple(out)


def _classes(tree: Tree, *, with_assertions: bool = False) -> Iterator[Ranges]:
    """Yield the characters that each part of the tree reads, of look-around only ``with_assertions``."""
    match tree:
        case Regular(op="chars", args=ranges):
            yield ranges
        case Regular(op="words", args=words):
            yield tuple((code, code) for code in sorted(set(map(ord, "".join(words)))))
        case Regular(args=parts) | Concatenation(parts=parts) | Alternation(options=parts):
            for part in parts:
                yield from _classes(part, with_assertions=with_assertions)
        case Repetition(body=body):
            yield from _classes(body, with_assertions=with_assertions)
        case LookAround(body=body) if with_assertions:
            yield from _classes(body, with_assertions=True)


def may_match_less(pattern: str) -> bool:
    """Whether such a pattern may match less for a validator than here."""
    return _TURNED.search(_operators(pattern)) is not None
