"""Translate ECMA-262 patterns (the dialect of JSON Schema) into regular languages.

`language(pattern)` is the set of strings in which the pattern is found: JSON Schema searches instead of matching whole
strings, so an unanchored pattern is padded on both sides.  Anchors, look-ahead, look-behind and word boundaries vanish
in the translation: they become intersection and complement.  Not supported are back-references, which are not regular,
and most assertions inside an unbounded repeat; `NotRegular` says which.
"""

from __future__ import annotations

import re
from functools import lru_cache

from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.ecma_parser import EcmaParser
from grammars.regular.syntax.ecma_tree import (
    END,
    START,
    Alternation,
    Concatenation,
    InvalidPattern,
    NotRegular,
    Repetition,
    Tree,
)
from grammars.regular.terms import Regular

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
    """Whether all texts of the pattern are surely ASCII, so that other letters play no part at word boundaries."""
    try:
        tree = EcmaParser(pattern).parse()
    except (InvalidPattern, NotRegular):
        return False
    is_whole = isinstance(tree, Concatenation) and (tree.parts[0], tree.parts[-1]) == (START, END)
    return is_whole and _reads_ascii(tree)


def _reads_ascii(tree: Tree) -> bool:
    """Whether each part of the tree reads ASCII alone; look-around reads nothing."""
    match tree:
        case Regular(op="chars", args=ranges):
            return bool(ranges[-1][1] < 0x80)
        case Regular(op="words", args=words):
            return all(map(str.isascii, words))
        case Regular(args=parts) | Concatenation(parts=parts) | Alternation(options=parts):
            return all(map(_reads_ascii, parts))
        case Repetition(body=body):
            return _reads_ascii(body)
    return True


def may_match_less(pattern: str) -> bool:
    """Whether such a pattern may match less for a validator than here."""
    return _TURNED.search(_operators(pattern)) is not None
