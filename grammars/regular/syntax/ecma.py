"""Patterns of ECMA-262 (the dialect of JSON Schema) to regular languages.

`language(pattern)` is the set of strings in which the pattern is found: JSON Schema searches, it does not
match whole strings, so an unanchored pattern is padded on both sides.  Anchors, look-ahead, look-behind and word
borders vanish in the translation: they become intersection and complement.  What is left out is not regular
(back-references) or not translated (most assertions inside an unbounded repeat); then `NotRegular` says which.

A pattern is read from left to right as a language of *suffixes*: what may follow, up to the end of the string, where a
part of it begins.  All that such a language must know of what was read is the kind of the character before it
(`_Before`); each regular part is cut into its words by the kind of their last character.  Look-behind needs all that
was read: up to the last one of them a language of *prefixes* is built instead.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

from grammars.regular.syntax.character_classes import WORD
from grammars.regular.syntax.ecma_parser import Parser
from grammars.regular.syntax.ecma_tree import (
    END,
    Alt,
    Cat,
    Edge,
    InvalidPattern,
    Look,
    NotRegular,
    Rep,
    Tree,
    tree_alt,
    tree_cat,
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
    inter,
    neg,
    ranges_minus,
    remembered,
    rep,
)

__all__ = ["InvalidPattern", "NotRegular", "has_borders", "has_foreign_borders", "language"]

_MAX_UNROLL = 12  # repeats of a body with assertions are written out up to this many times
_MAX_SIZE = 100_000  # parts of a term when what it shares is written out each time
_MAX_WORK = 5_000  # parts that are looked at where assertions stand among choices


class _Before(Enum):
    """What stands before a place of the string."""

    START = 0  #: nothing
    WORD = 1  #: a word character
    OTHER = 2  #: any other character


_WORD_CHAR = chars(WORD)
_OTHER_CHAR = chars(ranges_minus(((0, 0x10FFFF),), WORD))
_ENDS = {_Before.START: EPS, _Before.WORD: cat(ALL, _WORD_CHAR), _Before.OTHER: cat(ALL, _OTHER_CHAR)}
_BEGINS_WORD = cat(_WORD_CHAR, ALL)

_BEYOND_ASCII = cat(ALL, chars(((0x80, 0x10FFFF),)), ALL)
_BORDERS = ("word", "no word")
_EDGES = ("start", "word", "no word")  # assertions that ask for the kind of the character before


@lru_cache(maxsize=4_096)
def language(pattern: str, wide: bool | None = None, *, final_newline: bool = True) -> Regular:
    """The strings in which ``pattern`` is found; raises `InvalidPattern` or `NotRegular`.

    Validators let ``.`` take the line separators but the newline, which ECMA-262 does not, and beside look-around read
    classes by Unicode; Python's finds ``$`` before a ``final_newline``.  Without ``wide`` the language is that of
    ECMA-262; False leaves out what one of both does not find, True holds what one of both finds.
    """
    tree = Parser(pattern, wide=wide, final_newline=final_newline).parse()
    try:
        term = _Lowering().whole((tree,), ALL)
        if _written_size(term) > _MAX_SIZE:
            raise NotRegular("so many choices around anchors and word borders")
        return term
    except RecursionError:
        raise NotRegular("a pattern nested this deep") from None


@remembered(4_096)
def has_borders(pattern: str) -> bool:
    """May borders of words decide beside a letter that is not ASCII, by ECMA-262 or by what validators take for one?"""
    if "\\b" not in pattern and "\\B" not in pattern:
        return False
    tree = Parser(pattern).parse()
    if not _has(tree, _BORDERS):
        return False
    try:
        return not disjoint(_Lowering().whole((_without_borders(tree),), ALL), _BEYOND_ASCII)
    except NotRegular:
        return True


@remembered(4_096)
def has_foreign_borders(pattern: str) -> bool:
    """Is a pattern with borders of words (see `has_borders`) found in strings with other letters than those of ASCII?

    Raises `NotRegular`.
    """
    return has_borders(pattern) and not disjoint(language(pattern), _BEYOND_ASCII)


def _without_borders(tree: Tree) -> Tree:
    """The tree, asking for no border of words: it is found wherever the tree is, whatever is a border."""
    match tree:
        case Edge(kind=kind) if kind in _BORDERS:
            return EPS
        case Look(ahead=ahead, negative=negative, body=body):
            if negative and _has(body, _BORDERS):
                return EPS
            return Look(ahead, negative, _without_borders(body))
        case Cat(parts=parts):
            return tree_cat([_without_borders(part) for part in parts])
        case Alt(options=options):
            return tree_alt([_without_borders(option) for option in options])
        case Rep(body=body, least=least, most=most):
            return _plain(Rep(_without_borders(body), least, most))
    return tree


def _written_size(term: Regular) -> int:
    """Parts of a term, those that stand in several places counted in each."""
    known: dict[int, int] = {}

    def size(part: Regular) -> int:
        if part.op in ("chars", "words"):
            return 1
        if id(part) not in known:
            below = part.args[:1] if part.op == "rep" else part.args
            known[id(part)] = 1 + sum(map(size, below))
        return known[id(part)]

    return size(term)


@lru_cache(maxsize=4_096)
def _has(tree: Tree, kinds: tuple[str, ...]) -> bool:
    """Does an assertion of one of these kinds stand in the tree?"""
    match tree:
        case Edge(kind=kind):
            return kind in kinds
        case Look(ahead=ahead, body=body):
            return ("ahead" if ahead else "behind") in kinds or _has(body, kinds)
        case Rep(body=body):
            return _has(body, kinds)
        case Cat(parts=parts) | Alt(options=parts):
            return any(_has(p, kinds) for p in parts)
    return False


def _any_has(parts: tuple[Tree, ...], kinds: tuple[str, ...]) -> bool:
    return any(_has(part, kinds) for part in parts)


class _Lowering:
    """One pattern on its way from tree to language; what was worked out once is kept."""

    def __init__(self) -> None:
        self.known: dict[Any, Regular] = {}
        self.work = 0

    def whole(self, parts: tuple[Tree, ...], left: Regular) -> Regular:
        """The strings made of ``left``, then ``parts``, then anything."""
        for i, part in enumerate(parts):
            rest = parts[i + 1 :]
            if not _any_has(parts[i:], ("behind",)) and not self._settles(part):
                return self._joined(left, parts[i:])
            self._count()
            match part:
                case Regular():
                    left = cat(left, part)
                case Cat(parts=inner):
                    return self.whole((*inner, *rest), left)
                case Edge(kind="start"):
                    left = EPS if left.nullable else NONE
                case Look(ahead=False, negative=negative, body=body):
                    if _has(body, ("word", "no word", "end", "ahead")):
                        raise NotRegular("an assertion about what follows inside a look-behind")
                    before = self.whole((body, END), ALL)
                    left = inter(left, neg(before) if negative else before)
                case Look(negative=negative, body=body) if left == EPS:
                    seen = self.whole((body,), EPS)
                    return inter(neg(seen) if negative else seen, self.whole(rest, left))
                case Alt(options=options):
                    return alt(*(self.whole((option, *rest), left) for option in options))
                case Rep(body=body, least=least, most=most):
                    if most is None or most > _MAX_UNROLL:
                        raise NotRegular("an assertion inside a repeat, beside a look-behind")
                    return alt(*(self.whole((*(body,) * n, *rest), left) for n in range(least, most + 1)))
                case _:
                    raise NotRegular("a look-behind after a word border or a look-ahead")
        return cat(left, ALL)

    def _settles(self, part: Tree) -> bool:
        """Is the part said best by what stands left of it?  So anchored patterns stay plain."""
        match part:
            case Edge(kind="start"):
                return True
            case Cat(parts=inner):
                return self._settles(inner[0])
            case Alt(options=options):
                return any(self._settles(option) for option in options)
        return False

    def _joined(self, left: Regular, parts: tuple[Tree, ...]) -> Regular:
        """``left`` and the suffixes that may follow it."""
        if not _any_has(parts, _EDGES):
            return cat(left, self.suffix(parts, _Before.OTHER))
        return alt(*(cat(inter(left, ends), self.suffix(parts, before)) for before, ends in _ENDS.items()))

    def suffix(self, parts: tuple[Tree, ...], before: _Before) -> Regular:
        """What may follow, up to the end of the string, where ``parts`` begin behind ``before``."""
        if not parts:
            return ALL
        if not _any_has(parts, _EDGES):
            before = _Before.OTHER  # nobody asks
        key = (parts, before)
        found = self.known.get(key)
        if found is None:
            self._count()
            found = self.known[key] = self._suffix(parts[0], parts[1:], before)
        return found

    def _suffix(self, part: Tree, rest: tuple[Tree, ...], before: _Before) -> Regular:
        match part:
            case Regular():
                return self._behind_regular(part, rest, before)
            case Cat(parts=inner):
                return self.suffix((*inner, *rest), before)
            case Alt(options=options):
                return alt(*(self.suffix((option, *rest), before) for option in options))
            case Edge(kind="start"):
                return self.suffix(rest, before) if before is _Before.START else NONE
            case Edge(kind="end"):
                return EPS if self.suffix(rest, before).nullable else NONE
            case Edge(kind=kind):
                is_border = kind == "word"
                begins = _BEGINS_WORD if is_border != (before is _Before.WORD) else neg(_BEGINS_WORD)
                return inter(self.suffix(rest, before), begins)
            case Look(ahead=True, negative=negative, body=body):
                seen = self.suffix((body,), before)
                return inter(neg(seen) if negative else seen, self.suffix(rest, before))
            case Rep():
                return self._repeated(part, rest, before)
        raise NotRegular("a look-behind inside another assertion")

    def _behind_regular(self, part: Regular, rest: tuple[Tree, ...], before: _Before) -> Regular:
        if not _any_has(rest, _EDGES):
            return cat(part, self.suffix(rest, before))
        out = [self.suffix(rest, before)] if part.nullable else []
        kinds = (_Before.WORD, _Before.OTHER)
        return alt(*out, *(cat(inter(part, _ENDS[kind]), self.suffix(rest, kind)) for kind in kinds))

    def _repeated(self, part: Rep, rest: tuple[Tree, ...], before: _Before) -> Regular:
        body, least, most = part.body, part.least, part.most
        tempered = self._tempered(body)
        if tempered is not None and self.suffix(rest, before) == EPS:
            step, forbidden = tempered  # ((?!A)C)*$: no A begins anywhere in what is read
            return inter(rep(step, least, most), neg(cat(ALL, forbidden)))
        if most is not None and most <= _MAX_UNROLL:
            return alt(*(self.suffix((*(body,) * n, *rest), before) for n in range(least, most + 1)))
        if least == 0 and not rest:
            return ALL
        if least <= 1 and not _has(body, ("word", "no word", "end", "behind", "ahead")):
            later = Rep(_without_start(body), 0, None if most is None else most - 1)
            once = self.suffix((body, _plain(later), *rest), before)
            return alt(once, self.suffix(rest, before)) if least == 0 else once
        raise NotRegular("an assertion inside an unbounded repeat")

    def _tempered(self, body: Tree) -> tuple[Regular, Regular] | None:
        """``(C, A...)`` of a body ``(?!A)C`` where C is one character and A is not empty."""
        match body:
            case Cat(parts=(Look(ahead=True, negative=True, body=look), Regular(op="chars") as step)):
                if _has(look, _EDGES):
                    return None
                seen = self.suffix((look,), _Before.OTHER)
                return None if seen.nullable else (step, seen)
        return None

    def _count(self) -> None:
        self.work += 1
        if self.work > _MAX_WORK:
            raise NotRegular("so many choices around anchors and word borders")


def _without_start(tree: Tree) -> Tree:
    """The tree where something was read before it: no start of the string can follow."""
    match tree:
        case Edge(kind="start"):
            return NONE
        case Cat(parts=parts):
            return tree_cat([_without_start(part) for part in parts])
        case Alt(options=options):
            return tree_alt([_without_start(option) for option in options])
        case Rep(body=body, least=least, most=most):
            return _plain(Rep(_without_start(body), least, most))
        case Look(ahead=ahead, negative=negative, body=body):
            return Look(ahead, negative, _without_start(body))
    return tree


def _plain(tree: Rep) -> Tree:
    """The repeat as a regular term where its body is one."""
    return rep(tree.body, tree.least, tree.most) if isinstance(tree.body, Regular) else tree
