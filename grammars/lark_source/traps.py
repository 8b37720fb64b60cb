"""Lexemes that can never be left.

A lexeme is greedy and gives nothing back: ``start: /[a-z]+/ "end"`` compiles, and no text ever ends it, because
``end`` goes on being letters.  `find_trap` looks for such a lexeme: one in whose every accepting state whatever may
follow it goes on being part of it.  It answers only what it is sure of; what it cannot look into passes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from grammars.json_schema.regular import (
    ALL,
    MAX_CODE_POINT,
    NONE,
    Regular,
    alt,
    cat,
    chars,
    derive,
    inter,
    lengths,
    neg,
    rep,
    text,
)
from grammars.lark_source.ast import (
    AltExpr,
    AndExpr,
    CharRange,
    Definition,
    Expr,
    Literal,
    Name,
    NotExpr,
    Place,
    Regexp,
    Repeated,
    SeqExpr,
    Source,
    WhenExpr,
    is_lexeme,
    walk,
)
from grammars.rust_regex import InvalidRegex, NotTranslated, language

__all__ = ["can_be_left", "find_trap", "lexeme_language", "swallowing"]

#: States of one lexeme that are looked at before it passes unseen.
_BUDGET = 400
#: Parts of languages that are looked at for one grammar; a large one passes with some of its lexemes unseen.
_MOST_WORK = 2_000_000


class _Work:
    """Counts down what may still be looked at."""

    def __init__(self) -> None:
        self.left = _MOST_WORK

    def spend(self, *terms: Regular) -> bool:
        """Count one look at ``terms``; False when nothing is left for it."""
        self.left -= sum(term.size for term in terms)
        return self.left > 0


class _End(Enum):
    """The end of the grammar, as something that may follow."""

    END = 0


_END = _End.END
_Followers: TypeAlias = set[Expr | _End]


def find_trap(source: Source, *, then: Regular | None = None) -> tuple[str, Place] | None:
    """A lexeme that can never be left and where it stands; None where there is none that one can be sure of.

    ``then`` is the text that follows the whole grammar; None when a token does, which ends any lexeme.
    """
    analysis = _Followed(source)
    ignored = [lexeme_language(ignore.body, source) for ignore in source.ignores]
    languages: dict[Expr, Regular | None] = {}

    def of(expr: Expr) -> Regular | None:
        if expr not in languages:
            languages[expr] = lexeme_language(expr, source)
        return languages[expr]

    work = _Work()
    for lexeme, followers in analysis.followers.items():
        if _END in followers and then is None:
            continue
        work.left -= len(followers)
        if work.left <= 0:
            return None
        own = of(lexeme)
        if own is None or not followers:
            continue
        what = [then if isinstance(follower, _End) else of(follower) for follower in followers]
        what += ignored
        if any(follower is None for follower in what):
            continue
        if not can_be_left(own, [follower for follower in what if follower is not None], work):
            return analysis.shown(lexeme), analysis.places[lexeme]
    return None


def can_be_left(lexeme: Regular, followers: Iterable[Regular], work: _Work | None = None) -> bool:
    """Is there a state in which the lexeme may end and a follower begins that cannot go on being part of it?

    True also where the budget does not suffice to be sure that there is none.
    """
    follower = alt(*followers)
    work = work or _Work()
    if follower.nullable:
        return True
    seen = {lexeme}
    waiting = deque([lexeme])
    while waiting:
        state = waiting.popleft()
        codes = _representatives(state, follower)
        if not all(work.spend(state, follower) for _ in codes):
            return True
        if state.nullable and any(derive(state, c) == NONE and derive(follower, c) != NONE for c in codes):
            return True
        for code in codes:
            following = derive(state, code)
            if following != NONE and following not in seen:
                if len(seen) >= _BUDGET:
                    return True
                seen.add(following)
                waiting.append(following)
    return False


def swallowing(source: Source) -> list[Expr]:
    """Lexemes that may go on where they, or another lexeme allowed at the same place, should have ended.

    The engine takes the longest lexeme: while one of these goes on, what should follow the other is lost.  Where the
    budget does not suffice the lexeme is listed.
    """
    analysis = _Followed(source)
    together = {frozenset(followers) for followers in analysis.followers.values()}
    together.add(frozenset(analysis.first["start"]))
    found: dict[Expr, None] = {}
    looked: set[tuple[Expr, Expr]] = set()
    work = _Work()
    for place in together:
        lexemes = _lexemes(place)
        for short in lexemes:
            work.left -= len(lexemes) + len(analysis.followers[short])
            if work.left <= 0:
                return list(analysis.followers)
            behind = alt(*(_known(follower, source) for follower in _lexemes(analysis.followers[short])))
            for long in lexemes:
                if long in found or (short, long) in looked:
                    continue
                looked.add((short, long))
                if _can_swallow(_known(short, source), _known(long, source), behind, work):
                    found[long] = None
    return list(found)


def _lexemes(followers: Iterable[Expr | _End]) -> list[Expr]:
    return [follower for follower in followers if not isinstance(follower, _End)]


def _known(lexeme: Expr, source: Source) -> Regular:
    found = lexeme_language(lexeme, source)
    return ALL if found is None else found


def _can_swallow(short: Regular, long: Regular, behind: Regular, work: _Work) -> bool:
    """Is there a text of ``short`` behind which a first character of ``behind`` goes on being part of ``long``?"""
    if lengths(long)[1] == 1:
        return False
    seen = {(short, long)}
    waiting = deque(seen)
    while waiting:
        one, other = waiting.popleft()
        for code in _representatives(one, other, behind):
            if not work.spend(one, other, behind):
                return True
            further = derive(other, code)
            if further == NONE:
                continue
            if one.nullable and derive(behind, code) != NONE:
                return True
            pair = (derive(one, code), further)
            if pair[0] != NONE and pair not in seen:
                if len(seen) >= _BUDGET:
                    return True
                seen.add(pair)
                waiting.append(pair)
    return False


def lexeme_language(expr: Expr, source: Source) -> Regular | None:
    """The language of a lexeme; None where it cannot be said."""
    try:
        return _language(expr, source.by_name())
    except (InvalidRegex, NotTranslated, RecursionError):
        return None


def _language(expr: Expr, definitions: dict[str, Definition]) -> Regular:
    match expr:
        case Literal(text=word, ignore_case=ignore_case):
            return _any_case(word) if ignore_case else text(word)
        case CharRange(first=first, last=last):
            return chars([(ord(first), ord(last))])
        case Regexp(regex=regex, flags=flags):
            return language(regex, flags)
        case Name(name=name) if name in definitions:
            return _language(definitions[name].body, definitions)
        case SeqExpr(parts=parts):
            return cat(*(_language(part, definitions) for part in parts))
        case AltExpr(options=options):
            return alt(*(_language(option, definitions) for option in options))
        case AndExpr(parts=parts):
            return inter(*(_language(part, definitions) for part in parts))
        case NotExpr(body=body):
            return neg(_language(body, definitions))
        case Repeated(body=body, least=least, most=most):
            return rep(_language(body, definitions), least, most)
    raise NotTranslated(type(expr).__name__)


def _any_case(word: str) -> Regular:
    return cat(*(chars([(ord(c), ord(c)) for c in {char, char.lower(), char.upper()} if len(c) == 1]) for char in word))


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


class _Followed:
    """For every lexeme of a grammar's rules: the lexemes that may follow it, and ``_END`` where it may be the last."""

    def __init__(self, source: Source) -> None:
        self.rules = {d.name: d for d in source.definitions if not d.is_terminal}
        self.lexeme_rules = {d.name for d in source.definitions if any(a.name != "capture" for a in d.attributes)}
        self.nullable: set[str] = set()
        self.first: dict[str, _Followers] = {name: set() for name in self.rules}
        self.follow: dict[str, _Followers] = {name: set() for name in self.rules}
        self.followers: dict[Expr, _Followers] = defaultdict(set)
        self.places: dict[Expr, Place] = {}
        self.sure = True
        names = {name: {e.name for e in walk(rule.body) if isinstance(e, Name)} for name, rule in self.rules.items()}
        users: dict[str, set[str]] = defaultdict(set)
        for name, named in names.items():
            for used in named:
                users[used].add(name)
        upwards, downwards = list(reversed(self.rules)), list(self.rules)
        self._settle(self._learn_nullable, upwards, lambda name: int(name in self.nullable), users)
        self._settle(self._learn_first, upwards, lambda name: len(self.first[name]), users)
        self.follow["start"].add(_END)
        self._settle(self._learn_follow, downwards, lambda name: len(self.follow[name]), {}, names)

    def shown(self, lexeme: Expr) -> str:
        match lexeme:
            case Name(name=name):
                return name
            case Regexp(regex=regex):
                return f"/{regex[:40]}/"
            case Literal(text=word):
                return repr(word[:40])
        return "a lexeme"

    def _settle(
        self,
        step: Callable[[Definition], None],
        order: Iterable[str],
        size: Callable[[str], int],
        users: Mapping[str, Iterable[str]],
        taught: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Take the step for every rule, and again where it may learn more, until nothing changes.

        A rule's step changes what is known (its ``size``) of the rule, which its ``users`` go by, or of the rules that
        it has ``taught``.
        """
        waiting = deque(order)
        queued = set(waiting)
        while waiting:
            name = waiting.popleft()
            queued.discard(name)
            changing = [name] if taught is None else [n for n in taught[name] if n in self.rules]
            before = [size(n) for n in changing]
            step(self.rules[name])
            for n, known in zip(changing, before, strict=True):
                if size(n) != known:
                    again = [u for u in (users.get(n, ()) if taught is None else (n,)) if u not in queued]
                    waiting.extend(again)
                    queued.update(again)

    # -- what may be empty, what may come first

    def _learn_nullable(self, rule: Definition) -> None:
        if rule.name not in self.lexeme_rules and self._is_nullable(rule.body):
            self.nullable.add(rule.name)

    def _is_nullable(self, expr: Expr) -> bool:
        match expr:
            case Literal(text=""):
                return True
            case Name(name=name):
                return name in self.nullable
            case SeqExpr(parts=parts):
                return all(map(self._is_nullable, parts))
            case AltExpr(options=options):
                return any(map(self._is_nullable, options))
            case Repeated(body=body, least=least):
                return least == 0 or self._is_nullable(body)
            case WhenExpr(body=body):
                return self._is_nullable(body)
        return False

    def _learn_first(self, rule: Definition) -> None:
        self.first[rule.name] |= self._first(rule.body)

    def _first(self, expr: Expr) -> _Followers:
        if is_lexeme(expr, self.lexeme_rules.__contains__):
            return {expr}
        match expr:
            case Name(name=name):
                return self.first.get(name, set())
            case SeqExpr(parts=parts):
                out: _Followers = set()
                for part in parts:
                    out |= self._first(part)
                    if not self._is_nullable(part):
                        break
                return out
            case AltExpr(options=options):
                return set().union(*map(self._first, options))
            case Repeated(body=body) | WhenExpr(body=body):
                return self._first(body)
            case Literal():
                return set()
        return {expr}  # tokens and other grammars: nothing is known of them

    # -- what may follow

    def _learn_follow(self, rule: Definition) -> None:
        if rule.name not in self.lexeme_rules:
            self._pass(rule.body, self.follow[rule.name])

    def _pass(self, expr: Expr, followers: _Followers) -> None:
        if is_lexeme(expr, self.lexeme_rules.__contains__):
            if not (isinstance(expr, Name) and expr.name in self.lexeme_rules):  # lazy ones end by themselves
                self.followers[expr] |= followers
                self.places.setdefault(expr, getattr(expr, "at", (0, 0)))
            return
        match expr:
            case Name(name=name) if name in self.follow:
                self.follow[name] |= followers
            case SeqExpr(parts=parts):
                for part in reversed(parts):
                    self._pass(part, followers)
                    followers = self._first(part) | (followers if self._is_nullable(part) else set())
            case AltExpr(options=options):
                for option in options:
                    self._pass(option, followers)
            case Repeated(body=body, most=most):
                self._pass(body, followers | (self._first(body) if most != 1 else set()))
            case WhenExpr(body=body):
                self._pass(body, followers)
