"""Refuses a JSON number in front of text that may go on with it: the lexer would read more of the number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from grammars.regular.languages import surely_empty
from grammars.regular.syntax.rust import NotTranslated, language
from grammars.regular.terms import ALL, EPS, Regular, alt, cat, derive, inter, neg, rep, representatives, text, words
from grammars.tree.nodes import (
    Alt,
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Repeat,
    Rule,
    RuleDef,
    Seq,
    Text,
    Until,
)
from special_tokens.errors import GrammarError

__all__ = ["check_numbers"]

_IN_NUMBERS = "0123456789.eE"
_INTEGER = language("-?(?:0|[1-9][0-9]*)")  # without the bound of our lexeme, which is too much to search
_MOST_STATES = 1_000  # of a number's language; with more of them, any character may lead out of it


def check_numbers(parts: Sequence[Node], places: Sequence[str]) -> None:
    """Raise `GrammarError` if a part may go on with the number at the end of those before it, with its place."""
    follow, others = EPS, dict[int, int]()
    for i in range(len(parts) - 1, 0, -1):
        follow = cat(_language(parts[i], others), follow)
        if _loses(parts[i - 1], follow, others):
            raise GrammarError("what follows a JSON number may begin like more of the number", place=places[i],
                               hint="begin it with another text")  # fmt: skip


def _loses(node: Node, follow: Regular, others: dict[int, int]) -> bool:
    """Whether a number in ``node``, which ``follow`` follows, may take characters of what follows it."""
    match node:
        case Rule(name="payload", body=body):
            numbers = alt(*_numbers(body, {}, others))
            return any(_takes(numbers, char, follow) for char in _IN_NUMBERS)
        case Seq(parts=parts):
            for part in reversed(parts):
                if _loses(part, follow, others):
                    return True
                follow = cat(_language(part, others), follow)
        case Alt(options=options):
            return any(_loses(option, follow, others) for option in options)
        case Repeat(body=body, least=least, most=most):
            once = _language(body, others)
            if most is None and least <= 1:
                return _loses(body, cat(rep(once, 0, None), follow), others)
            return _loses(body, follow, others) or (most != 1 and _loses(body, cat(once, _any(node, others)), others))
    return False


def _takes(numbers: Regular, char: str, follow: Regular) -> bool:
    """Whether a number may go on with a ``char`` that ``follow`` begins with and cannot do without."""
    rest = derive(follow, ord(char))
    if char not in _going_on(numbers) or surely_empty(rest):
        return False
    return not _going_on(numbers)[char] or not surely_empty(inter(rest, neg(follow)), 3_000)


@lru_cache(maxsize=100)
def _going_on(numbers: Regular) -> Mapping[str, bool]:
    """Return the characters with which a number goes on, and whether it always is a whole number after them."""
    states, found = [numbers], dict[str, bool]()
    for state in states:  # which grows
        after = {code: derive(state, code) for code in {*representatives(state), *map(ord, _IN_NUMBERS)}}
        for char in _IN_NUMBERS if state.nullable else "":
            if not surely_empty(after[ord(char)]):
                found[char] = found.get(char, True) and after[ord(char)].nullable
        states += {*after.values()}.difference(states)
        if len(states) > _MOST_STATES:
            return dict.fromkeys(_IN_NUMBERS, False)
    return found


def _language(node: Node, others: dict[int, int]) -> Regular:
    """Return the texts of ``node``; what is not regular is a character that stands for it, then any text."""
    match node:
        case Text(text=word):
            return text(word)
        case Pattern(regex=regex):
            try:
                return language(regex)
            except NotTranslated:
                return _any(node, others)
        case Seq(parts=parts):
            return cat(*(_language(part, others) for part in parts))
        case Alt(options=options):
            return alt(*(_language(option, others) for option in options))
        case And(parts=parts):
            return inter(*(_language(part, others) for part in parts))
        case Not(body=body):
            return neg(_language(body, others))
        case Repeat(body=body, least=least, most=most):
            return rep(_language(body, others), least, most)
        case Until(body=body, end=end):
            return cat(_language(body, others), _language(end, others))
        case Rule(name="payload", body=body):
            return alt(*_numbers(body, {}, others), _other(node, others))
        case Group(start=Ref(name=name), rules=rules):
            return _language(rules[name].body, others)
        case Ref():
            return _any(node, others)
        case Lexeme(body=body) | Rule(body=body) | Group(start=body):
            return _language(body, others)
    return _other(node, others)


def _other(node: Node, others: dict[int, int]) -> Regular:
    """Return what stands for a node that begins with no character of a number, nor with a like one."""
    return cat(text(chr(0x100000 + others.setdefault(id(node), len(others)))), ALL)


def _any(node: Node, others: dict[int, int]) -> Regular:
    """Return what stands for a node that may begin with any character of a number."""
    return cat(alt(words(_IN_NUMBERS), EPS), _other(node, others))


def _numbers(node: Node, rules: dict[str, RuleDef], others: dict[int, int]) -> Iterator[Regular]:
    """Return the numbers among the JSON values of ``node``, which our own compiler of schemas made."""
    match node:
        case Lexeme(name="integer"):
            yield _INTEGER
        case Lexeme(name="number", body=body):
            yield _language(body, others)
        case Rule(body=body):
            yield from _numbers(body, rules, others)
        case Group(start=start, rules=inner_rules):
            yield from _numbers(start, dict(inner_rules), others)
        case Ref(name=name) if name in rules:
            yield from _numbers(rules.pop(name).body, rules, others)
        case Alt(options=options):
            for option in options:
                yield from _numbers(option, rules, others)
