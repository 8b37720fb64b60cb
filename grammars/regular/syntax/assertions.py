"""Regular languages of syntax trees with assertions, whatever dialect they were read in.

Anchors, look-ahead, look-behind and word boundaries become intersection and complement.  Most assertions inside an
unbounded repeat are not supported; `NotRegular` says which.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.syntax.character_classes import WORD
from grammars.regular.syntax.ecma_tree import (
    END,
    Alternation,
    Boundary,
    Concatenation,
    LookAround,
    NotRegular,
    Repetition,
    Tree,
    tree_alt,
    tree_cat,
    tree_rep,
)
from grammars.regular.terms import ALL, ANY, EPS, NONE, Ranges, Regular, alt, cat, chars, inter, neg, ranges_minus, rep

__all__ = ["lowered"]

_MAX_UNROLL = 12  # repeats of a body with assertions are written out up to this many times
_MAX_SIZE = 100_000  # parts of a term when what it shares is written out each time


class _Before(Enum):
    """The kind of the character before a position of the string."""

    START = 0  #: nothing
    WORD = 1  #: a word character
    OTHER = 2  #: any other character


_LEFT_CONTEXT = ("start", "word", "no word")  # assertions that depend on the kind of the character before


def lowered(tree: Tree, word: Ranges = WORD) -> Regular:
    """Return the strings in which ``tree`` is found; ``word``: the characters that word boundaries take for letters.

    Raises `NotRegular`.
    """
    try:
        term = _Lowering(word).whole((tree,), ALL)
        if _written_size(term) > _MAX_SIZE:
            raise NotRegular("too many choices around anchors and word boundaries")
        return term
    except RecursionError:
        raise NotRegular("a pattern nested this deep") from None


def _written_size(term: Regular) -> int:
    """The parts of a term, shared ones counted at each place."""
    sizes: dict[int, int] = {}

    def size(part: Regular) -> int:
        if part.op in ("chars", "words"):
            return 1
        if id(part) not in sizes:
            below = part.args[:1] if part.op == "rep" else part.args
            sizes[id(part)] = 1 + sum(map(size, below))
        return sizes[id(part)]

    return size(term)


@lru_cache(maxsize=4_096)
def has(tree: Tree, kinds: tuple[str, ...]) -> bool:
    """Whether the tree contains an assertion of one of these kinds."""
    match tree:
        case Boundary(kind=kind):
            return kind in kinds
        case LookAround(ahead=ahead, body=body):
            return ("lookahead" if ahead else "lookbehind") in kinds or has(body, kinds)
        case Repetition(body=body):
            return has(body, kinds)
        case Concatenation(parts=parts) | Alternation(options=parts):
            return any(has(p, kinds) for p in parts)
    return False


def _anyhas(parts: tuple[Tree, ...], kinds: tuple[str, ...]) -> bool:
    return any(has(part, kinds) for part in parts)


# A pattern is translated from left to right into a language of *suffixes*: what may follow, up to the end of the
# string, where a part of it begins.  Such a language depends on the text before it only by the kind of the preceding
# character; each regular part is split into its words by the kind of their last character.  A look-behind depends on
# all the text before it: up to the last one of them a language of *prefixes* is built instead.
class _Lowering:
    """Translates one pattern from tree to language; results for parts are kept.  ``word``: the characters of words."""

    def __init__(self, word: Ranges) -> None:
        letter, other = chars(word), chars(ranges_minus(ANY.args, word))
        self.ends = {_Before.START: EPS, _Before.WORD: cat(ALL, letter), _Before.OTHER: cat(ALL, other)}
        self.begins_word = cat(letter, ALL)
        self.suffixes: dict[Any, Regular] = {}
        self.work = Work(WORK.assertions)

    def whole(self, parts: tuple[Tree, ...], left: Regular) -> Regular:
        """The strings made of ``left``, then ``parts``, then anything."""
        for i, part in enumerate(parts):
            following = parts[i + 1 :]
            if not _anyhas(parts[i:], ("lookbehind",)) and not self._settles(part):
                return self._joined(left, parts[i:])
            self._count()
            match part:
                case Regular():
                    left = cat(left, part)
                case Concatenation(parts=inner):
                    return self.whole((*inner, *following), left)
                case Boundary(kind="start"):
                    left = EPS if left.nullable else NONE
                case LookAround(ahead=False, negative=negative, body=body):
                    if has(body, ("word", "no word", "end", "lookahead")):
                        raise NotRegular("an assertion about what follows inside a look-behind")
                    before = self.whole((body, END), ALL)
                    left = inter(left, neg(before) if negative else before)
                case LookAround(negative=negative, body=body) if left == EPS:
                    seen = self.whole((body,), EPS)
                    return inter(neg(seen) if negative else seen, self.whole(following, left))
                case Alternation(options=options):
                    return alt(*(self.whole((option, *following), left) for option in options))
                case Repetition(body=body, least=least, most=most):
                    if most is None or most > _MAX_UNROLL:
                        raise NotRegular("an assertion inside a repeat, combined with a look-behind")
                    return alt(*(self.whole((*(body,) * n, *following), left) for n in range(least, most + 1)))
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
        if not _anyhas(parts, _LEFT_CONTEXT):
            return cat(left, self.suffix(parts, _Before.OTHER))
        return alt(*(cat(inter(left, ends), self.suffix(parts, before)) for before, ends in self.ends.items()))

    def suffix(self, parts: tuple[Tree, ...], before: _Before) -> Regular:
        """The strings that may follow, up to the end, where ``parts`` begin after a character of kind ``before``."""
        if not parts:
            return ALL
        if not _anyhas(parts, _LEFT_CONTEXT):
            before = _Before.OTHER  # no assertion depends on it
        key = (parts, before)
        language = self.suffixes.get(key)
        if language is None:
            self._count()
            language = self.suffixes[key] = self._suffix(parts[0], parts[1:], before)
        return language

    def _suffix(self, part: Tree, following: tuple[Tree, ...], before: _Before) -> Regular:
        match part:
            case Regular():
                return self._after_regular(part, following, before)
            case Concatenation(parts=inner):
                return self.suffix((*inner, *following), before)
            case Alternation(options=options):
                return alt(*(self.suffix((option, *following), before) for option in options))
            case Boundary(kind="start"):
                return self.suffix(following, before) if before is _Before.START else NONE
            case Boundary(kind="end"):
                return EPS if self.suffix(following, before).nullable else NONE
            case Boundary(kind=kind):
                is_border = kind == "word"
                begins = self.begins_word if is_border != (before is _Before.WORD) else neg(self.begins_word)
                return inter(self.suffix(following, before), begins)
            case LookAround(ahead=True, negative=negative, body=body):
                seen = self.suffix((body,), before)
                return inter(neg(seen) if negative else seen, self.suffix(following, before))
            case Repetition():
                return self._repeated(part, following, before)
        raise NotRegular("a look-behind inside another assertion")

    def _after_regular(self, part: Regular, following: tuple[Tree, ...], before: _Before) -> Regular:
        if not _anyhas(following, _LEFT_CONTEXT):
            return cat(part, self.suffix(following, before))
        out = [self.suffix(following, before)] if part.nullable else []
        kinds = (_Before.WORD, _Before.OTHER)
        return alt(*out, *(cat(inter(part, self.ends[kind]), self.suffix(following, kind)) for kind in kinds))

    def _repeated(self, part: Repetition, following: tuple[Tree, ...], before: _Before) -> Regular:
        body, least, most = part.body, part.least, part.most
        tempered = self._tempered(body)
        if tempered is not None and self.suffix(following, before) == EPS:
            step, forbidden = tempered  # ((?!A)C)*$: no A begins anywhere in what is read
            return inter(rep(step, least, most), neg(cat(ALL, forbidden)))
        if most is not None and most <= _MAX_UNROLL:
            return alt(*(self.suffix((*(body,) * n, *following), before) for n in range(least, most + 1)))
        if least == 0 and not following:
            return ALL
        if least <= 1 and not has(body, ("word", "no word", "end", "lookbehind", "lookahead")):
            later = tree_rep(_without_start(body), 0, None if most is None else most - 1)
            once = self.suffix((body, later, *following), before)
            return alt(once, self.suffix(following, before)) if least == 0 else once
        raise NotRegular("an assertion inside an unbounded repeat")

    def _tempered(self, body: Tree) -> tuple[Regular, Regular] | None:
        """``(C, A...)`` of a body ``(?!A)C`` where C is one character and A is not empty."""
        match body:
            case Concatenation(parts=(LookAround(ahead=True, negative=True, body=look), Regular(op="chars") as step)):
                if has(look, _LEFT_CONTEXT):
                    return None
                seen = self.suffix((look,), _Before.OTHER)
                return None if seen.nullable else (step, seen)
        return None

    def _count(self) -> None:
        try:
            self.work.spend()
        except TooMuch:
            raise NotRegular("too many choices around anchors and word boundaries") from None


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
            return tree_rep(_without_start(body), least, most)
        case LookAround(ahead=ahead, negative=negative, body=body):
            return LookAround(ahead, negative, _without_start(body))
    return tree
