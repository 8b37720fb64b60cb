"""Texts that a client's Lark grammar has and the engine's lexer loses, since it never goes back to an earlier match.

The lexer is followed over the grammar: it reads all lexemes of a place at once, for as long as one of them goes on.
Wherever a lexeme has ended while another goes on, a second reader takes what may follow the first.  If the lexer then
has nothing left to read, or cannot end where the reader can, the text is lost.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeAlias

from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.languages import NONE, Regular, derivative_classes, derive
from grammars.text_grammars.lark.ast import AltExpr, Expr, LarkGrammar, Name, Repeated, SeqExpr, WhenExpr
from grammars.text_grammars.lark.follow_sets import END, FollowSets, set_bits
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.text_grammars.lark.greedy_lexemes import LexemeLanguages, class_representatives, shown_lexeme

__all__ = ["LostText", "lost_texts"]


#: The longest repeat that is written out, and the parts of a grammar that is.
_MOST_COPIES, _MOST_PARTS = 8, 2_000


class LostText(NamedTuple):
    """Three lexemes, as shown in reports: the lexer reads ``long`` where ``follower`` should follow ``short``."""

    short: str
    long: str
    follower: str


class _Begun(NamedTuple):
    """A lexeme that has been begun: what may complete it, the set that may follow it, and its number."""

    left: Regular
    followers: int
    number: int

    @property
    def may_be_last(self) -> bool:
        return self.left.nullable and bool(self.followers & END)


#: The lexemes that the lexer reads at once, each once.
_Group: TypeAlias = tuple[_Begun, ...]


def lost_texts(source: LarkGrammar) -> list[LostText]:
    """Return the lexemes that the engine's lexer reads too far.

    ``N ".." N`` with ``N: /[0-9]+(\\.[0-9]+)?/`` loses ``1..5``: ``1.`` may become a longer number, and then cannot.
    In a grammar with ``%ignore`` what separates two lexemes may stand between them: there a match that is longer, and
    ends, is what its author expects.  What cannot be analysed, or not with the work of one grammar, is left out.
    """
    walk = _Walk(source)
    with suppress(TooMuch):
        walk.run()
    return list(walk.lost)


class _Walk:
    """The walk over the texts of one grammar, shortest first."""

    def __init__(self, source: LarkGrammar) -> None:
        self._languages = LexemeLanguages(source)
        self._sets = FollowSets(_written_out(source), self._languages.may_be_empty, by_place=True)
        self._ignored = [ignore.body for ignore in source.ignores]
        self._work = Work(WORK.lexemes)
        self._beginnings: dict[int, _Group] = {}
        self.lost: dict[LostText, None] = {}

    def _begin(self, bits: int) -> _Group:
        """Return the lexemes of a set, none of their characters read; those of unknown language are left out."""
        if bits not in self._beginnings:
            self._work.spend(bits.bit_count())
            lexemes = [(i, self._sets.lexemes[i], self._sets.followers.get(i, 0)) for i in set_bits(bits & ~END)]
            lexemes += [(-1 - i, ignored, bits) for i, ignored in enumerate(self._ignored)]
            self._beginnings[bits] = tuple(
                _Begun(term, followers, number)
                for number, lexeme, followers in lexemes
                if lexeme is not None and (term := self._languages.of(lexeme)) is not None
            )
        return self._beginnings[bits]

    def _shown(self, begun: _Begun) -> str:
        lexeme = self._ignored[-1 - begun.number] if begun.number < 0 else self._sets.lexemes[begun.number]
        return shown_lexeme(lexeme) if lexeme is not None else ""

    def _after(self, begun: Iterable[_Begun]) -> _Group:
        """Return what may follow the lexemes that end here."""
        return tuple(dict.fromkeys(chain(*(self._begin(one.followers) for one in begun if one.left.nullable))))

    def _read(self, begun: _Group, codes: Sequence[int]) -> list[_Group]:
        """Return for each character, in ascending order, those of the lexemes that go on with it, after it."""
        moved: list[dict[_Begun, None]] = [{} for _ in codes]
        for one in begun:
            for low, high, left in _moves(one.left):
                reached = range(bisect_left(codes, low), bisect_right(codes, high))
                self._work.spend(4 * (2 + len(reached)))
                for i in reached:
                    moved[i][_Begun(left, one.followers, one.number)] = None
        return list(map(tuple, moved))

    def run(self) -> None:
        """Walk on from the beginning; raises `TooMuch`."""
        places = [self._sets.begin]
        for bits in places:  # which it extends
            places += sorted({self._sets.followers.get(i, 0) for i in set_bits(bits)} - set(places))
        seen: set[tuple[frozenset[_Begun], _Begun | None]] = set()
        waiting: deque[tuple[_Group, _Begun | None, LostText | None]] = deque(
            (self._begin(bits), None, None) for bits in places
        )
        while waiting:
            group, reader, lost = waiting.popleft()
            if (frozenset(group), reader) in seen or lost in self.lost:
                continue
            seen.add((frozenset(group), reader))
            self._work.spend(len(group))
            if reader is None or lost is None:
                waiting += self._read_as_the_lexer(group)
            elif reader.may_be_last and not any(one.may_be_last for one in group):
                self.lost[lost] = None
            else:
                waiting += self._read_apart(group, reader, lost)

    def _read_as_the_lexer(self, group: _Group) -> Iterator[tuple[_Group, _Begun | None, LostText | None]]:
        after = self._after(group)
        codes = class_representatives(*(one.left for one in (*group, *after)))
        begun_after = [(short, self._read(self._after([short]), codes)) for short in group if short.left.nullable]
        reads = zip(self._read(group, codes), self._read(after, codes), strict=True)
        for i, (longer, next_lexemes) in enumerate(reads):
            yield longer or next_lexemes, None, None
            if longer and next_lexemes and not self._is_expected(longer):
                long = min(map(self._shown, longer))
                for short, followers in begun_after:
                    for reader in followers[i]:
                        if reader not in longer:
                            yield longer, reader, LostText(self._shown(short), long, self._shown(reader))

    def _read_apart(
        self, group: _Group, reader: _Begun, lost: LostText
    ) -> Iterator[tuple[_Group, _Begun | None, LostText | None]]:
        choices, after = (reader, *self._after([reader])), self._after(group)
        codes = class_representatives(*(one.left for one in (*group, *after, *choices)))
        reads = (self._read(begun, codes) for begun in (choices, group, after))
        for readers, longer, next_lexemes in zip(*reads, strict=True):
            if readers and not (longer or next_lexemes):
                self.lost[lost] = None
                return
            if not self._is_expected(longer):
                yield from ((longer or next_lexemes, other, lost) for other in readers if other not in longer)

    def _is_expected(self, longer: _Group) -> bool:
        return bool(self._ignored) and any(one.left.nullable for one in longer)


@lru_cache(maxsize=10_000)
def _moves(term: Regular) -> list[tuple[int, int, Regular]]:
    """Return the ranges of characters that the term may begin with, each with what follows there."""
    classes = ((low, high, derive(term, low)) for low, high in derivative_classes(term))
    return [move for move in classes if move[2] != NONE]


def _written_out(source: LarkGrammar) -> LarkGrammar:
    """Return the grammar with its rules in place of their names, and repeats up to `_MOST_COPIES` written out.

    What follows a lexeme is then known for each of its places.  Recursive rules stay, and the whole grammar where it
    would get too large or too deep.
    """
    rules = {d.name: d for d in source.definitions if not d.is_terminal and not d.attributes}
    uses = uses_of(rules.values())
    groups = components(uses)
    plain = {name for group in groups if len(group) == 1 for name in group if name not in uses[name]}
    room = [_MOST_PARTS]

    def copy(expr: Expr) -> Expr:
        room[0] -= 1
        if room[0] < 0:
            raise TooMuch
        match expr:
            case Name(name=name) if name in plain:
                return copy(rules[name].body)
            case SeqExpr(parts=parts):
                return SeqExpr(tuple(map(copy, parts)))
            case AltExpr(options=options):
                return AltExpr(tuple(map(copy, options)))
            case Repeated(body=body, least=least, most=most):
                if least > _MOST_COPIES or (most or 0) > _MOST_COPIES:
                    return replace(expr, body=copy(body))
                more = range(1 if most is None else most - least)
                last = None if most is None else 1
                return SeqExpr((*(copy(body) for _ in range(least)), *(Repeated(copy(body), 0, last) for _ in more)))
            case WhenExpr(body=body):
                return replace(expr, body=copy(body))
        return replace(expr)

    try:
        return replace(source, definitions=tuple(
            d if d.is_terminal or d.attributes else replace(d, body=copy(d.body))
            for d in source.definitions if d.name not in plain or d.name == "start"
        ))  # fmt: skip
    except (TooMuch, RecursionError):
        return source
