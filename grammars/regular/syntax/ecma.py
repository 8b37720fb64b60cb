"""Translate ECMA-262 patterns (the dialect of JSON Schema) into regular languages.

`language(pattern)` is the set of strings in which the pattern is found: JSON Schema searches instead of matching whole
strings, so an unanchored pattern is padded on both sides.  Anchors, look-ahead, look-behind and word boundaries vanish
in the translation: they become intersection and complement.  Not supported are back-references, which are not regular,
and most assertions inside an unbounded repeat; `NotRegular` says which.

A pattern is translated from left to right into a language of *suffixes*: what may follow, up to the end of the string,
where a part of it begins.  Such a language depends on the text before it only by the kind of the preceding character
(`_Before`); each regular part is split into its words by the kind of their last character.  A look-behind depends on
all the text before it: up to the last one of them a language of *prefixes* is built instead.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

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
    lru_cache_in_budget,
    neg,
    ranges_minus,
    rep,
)
from grammars.regular.syntax.character_classes import WORD
from grammars.regular.syntax.ecma_parser import EcmaParser
from grammars.regular.syntax.ecma_tree import (
    END,
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

_MAX_UNROLL = 12  # repeats of a body with assertions are written out up to this many times
_MAX_SIZE = 100_000  # parts of a term when what it shares is written out each time
_MAX_WORK = 5_000  # parts that are looked at where assertions occur among choices


class _Before(Enum):
    """The kind of the character before a position of the string."""

    START = 0  #: nothing
    WORD = 1  #: a word character
    OTHER = 2  #: any other character


_WORD_CHAR = chars(WORD)
_OTHER_CHAR = chars(ranges_minus(((0, 0x10FFFF),), WORD))
_ENDS = {_Before.START: EPS, _Before.WORD: cat(ALL, _WORD_CHAR), _Before.OTHER: cat(ALL, _OTHER_CHAR)}
_BEGINS_WORD = cat(_WORD_CHAR, ALL)

_BEYOND_ASCII = cat(ALL, chars(((0x80, 0x10FFFF),)), ALL)
_WORD_BOUNDARIES = ("word", "no word")
_LEFT_CONTEXT = ("start", "word", "no word")  # assertions that depend on the kind of the character before


@lru_cache(maxsize=4_096)
def language(pattern: str, wide: bool | None = None, *, final_newline: bool = True) -> Regular:
    """Return the strings in which ``pattern`` is found; raises `InvalidPattern` or `NotRegular`.

    Validators differ from ECMA-262: ``.`` matches line separators other than the newline, classes in patterns with
    look-around are read by Unicode, and Python's ``$`` also matches before a ``final_newline``.  ``wide`` None is the
    language of ECMA-262; False excludes strings on which readers differ, True includes them.
    """
    tree = EcmaParser(pattern, wide=wide, final_newline=final_newline).parse()
    try:
        term = _Lowering().whole((tree,), ALL)
        if _written_size(term) > _MAX_SIZE:
            raise NotRegular("too many choices around anchors and word boundaries")
        return term
    except RecursionError:
        raise NotRegular("a pattern nested this deep") from None


@lru_cache_in_budget(4_096)
def has_disputed_boundaries(pattern: str) -> bool:
    """Whether word boundaries at non-ASCII letters may decide: ECMA-262 and validators differ on what a letter is."""
    if "\\b" not in pattern and "\\B" not in pattern:
        return False
    tree = EcmaParser(pattern).parse()
    if not _has(tree, _WORD_BOUNDARIES):
        return False
    try:
        return not disjoint(_Lowering().whole((_without_boundaries(tree),), ALL), _BEYOND_ASCII)
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
            if negative and _has(body, _WORD_BOUNDARIES):
                return EPS
            return LookAround(ahead, negative, _without_boundaries(body))
        case Concatenation(parts=parts):
            return tree_cat([_without_boundaries(part) for part in parts])
        case Alternation(options=options):
            return tree_alt([_without_boundaries(option) for option in options])
        case Repetition(body=body, least=least, most=most):
            return _plain(Repetition(_without_boundaries(body), least, most))
    return tree


def _written_size(term: Regular) -> int:
    """The parts of a term, shared ones counted at each place."""
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
    """Whether the tree contains an assertion of one of these kinds."""
    match tree:
        case Boundary(kind=kind):
            return kind in kinds
        case LookAround(ahead=ahead, body=body):
            return ("lookahead" if ahead else "lookbehind") in kinds or _has(body, kinds)
        case Repetition(body=body):
            return _has(body, kinds)
        case Concatenation(parts=parts) | Alternation(options=parts):
            return any(_has(p, kinds) for p in parts)
    return False


def _any_has(parts: tuple[Tree, ...], kinds: tuple[str, ...]) -> bool:
    return any(_has(part, kinds) for part in parts)


class _Lowering:
    """Translates one pattern from tree to language; results for parts are kept."""

    def __init__(self) -> None:
        self.known: dict[Any, Regular] = {}
        self.work = 0

    def whole(self, parts: tuple[Tree, ...], left: Regular) -> Regular:
        """The strings made of ``left``, then ``parts``, then anything."""
        for i, part in enumerate(parts):
            rest = parts[i + 1 :]
            if not _any_has(parts[i:], ("lookbehind",)) and not self._settles(part):
                return self._joined(left, parts[i:])
            self._count()
            match part:
                case Regular():
                    left = cat(left, part)
                case Concatenation(parts=inner):
                    return self.whole((*inner, *rest), left)
                case Boundary(kind="start"):
                    left = EPS if left.nullable else NONE
                case LookAround(ahead=False, negative=negative, body=body):
                    if _has(body, ("word", "no word", "end", "lookahead")):
                        raise NotRegular("an assertion about what follows inside a look-behind")
                    before = self.whole((body, END), ALL)
                    left = inter(left, neg(before) if negative else before)
                case LookAround(negative=negative, body=body) if left == EPS:
                    seen = self.whole((body,), EPS)
                    return inter(neg(seen) if negative else seen, self.whole(rest, left))
                case Alternation(options=options):
                    return alt(*(self.whole((option, *rest), left) for option in options))
                case Repetition(body=body, least=least, most=most):
                    if most is None or most > _MAX_UNROLL:
                        raise NotRegular("an assertion inside a repeat, combined with a look-behind")
                    return alt(*(self.whole((*(body,) * n, *rest), left) for n in range(least, most + 1)))
                case _:
                    raise NotRegular("a look-behind after a word boundary or a look-ahead")
        return cat(left, ALL)

    def _settles(self, part: Tree) -> bool:
        """Whether the part is better expressed by the prefixes before it; this keeps anchored patterns plain."""
        match part:
            case Boundary(kind="start"):
                return True
            case Concatenation(parts=inner):
                return self._settles(inner[0])
            case Alternation(options=options):
                return any(self._settles(option) for option in options)
        return False

    def _joined(self, left: Regular, parts: tuple[Tree, ...]) -> Regular:
        """``left`` and the suffixes that may follow it."""
        if not _any_has(parts, _LEFT_CONTEXT):
            return cat(left, self.suffix(parts, _Before.OTHER))
        return alt(*(cat(inter(left, ends), self.suffix(parts, before)) for before, ends in _ENDS.items()))

    def suffix(self, parts: tuple[Tree, ...], before: _Before) -> Regular:
        """The strings that may follow, up to the end, where ``parts`` begin after a character of kind ``before``."""
        if not parts:
            return ALL
        if not _any_has(parts, _LEFT_CONTEXT):
            before = _Before.OTHER  # no assertion depends on it
        key = (parts, before)
        found = self.known.get(key)
        if found is None:
            self._count()
            found = self.known[key] = self._suffix(parts[0], parts[1:], before)
        return found

    def _suffix(self, part: Tree, rest: tuple[Tree, ...], before: _Before) -> Regular:
        match part:
            case Regular():
                return self._after_regular(part, rest, before)
            case Concatenation(parts=inner):
                return self.suffix((*inner, *rest), before)
            case Alternation(options=options):
                return alt(*(self.suffix((option, *rest), before) for option in options))
            case Boundary(kind="start"):
                return self.suffix(rest, before) if before is _Before.START else NONE
            case Boundary(kind="end"):
                return EPS if self.suffix(rest, before).nullable else NONE
            case Boundary(kind=kind):
                is_border = kind == "word"
                begins = _BEGINS_WORD if is_border != (before is _Before.WORD) else neg(_BEGINS_WORD)
                return inter(self.suffix(rest, before), begins)
            case LookAround(ahead=True, negative=negative, body=body):
                seen = self.suffix((body,), before)
                return inter(neg(seen) if negative else seen, self.suffix(rest, before))
            case Repetition():
                return self._repeated(part, rest, before)
        raise NotRegular("a look-behind inside another assertion")

    def _after_regular(self, part: Regular, rest: tuple[Tree, ...], before: _Before) -> Regular:
        if not _any_has(rest, _LEFT_CONTEXT):
            return cat(part, self.suffix(rest, before))
        out = [self.suffix(rest, before)] if part.nullable else []
        kinds = (_Before.WORD, _Before.OTHER)
        return alt(*out, *(cat(inter(part, _ENDS[kind]), self.suffix(rest, kind)) for kind in kinds))

    def _repeated(self, part: Repetition, rest: tuple[Tree, ...], before: _Before) -> Regular:
        body, least, most = part.body, part.least, part.most
        tempered = self._tempered(body)
        if tempered is not None and self.suffix(rest, before) == EPS:
            step, forbidden = tempered  # ((?!A)C)*$: no A begins anywhere in what is read
            return inter(rep(step, least, most), neg(cat(ALL, forbidden)))
        if most is not None and most <= _MAX_UNROLL:
            return alt(*(self.suffix((*(body,) * n, *rest), before) for n in range(least, most + 1)))
        if least == 0 and not rest:
            return ALL
        if least <= 1 and not _has(body, ("word", "no word", "end", "lookbehind", "lookahead")):
            later = Repetition(_without_start(body), 0, None if most is None else most - 1)
            once = self.suffix((body, _plain(later), *rest), before)
            return alt(once, self.suffix(rest, before)) if least == 0 else once
        raise NotRegular("an assertion inside an unbounded repeat")

    def _tempered(self, body: Tree) -> tuple[Regular, Regular] | None:
        """``(C, A...)`` of a body ``(?!A)C`` where C is one character and A is not empty."""
        match body:
            case Concatenation(parts=(LookAround(ahead=True, negative=True, body=look), Regular(op="chars") as step)):
                if _has(look, _LEFT_CONTEXT):
                    return None
                seen = self.suffix((look,), _Before.OTHER)
                return None if seen.nullable else (step, seen)
        return None

    def _count(self) -> None:
        self.work += 1
        if self.work > _MAX_WORK:
            raise NotRegular("too many choices around anchors and word boundaries")


def _without_start(tree: Tree) -> Tree:
    """The tree after some text: no start of the string can follow."""
    match tree:
        case Boundary(kind="start"):
            return NONE
        case Concatenation(parts=parts):
            return tree_cat([_without_start(part) for part in parts])
        case Alternation(options=options):
            return tree_alt([_without_start(option) for option in options])
        case Repetition(body=body, least=least, most=most):
            return _plain(Repetition(_without_start(body), least, most))
        case LookAround(ahead=ahead, negative=negative, body=body):
            return LookAround(ahead, negative, _without_start(body))
    return tree


def _plain(tree: Repetition) -> Tree:
    """The repeat as a regular term where its body is one."""
    return rep(tree.body, tree.least, tree.most) if isinstance(tree.body, Regular) else tree
