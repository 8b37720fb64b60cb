"""Lexemes that can never be left.

A lexeme is greedy and gives nothing back: ``start: /[a-z]+/ "end"`` compiles, and no text ever ends it, because
``end`` goes on being letters.  `find_trap` looks for such a lexeme: one in whose every accepting state whatever may
follow it goes on being part of it.  It answers only what it is sure of; what it cannot look into passes.

All looking is paid from one account (`Work`), so that no grammar takes long: an answer never depends on the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from grammars.regular.languages import (
    ALL,
    MAX_CODE_POINT,
    NONE,
    Regular,
    alt,
    cat,
    chars,
    derive,
    inter,
    is_finite,
    lengths,
    neg,
    rep,
    text,
)
from grammars.text_grammars.lark.ast import (
    AltExpr,
    AndExpr,
    CharRange,
    Expr,
    Literal,
    Name,
    NotExpr,
    Place,
    Regexp,
    Repeated,
    SeqExpr,
    Source,
)
from grammars.text_grammars.lark.follow_sets import END, Followed, bits_of
from grammars.text_grammars.lark.graph import components, uses_of
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language

__all__ = ["Languages", "Work", "can_be_left", "find_trap", "swallowing"]

#: States of one lexeme that are looked at before it passes unseen.
_BUDGET = 400
#: Parts of terms touched while one grammar is looked into, a few tenths of a second.
_WORK = 1_000_000
#: Parts of a lexeme when what it names is written out in it; larger ones are not looked into.
_MAX_PARTS = 25_000


class TooMuchWork(Exception):
    """The account is empty."""


class Work:
    """What may still be spent on looking into one grammar."""

    def __init__(self, left: int = _WORK) -> None:
        self.left = left

    def spend(self, parts: int) -> None:
        """Raises `TooMuchWork` when there is not so much left."""
        if parts > self.left:
            self.left = 0
            raise TooMuchWork
        self.left -= parts


class Languages:
    """The languages of a grammar's lexemes, each terminal looked into once, those that it is made of before it."""

    def __init__(self, source: Source) -> None:
        self._found: dict[Expr, Regular | None] = {}
        self._terminals: dict[str, Regular | None] = {}
        terminals = {d.name: d for d in source.definitions if d.is_terminal}
        for group in components(uses_of(terminals.values())):
            for name in group:
                self._terminals[name] = self.of(terminals[name].body)

    def of(self, lexeme: Expr) -> Regular | None:
        """The language of a lexeme; None where it cannot be said, or is too large to look into."""
        if lexeme not in self._found:
            try:
                self._found[lexeme] = self._language(lexeme)
            except (InvalidRegex, NotTranslated, RecursionError):
                self._found[lexeme] = None
        return self._found[lexeme]

    def _language(self, expr: Expr) -> Regular:
        match expr:
            case Literal(text=word, ignore_case=ignore_case):
                return _any_case(word) if ignore_case else text(word)
            case CharRange(first=first, last=last):
                return chars([(ord(first), ord(last))])
            case Regexp(regex=regex, flags=flags):
                return language(regex, flags)
            case Name(name=name):
                found = self._terminals.get(name)
                if found is None:
                    raise NotTranslated(name)
                return found
            case SeqExpr(parts=parts):
                return _small(cat(*map(self._language, parts)))
            case AltExpr(options=options):
                return _small(alt(*map(self._language, options)))
            case AndExpr(parts=parts):
                return _small(inter(*map(self._language, parts)))
            case NotExpr(body=body):
                return neg(self._language(body))
            case Repeated(body=body, least=least, most=most):
                return rep(self._language(body), least, most)
        raise NotTranslated(type(expr).__name__)


def _small(term: Regular) -> Regular:
    """Keeps terminals that double with each definition from growing: nothing larger is put together."""
    if term.size > _MAX_PARTS:
        raise NotTranslated("too large to look into")
    return term


def _any_case(word: str) -> Regular:
    return cat(*(chars([(ord(c), ord(c)) for c in {char, char.lower(), char.upper()} if len(c) == 1]) for char in word))


def find_trap(source: Source, *, then: Regular | None = None) -> tuple[str, Place] | None:
    """A lexeme that can never be left and where it stands; None where there is none that one can be sure of.

    ``then`` is the text that follows the whole grammar; None when a token does, which ends any lexeme.
    """
    analysis, languages, work = Followed(source), Languages(source), Work()
    ignored = [languages.of(ignore.body) for ignore in source.ignores]
    behind: dict[int, Regular | None] = {}

    def term_behind(bits: int) -> Regular | None:
        if bits not in behind:
            work.spend(bits.bit_count())
            what = [then if i == 0 else languages.of(analysis.lexemes[i]) for i in bits_of(bits)]  # type: ignore[arg-type]
            what += ignored
            known = [term for term in what if term is not None]
            behind[bits] = alt(*known) if len(known) == len(what) else None
        return behind[bits]

    try:
        for number, bits in analysis.followers.items():
            lexeme = analysis.lexemes[number]
            assert lexeme is not None
            if not bits or (bits & END and then is None):
                continue
            own = languages.of(lexeme)
            if own is None or (own.plain and own != NONE and is_finite(own)):  # nothing goes on being a longest word
                continue
            follower = term_behind(bits)
            if follower is not None and not _can_be_left(own, follower, work):
                return _shown(lexeme), analysis.places[number]
    except TooMuchWork:
        pass
    return None


