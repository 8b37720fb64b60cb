"""Lexemes that can never end, since whatever may follow them continues them.

The engine's lexer takes the longest lexeme and never backtracks: ``start: /[a-z]+/ "end"`` compiles, but no text ends
it, because the letters of ``end`` continue the lexeme.  `endless_lexemes` finds the places where this holds in every
accepting state.  It reports only what is certain; what cannot be analysed passes.
An ignored lexeme that can never end at a place is left out there by the writer (`ignored_after`): no text is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.languages import is_finite
from grammars.regular.terms import NONE, Regular, alt, derive
from grammars.text_grammars.lark.ast import Expr, LarkGrammar, Name, SourcePlace
from grammars.text_grammars.lark.check import having_text
from grammars.text_grammars.lark.follow_sets import FollowSets, set_bits
from grammars.text_grammars.lark.graph import reach
from grammars.text_grammars.lark.greedy_lexemes import (
    LexemeLanguages,
    class_representatives,
    derivatives,
    moves,
    shown_lexeme,
)
from grammars.text_grammars.lark.written_out import written_out

__all__ = ["BEGIN", "EndlessLexeme", "can_end", "endless_lexemes", "ignored_after"]

#: The place before the first lexeme.
BEGIN: SourcePlace = (0, 0)


class EndlessLexeme(NamedTuple):
    """A lexeme, as shown in errors and rows, that can never end at a place."""

    shown: str
    at: SourcePlace  #: of what is ignored: that of the lexeme before it
    has_text: bool  #: does the grammar have a text without it, or because the lexeme may be empty?
    is_avoidable: bool  #: is there an option without such lexemes?
    is_ignored: bool


class _Ends:
    """The ends of the lexemes of a grammar; ``then`` is as in `endless_lexemes`."""

    def __init__(self, source: LarkGrammar, then: Regular | None = None, *, by_place: bool = True) -> None:
        self.languages = LexemeLanguages(source, () if then is None else (then,))
        self.work = Work(WORK.lexemes)
        self.sets = FollowSets(source, by_place=by_place)
        self._ignored: list[Expr] = [ignore.body for ignore in source.ignores]
        self._then = then if then is None else self.languages.compact(then)
        self._following: dict[int, tuple[Regular | None, set[int]]] = {}
        self._ends: dict[tuple[Regular, Regular], bool] = {}

    def following(self, bits: int) -> tuple[Regular | None, set[int]]:
        """Return what may follow, None if anything may, and the numbers of what is ignored before it and can end."""
        if bits not in self._following:
            self.work.spend(bits.bit_count())
            terms = [self.languages.of(self.lexeme(i)) if i else self._then for i in set_bits(bits)]
            kept, left = set(range(len(self._ignored))), -1
            while len(kept) != left:
                left, what = len(kept), [*terms, *(self.languages.of(self._ignored[i]) for i in kept)]
                known = [term for term in what if term is not None]
                follower = alt(*known) if bits and len(known) == len(what) else None
                kept = {i for i in kept if self.may_end(self.languages.of(self._ignored[i]), follower)}
            self._following[bits] = follower, kept
        return self._following[bits]

    def may_end(self, term: Regular | None, follower: Regular | None) -> bool:
        if follower is None or term is None or (term.plain and term != NONE and is_finite(term)):
            return True  # a longest word cannot be continued
        if (term, follower) not in self._ends:
            self._ends[term, follower] = can_end(term, follower, self.work)
        return self._ends[term, follower]

    def lexemes(self, numbers: Iterable[int]) -> dict[int, tuple[Regular, Regular | None]]:
        """Return those of known language, each with what may follow it; None if anything ends it."""
        terms = ((n, self.languages.of(self.lexeme(n))) for n in numbers if n)
        return {n: (term, self.following(self.sets.followers.get(n, 0))[0]) for n, term in terms if term is not None}

    def groups(self) -> dict[tuple[SourcePlace, int], None]:
        """Return the sets of lexemes that the lexer reads at once, each with the place before it."""
        after = ((self.sets.places[n], bits) for n in self.sets.reached() if (bits := self.sets.followers.get(n, 0)))
        return dict.fromkeys([(BEGIN, self.sets.begin), *after])

    def lexeme(self, number: int) -> Expr:
        """Return a lexeme; negative numbers are of ignored ones."""
        return self._ignored[-1 - number] if number < 0 else self.sets.lexemes[number]  # type: ignore[return-value]


def endless_lexemes(source: LarkGrammar, *, then: Regular | None = None) -> list[EndlessLexeme]:
    """Return the places at which a lexeme can never end, as far as that is certain.

    ``then`` is the text that follows the whole grammar; None if a token follows, which ends any lexeme.
    """
    trapped, source = _trapped(source, then), written_out(source)
    ends = _Ends(source, then)
    places: dict[int, SourcePlace] = {}
    try:
        endless = {n for n, pair in ends.lexemes(ends.sets.reached()).items() if not ends.may_end(*pair)}
        for _, bits in ends.groups() if endless else ():
            ends.work.spend(bits.bit_count())
            lexemes = ends.lexemes(set_bits(bits))
            ending = {term for n, (term, _) in lexemes.items() if n not in endless}
            # one that an equal lexeme is read with, which may end, loses nothing
            found = {n: ends.sets.places[n] for n, (term, _) in lexemes.items() if n in endless and term not in ending}
            places = {**found, **places}
    except TooMuch:
        return []
    dead = {id(ends.sets.lexemes[n]): ends.lexemes([n])[n][0].nullable for n in places if n > 0}
    never_empty = [key for key, may_be_empty in dead.items() if not may_be_empty]
    start = Name("start")
    has_text, has_option = (having_text(source, without).holds(start) for without in (never_empty, dead))
    return list(dict.fromkeys(
        EndlessLexeme(shown_lexeme(ends.lexeme(n)), at, has_text or n < 0, has_option or n < 0, n < 0)
        for n, at in sorted([*places.items(), *trapped.items()], key=lambda item: (item[0] < 0, item[1]))
    ))  # fmt: skip


def _trapped(source: LarkGrammar, then: Regular | None) -> dict[int, SourcePlace]:
    """Return what is ignored after a lexeme of which one use lets it never end, each with the lexeme's place."""
    written, ends = ignored_after(source), _Ends(source, then, by_place=False)
    trapped: dict[int, SourcePlace] = {}
    with suppress(TooMuch):
        for place, bits in ends.sets.uses(ends.work) if written else ():
            trapped |= {-1 - i: place for i in written.get(place, set()) - ends.following(bits)[1]}
    return trapped


def ignored_after(source: LarkGrammar) -> dict[SourcePlace, set[int]]:
    """Return for the place of each lexeme, and for `BEGIN`, the numbers of what is ignored there and may end."""
    after: dict[SourcePlace, set[int]] = {}
    if source.ignores:
        ends = _Ends(source)
        try:
            for place, bits in ends.groups():
                after[place] = after.get(place, set()) | ends.following(bits)[1]
        except TooMuch:
            return {}
    return after


def can_end(lexeme: Regular, follower: Regular, work: Work) -> bool:
    """Whether the lexeme has an accepting state in which the follower begins without continuing it.

    Also True if there are too many states to decide.
    """
    if follower.nullable:
        return True
    for number, state in enumerate(reach([lexeme], derivatives)):
        if number >= WORK.lexeme_states:
            return True
        work.spend((len(moves(state)) + 4) * (state.size + 4))
        if state.nullable:
            codes = class_representatives(state, follower)
            work.spend(len(codes) * (state.size + follower.size))
            if any(derive(state, c) == NONE and derive(follower, c) != NONE for c in codes):
                return True
    return False
