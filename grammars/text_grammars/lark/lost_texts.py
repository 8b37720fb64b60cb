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
from functools import lru_cache, reduce
from itertools import chain
from operator import or_
from typing import NamedTuple, TypeAlias

from grammars.limits.work import WORK, TooMuch, Work
from grammars.regular.terms import ANY, EPS, NONE, Regular, chars, ranges_minus
from grammars.text_grammars.lark.ast import Expr, KnownLexeme, LarkGrammar, Name, SourcePlace
from grammars.text_grammars.lark.endless_lexemes import BEGIN, ignored_after
from grammars.text_grammars.lark.follow_sets import END, FollowSets, set_bits
from grammars.text_grammars.lark.graph import reach
from grammars.text_grammars.lark.greedy_lexemes import (
    CLOSE,
    LexemeLanguages,
    class_representatives,
    derivatives,
    moves,
    shown_lexeme,
)
from grammars.text_grammars.lark.written_out import written_out

__all__ = ["LexerWalk", "LostText"]


class LostText(NamedTuple):
    """Three lexemes, as shown in reports: the lexer reads ``long`` where ``follower`` should follow ``short``."""

    short: str
    long: str
    follower: str
    place: str  #: in a structural tag
    is_rare: bool  #: whether the character at which it is read on is not ASCII, or ``long`` is free text

    @property
    def reason(self) -> str:
        return f"{self.follower} cannot always follow {self.short}: the lexer goes on with {self.long}, and not back"


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