def _shown(lexeme: Expr) -> str:
    match lexeme:
        case Name(name=name):
            return name
        case Regexp(regex=regex):
            return f"/{regex[:40]}/"
        case Literal(text=word):
            return repr(word[:40])
    return "a lexeme"


def can_be_left(lexeme: Regular, followers: Iterable[Regular]) -> bool:
    """Is there a state in which the lexeme may end and a follower begins that cannot go on being part of it?

    True also where the budget does not suffice to be sure that there is none.
    """
    try:
        return _can_be_left(lexeme, alt(*followers), Work())
    except TooMuchWork:
        return True


def _can_be_left(lexeme: Regular, follower: Regular, work: Work) -> bool:
    if follower.nullable:
        return True
    seen = {lexeme}
    waiting = deque([lexeme])
    while waiting:
        state = waiting.popleft()
        codes = _representatives(state, follower) if state.nullable else _representatives(state)
        work.spend((len(codes) + 4) * (state.size + 4))
        if state.nullable:
            work.spend(len(codes) * follower.size)
            if any(derive(state, c) == NONE and derive(follower, c) != NONE for c in codes):
                return True
        for code in codes:
            following = derive(state, code)
            if following != NONE and following not in seen:
                if len(seen) >= _BUDGET:
                    return True
                seen.add(following)
                waiting.append(following)
    return False


def swallowing(source: Source, work: Work) -> list[Expr]:
    """Lexemes that may go on where they, or another lexeme allowed at the same place, should have ended.

    The engine takes the longest lexeme: while one of these goes on, what should follow the other is lost.  Where the
    budget does not suffice the lexeme is listed; where ``work`` does not, every lexeme of more than one character.
    """
    analysis, languages = Followed(source), Languages(source)
    found: dict[Expr, None] = {}

    def known(number: int) -> Regular:
        lexeme = analysis.lexemes[number]
        term = None if lexeme is None else languages.of(lexeme)
        return ALL if term is None else term

    behind: dict[int, Regular] = {}
    looked: set[tuple[int, int]] = set()
    try:
        work.spend(len(analysis.lexemes))
        for place in {*analysis.followers.values(), analysis.begin}:
            work.spend(place.bit_count())
            lexemes = [i for i in bits_of(place) if i]
            for short in lexemes:
                bits = analysis.followers.get(short, 0)
                if bits not in behind:
                    work.spend(bits.bit_count())
                    behind[bits] = alt(*(known(i) for i in bits_of(bits) if i))
                for long in lexemes:
                    work.spend(10)
                    if (short, long) in looked or analysis.lexemes[long] in found:
                        continue
                    looked.add((short, long))
                    if _can_swallow(known(short), known(long), behind[bits], work):
                        found[analysis.lexemes[long]] = None  # type: ignore[index]
    except TooMuchWork:
        many = (i for i in range(1, len(analysis.lexemes)) if lengths(known(i))[1] != 1)
        return [analysis.lexemes[i] for i in many]  # type: ignore[misc]
    return list(found)


def _can_swallow(short: Regular, long: Regular, behind: Regular, work: Work) -> bool:
    """Is there a text of ``short`` behind which a first character of ``behind`` goes on being part of ``long``?"""
    if behind == NONE or lengths(long)[1] == 1:
        return False
    seen = {(short, long)}
    waiting = deque(seen)
    while waiting:
        one, other = waiting.popleft()
        codes = _representatives(one, other, behind)
        work.spend((len(codes) + 4) * (one.size + other.size + 4))
        for code in codes:
            further = derive(other, code)
            if further == NONE:
                continue
            if one.nullable:
                work.spend(behind.size)
                if derive(behind, code) != NONE:
                    return True
            pair = (derive(one, code), further)
            if pair[0] != NONE and pair not in seen:
                if len(seen) >= _BUDGET:
                    return True
                seen.add(pair)
                waiting.append(pair)
    return False


@lru_cache(maxsize=10_000)
def _borders(term: Regular) -> frozenset[int]:
    match term.op:
        case "chars":
            return frozenset(edge for low, high in term.args for edge in (low, high + 1))
        case "words":
            return frozenset(edge for word in term.args if word for edge in (ord(word[0]), ord(word[0]) + 1))
        case "rep":
            return _borders(term.args[0])
        case "cat":
            found: set[int] = set()
            for part in term.args:
                found |= _borders(part)
                if not part.nullable:
                    break
            return frozenset(found)
    return frozenset(edge for part in term.args for edge in _borders(part))


def _representatives(*terms: Regular) -> list[int]:
    """One code point of every class that the terms tell apart; no surrogates, which no text holds."""
    edges = {0} | {edge for term in terms for edge in _borders(term) if edge <= MAX_CODE_POINT}
    return sorted({code if not 0xD800 <= code <= 0xDFFF else 0xE000 for code in edges})