class LexerWalk:
    """A walk over the texts of one grammar as the lexer reads them, shortest first.

    ``lost`` are the lexemes that it reads too far: ``N ".." N`` with ``N: /[0-9]+(\\.[0-9]+)?/`` loses ``1..5``: ``1.``
    may become a longer number, and then cannot.  ``cut`` are pairs: a rule with ``lazy`` or ``suffix=``, and a lexeme
    that is not read on where the rule ends.  In a grammar with ``%ignore`` what separates two lexemes may stand
    between them: there a match that is longer, and ends, is what its author expects.  What cannot be analysed, or not
    with the work of one grammar, is left out.

    With ``work`` only ``longer`` is looked for, the lexemes that go on where another may end and be followed: where
    there is none nothing is lost.  Raises `TooMuch` when the work is used up.
    """

    def __init__(self, source: LarkGrammar, work: Work | None = None, *, at_most: bool = False) -> None:
        self._source, self._languages = source, LexemeLanguages(source, (), at_most=at_most)
        self._sets = FollowSets(written_out(source), self._languages.may_be_empty, by_place=True)
        self._ignored = [ignore.body for ignore in source.ignores]
        sets, written, everything = self._sets, ignored_after(source), set(range(len(self._ignored)))
        self._ignored_in = {sets.begin: set(written.get(BEGIN, everything))}
        for number, bits in sets.followers.items():
            self._ignored_in.setdefault(bits, set()).update(written.get(sets.places.get(number, BEGIN), everything))
        self._work = work or Work(WORK.lexemes)
        self._beginnings: dict[int, _Group] = {}
        self._forced: dict[frozenset[_Begun], frozenset[_Begun]] = {}
        self._words: dict[int, bool] = {}  #: which lexemes may begin with a letter
        self._lazy = {d.name for d in source.definitions if d.is_lexeme_rule}
        self.lost: dict[LostText, None] = {}
        self.cut: dict[tuple[str, str], None] = {}
        self.longer: dict[Expr, None] = {}
        is_known = all(self._languages.of(lexeme) for lexeme in sets.lexemes if lexeme is not None)
        self.may_end = bool(sets.begin & END) or not is_known  #: False only where no text ends the grammar
        unread = [i for i in sets.reached() if self._languages.of(sets.lexemes[i]) is None]  # type: ignore[arg-type]
        unread *= not at_most
        self._unread = sum(1 << i for i in unread)
        if work is not None:
            self._run([sets.begin], with_readers=False)
            return
        try:
            self._run([sets.begin, *(sets.followers.get(i, 0) for i in unread)])
        except TooMuch:
            self.may_end = True
            self._work = Work(WORK.lexemes)
            with suppress(TooMuch):  # hanging lexemes at least, wherever they stand
                self._run([sets.begin, *sets.followers.values()], with_readers=False)

    def hanging(self) -> tuple[str, SourcePlace] | None:
        """Return a lexeme, and its place, in which one character alone goes on for ever: the engine would follow it."""
        done: set[frozenset[_Begun]] = set()
        for group in self._forced:
            passed: set[frozenset[_Begun]] = set()
            while group in self._forced and group not in done:
                done.add(group)
                passed.add(group)
                group = self._forced[group]
            if group in passed:
                begun = max(group, key=lambda lexeme: lexeme.number)
                at = getattr(self._lexeme(begun), "at", BEGIN)
                return self._shown(begun), self._sets.places.get(begun.number, at)
        return LexerWalk(self._source, at_most=True).hanging() if self._unread else None

    def _begin(self, bits: int) -> _Group:
        """Return the lexemes of a set, none of their characters read; those of unknown language are left out."""
        if bits not in self._beginnings:
            self._work.spend(bits.bit_count())
            lexemes = [(i, self._sets.lexemes[i], self._sets.followers.get(i, 0)) for i in set_bits(bits & ~END)]
            lexemes += [(-1 - i, self._ignored[i], bits) for i in self._ignored_in.get(bits, ())]
            self._beginnings[bits] = tuple(
                _Begun(term, followers, number)
                for number, lexeme, followers in lexemes
                if lexeme is not None and (term := self._languages.of(lexeme)) is not None
            )
        return self._beginnings[bits]

    def _lexeme(self, begun: _Begun) -> Expr:
        number = begun.number
        return self._ignored[-1 - number] if number < 0 else self._sets.lexemes[number]  # type: ignore[return-value]

    def _shown(self, begun: _Begun) -> str:
        return shown_lexeme(self._lexeme(begun))

    def _after(self, begun: Iterable[_Begun]) -> _Group:
        """Return what may follow the lexemes that end here."""
        return tuple(dict.fromkeys(chain(*(self._begin(lexeme.followers) for lexeme in begun if lexeme.left.nullable))))

    def _read(self, begun: _Group, codes: Sequence[int]) -> list[_Group]:
        """Return for each character, in ascending order, those of the lexemes that go on with it, after it."""
        moved: list[dict[_Begun, None]] = [{} for _ in codes]
        for lexeme in begun:
            for low, high, left in moves(lexeme.left):
                reached = range(bisect_left(codes, low), bisect_right(codes, high))
                copied = sum(map(len, left.args)) // _LETTERS_A_STEP if left.op == "words" else 0
                self._work.spend(4 * (2 + len(reached)) + left.size + copied)
                for i in reached:
                    moved[i][_Begun(left, lexeme.followers, lexeme.number)] = None
        return list(map(tuple, moved))

    def _run(self, begin: Iterable[int], *, with_readers: bool = True) -> None:
        seen: set[tuple[frozenset[_Begun], _Begun | None]] = set()
        waiting: deque[tuple[_Group, _Begun | None, LostText | None]] = deque(
            (self._begin(bits), None, None) for bits in dict.fromkeys(begin)
        )
        while waiting:
            group, reader, lost = waiting.popleft()
            if (frozenset(group), reader) in seen or lost in self.lost:
                continue
            seen.add((frozenset(group), reader))
            is_last = all(lexeme.followers == END and not self._is_lazy(lexeme) for lexeme in group)
            if not with_readers and is_last:
                continue  # where nothing follows nothing is read too far
            self._work.spend(len(group))
            if ended := tuple(lexeme for lexeme in group if lexeme.left.nullable and self._is_lazy(lexeme)):
                self._cut(group, ended)
                group = ended
            if reader is None or lost is None:
                if len({*map(self._is_lazy, group)}) == 1 and all(self._ends(group, lexeme) for lexeme in group):
                    self.may_end |= any(lexeme.followers & END for lexeme in group)
                    waiting += ((self._begin(lexeme.followers), None, None) for lexeme in group)
                    continue
                self.may_end |= any(lexeme.may_be_last for lexeme in group)
                waiting += self._read_as_the_lexer(group, with_readers=with_readers)
            elif reader.may_be_last and not any(lexeme.may_be_last for lexeme in group):
                self.lost[lost] = None
            else:
                waiting += self._read_apart(group, reader, lost)

    def _ends(self, group: _Group, begun: _Begun) -> bool:
        """Whether this lexeme of a structural tag cannot be read too far, so that its characters do not matter."""
        lexeme, after = self._lexeme(begun), self._begin(begun.followers)
        if not isinstance(lexeme, KnownLexeme) or begun.left == EPS:
            return False
        is_last = not after and not (lexeme.is_lazy and len(group) > 1)
        if is_last or (begun.left.op == "cat" and begun.left.args[-1] == CLOSE):
            return True
        first = chars(move[:2] for next_lexeme in after for move in moves(next_lexeme.left)).args
        is_word = begun.left.op == "words" and len(begun.left.args) == 1
        is_apart = lexeme.is_lazy or is_word or ranges_minus(first, _alphabet(begun.left).args) == first
        return len(group) == 1 and is_apart

    def _is_lazy(self, begun: _Begun) -> bool:
        lexeme = self._lexeme(begun)
        return getattr(lexeme, "is_lazy", False) or (isinstance(lexeme, Name) and lexeme.name in self._lazy)

    def _cut(self, group: _Group, ended: _Group) -> None:
        """Note the lexemes of a group that would go on, or lead elsewhere, where lazy ones have ended."""
        followers = reduce(or_, (lexeme.followers for lexeme in ended))
        for other in group:
            is_other = other.left != EPS or other.followers & ~followers
            pair = self._shown(ended[0]), self._shown(other)
            if other not in ended and is_other and pair not in self.cut and self._has_text(other.left):
                self.cut[pair] = None

    def _has_text(self, term: Regular) -> bool:
        """Whether some text is in the language."""
        for left in reach([term], derivatives):
            self._work.spend(left.size)
            if left.nullable:
                return True
        return False

    def _read_as_the_lexer(
        self, group: _Group, *, with_readers: bool
    ) -> Iterator[tuple[_Group, _Begun | None, LostText | None]]:
        after = self._after(group)
        codes = class_representatives(*(lexeme.left for lexeme in (*group, *after)))
        ended = [lexeme for lexeme in group if lexeme.left.nullable and with_readers]
        begun_after = [(short, self._read(self._after([short]), codes)) for short in ended]
        reads = list(zip(self._read(group, codes), self._read(after, codes), strict=True))
        edges = {edge for lexeme in (*group, *after) for move in moves(lexeme.left) for edge in move[:2]}
        if len(edges) == 1 and not any(x.left.nullable and x.followers & (END | self._unread) for x in group):
            self._forced[frozenset(group)] = frozenset(next(filter(None, chain(*reads))))
        for i, (longer, next_lexemes) in enumerate(reads):
            yield longer or next_lexemes, None, None
            if longer and next_lexemes and not self._is_expected(longer):
                self.longer |= dict.fromkeys(map(self._lexeme, longer))
                long = min(longer, key=self._shown)
                for short, followers in begun_after:
                    for reader in followers[i]:
                        if reader not in longer and not self._is_apart(short, codes[i], reader):
                            places = [getattr(self._lexeme(lexeme), "place", "") for lexeme in (reader, long)]
                            is_ascii, is_text = codes[i] < _ASCII, getattr(self._lexeme(long), "is_text", False)
                            lost = LostText(
                                self._shown(short),
                                self._shown(long),
                                self._shown(reader) + " (beyond ASCII)" * (not is_ascii),
                                places[0] or places[1],
                                is_text or not is_ascii,
                            )
                            yield longer, reader, lost

    def _read_apart(
        self, group: _Group, reader: _Begun, lost: LostText
    ) -> Iterator[tuple[_Group, _Begun | None, LostText | None]]:
        choices, after = (reader, *self._after([reader])), self._after(group)
        codes = class_representatives(*(lexeme.left for lexeme in (*group, *after, *choices)))
        reads = (self._read(begun, codes) for begun in (choices, group, after))
        for code, readers, longer, next_lexemes in zip(codes, *reads, strict=True):
            if (code, code) in CLOSE.args:  # which is no text
                next_lexemes = next_lexemes or group
            if readers and not (longer or next_lexemes):
                self.lost[lost] = None
                return
            if not self._is_expected(longer):
                yield from ((longer or next_lexemes, other, lost) for other in readers if other not in longer)

    def _is_expected(self, longer: _Group) -> bool:
        return bool(self._ignored) and any(lexeme.left.nullable for lexeme in longer)

    def _is_apart(self, short: _Begun, code: int, reader: _Begun) -> bool:
        """Whether authors write something else: something ignored between a word and what goes on as one does.

        Where the reader has other characters, they also write none that other ones stand for: the ``ſ`` of ``(?i:s)``.
        """
        chars = self._chars(code, reader.left)
        if all(map(_is_variant, chars)):
            return not all(map(_is_variant, self._first_chars(reader)))
        if not self._ignored or not any(char.isalnum() or char == "_" for char in chars):
            return False
        if short.number not in self._words:
            self._words[short.number] = any(char.isalpha() or char == "_" for char in self._first_chars(short))
        return self._words[short.number]

    def _first_chars(self, begun: _Begun) -> Iterator[str]:
        for low, high, left in moves(self._languages.of(self._lexeme(begun)) or NONE):
            for code in range(max(low, 0), min(high, _LETTERS) + 1):
                yield from self._chars(code, left)

    def _chars(self, code: int, left: Regular) -> list[str]:
        """Return characters that ``code`` stands for; ``left`` is what follows it, of a first byte the rest too."""
        assert self._languages.alphabet is not None
        return self._languages.alphabet.examples(max(code, 0), [move[:2] for move in moves(left)])


def _is_variant(char: str) -> bool:
    """Whether it is a blank or a digit beyond ASCII, or differs from another letter as ``ſ`` does from ``s``."""
    folded = char.casefold()
    is_folded = len(folded) == 1 and char not in (folded, folded.upper())
    return not char.isascii() and (char.isspace() or char.isdecimal() or is_folded)


#: Letters of words that are copied in the time of one step: a text of 30,000 would take 6 s.
_LETTERS_A_STEP = 64
#: The number of ASCII characters, and of those of which the first of a lexeme are looked at.
_ASCII, _LETTERS = 0x80, 0x250


@lru_cache(maxsize=10_000)
def _alphabet(term: Regular) -> Regular:
    """Return the characters of the term, or more."""
    if term.op == "words":
        return chars((ord(char), ord(char)) for word in term.args for char in word)
    if term.op in ("chars", "not"):
        return term if term.op == "chars" else ANY
    return chars(edges for part in term.args if isinstance(part, Regular) for edges in _alphabet(part).args)
