"""Regular languages over code points: terms, their algebra, derivatives and membership.

A language is an immutable term (`Regular`), built by the smart constructors below, which keep terms small and in a
normal form.  ``derive(r, c)`` is the Brzozowski derivative: the language of what may follow the character ``c``.
Decisions about whole languages are in `grammars.regular.languages`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from grammars.limits.schema_limits import check_deadline

__all__ = [
    "ALL",
    "ANY",
    "EPS",
    "MAX_CODE_POINT",
    "NONE",
    "Ranges",
    "Regular",
    "alt",
    "borders",
    "cat",
    "chars",
    "derivative_classes",
    "derive",
    "inter",
    "matches",
    "neg",
    "partial_derivatives",
    "ranges_minus",
    "rep",
    "representatives",
    "text",
    "words",
]

MAX_CODE_POINT = 0x10FFFF
_CHARACTERS_PER_CHECK = 64  # of a word between two looks at the clock

Ranges = tuple[tuple[int, int], ...]


class Regular:
    """A term: ``op`` with its arguments."""

    # op       args                           language
    # chars    sorted disjoint (low, high)s   one code point out of these
    # words    frozenset of str               exactly these words
    # cat      terms                          concatenation (no terms: the empty word)
    # alt      terms                          union
    # and      terms                          intersection
    # not      (term,)                        complement
    # rep      (term, least, most or None)    ``least`` to ``most`` repetitions

    __slots__ = ("_hash", "args", "nullable", "op", "plain", "size")

    def __init__(self, op: str, args: Any, nullable: bool, plain: bool) -> None:
        self.op = op
        self.args = args
        self.nullable = nullable
        self.plain = plain  # free of "and" and "not": expressible as an ordinary regex
        self._hash = hash((op, args))
        self.size: int = 1 + sum(a.size if isinstance(a, Regular) else 1 for a in args)  # parts at all depths

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Regular) or self._hash != other._hash:
            return False
        return bool(self.op == other.op and self.args == other.args)

    def __repr__(self) -> str:
        if self.op == "words":
            return f"words{sorted(self.args)!r}"  # the same in every process
        return f"{self.op}{self.args!r}"


# -- constructors


def chars(ranges: Iterable[tuple[int, int]]) -> Regular:
    """The words of one code point in ``ranges`` (inclusive, any order, may overlap)."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return Regular("chars", tuple(merged), False, True) if merged else NONE


EPS = Regular("cat", (), True, True)
NONE = Regular("alt", (), False, True)
ANY = chars([(0, MAX_CODE_POINT)])
ALL = Regular("rep", (ANY, 0, None), True, True)


def text(word: str) -> Regular:
    """The language of exactly this word."""
    return Regular("words", frozenset((word,)), not word, True) if word else EPS


def words(many: Iterable[str]) -> Regular:
    """The language of exactly these words."""
    distinct = frozenset(many)
    if not distinct:
        return NONE
    return EPS if distinct == {""} else Regular("words", distinct, "" in distinct, True)


def cat(*parts: Regular) -> Regular:
    """Return the concatenation of the parts."""
    flat: list[Regular] = []
    for part in parts:
        if part is NONE or part == NONE:
            return NONE
        if part.op == "cat":
            flat.extend(part.args)
        else:
            flat.append(part)
    if len(flat) == 1:
        return flat[0]
    out: list[Regular] = []
    for part in flat:
        if out and out[-1] == ALL and part == ALL:
            continue
        out.append(part)
    if len(out) == 1:
        return out[0]
    return Regular("cat", tuple(out), all(p.nullable for p in out), all(p.plain for p in out)) if out else EPS


def alt(*options: Regular) -> Regular:
    """Return the union of the options."""
    flat: dict[Regular, None] = {}
    ranges: list[tuple[int, int]] = []
    word_set: set[str] = set()
    for option in options:
        for part in option.args if option.op == "alt" else (option,):
            if part == ALL:
                return ALL
            if part.op == "chars":
                ranges.extend(part.args)
            elif part.op == "words":
                word_set |= part.args
            else:
                flat[part] = None
    if ranges:
        flat[chars(ranges)] = None
    if word_set:
        flat[words(word_set)] = None
    parts = tuple(flat)
    if len(parts) == 1:
        return parts[0]
    return Regular("alt", parts, any(p.nullable for p in parts), all(p.plain for p in parts)) if parts else NONE


def inter(*parts: Regular) -> Regular:
    """Return the intersection of the parts."""
    flat: dict[Regular, None] = {}
    finite: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()
    for part in parts:
        for term in part.args if part.op == "and" else (part,):
            if term == NONE:
                return NONE
            if term.op == "words" or term == EPS:
                part_words = term.args if term.op == "words" else frozenset({""})
                finite = part_words if finite is None else finite & part_words
            elif term.op == "not" and term.args[0].op == "words":
                refused |= term.args[0].args
            elif term != ALL:
                flat[term] = None
    if refused and finite is None:
        flat[neg(words(refused))] = None
    if finite is not None:
        return words(w for w in finite - refused if all(matches(p, w) for p in flat))
    for term in flat:
        if term.op == "not" and term.args[0] in flat:
            return NONE
    kept = tuple(flat)
    if len(kept) == 1:
        return kept[0]
    return Regular("and", kept, all(p.nullable for p in kept), False) if kept else ALL


def neg(body: Regular) -> Regular:
    """Return the complement: every word that is not in ``body``."""
    if body.op == "not":
        inner: Regular = body.args[0]
        return inner
    if body == NONE:
        return ALL
    if body == ALL:
        return NONE
    return Regular("not", (body,), not body.nullable, False)


def rep(body: Regular, least: int, most: int | None) -> Regular:
    """Repeat ``body`` from ``least`` to ``most`` times (``None``: without an upper bound)."""
    if most == 0 or body in (EPS, NONE):
        return EPS if least == 0 or body == EPS else NONE
    if (least, most) == (1, 1):
        return body
    if body.op == "rep" and body.args[1:] == (0, None) and (most is None or most >= 1):
        return body  # (x*){m,n} is x*
    if body.nullable:
        least = 0
    return Regular("rep", (body, least, most), least == 0, body.plain)


def ranges_minus(ranges: Ranges, other: Ranges) -> Ranges:
    """Return the code points of ``ranges`` that are not in ``other`` (both sorted and disjoint)."""
    out: list[tuple[int, int]] = []
    for low, high in ranges:
        start = low
        for a, b in other:
            if b < start or a > high:
                continue
            if a > start:
                out.append((start, a - 1))
            start = max(start, b + 1)
        if start <= high:
            out.append((start, high))
    return tuple(out)


# -- derivatives


@lru_cache(maxsize=100_000)
def derive(term: Regular, code: int) -> Regular:
    """Return the derivative: the language of what may follow the code point ``code`` at the start of ``term``."""
    args = term.args
    match term.op:
        case "chars":
            return EPS if any(low <= code <= high for low, high in args) else NONE
        case "words":
            first = chr(code) if code >= 0 else "\0\0"
            return words(w[1:] for w in args if w[:1] == first)
        case "cat":
            options = []
            for i, part in enumerate(args):
                options.append(cat(derive(part, code), *args[i + 1 :]))
                if not part.nullable:
                    break
            return alt(*options)
        case "alt":
            return alt(*(derive(p, code) for p in args))
        case "and":
            return inter(*(derive(p, code) for p in args))
        case "not":
            return neg(derive(args[0], code))
    body, least, most = args
    return cat(derive(body, code), rep(body, max(least - 1, 0), None if most is None else most - 1))


@lru_cache(maxsize=10_000)
def borders(term: Regular) -> frozenset[int]:
    """Return the code points at which the derivative of ``term`` may change."""
    match term.op:
        case "chars":
            return frozenset(edge for low, high in term.args for edge in (low, high + 1))
        case "words":
            return frozenset(edge for word in term.args if word for edge in (ord(word[0]), ord(word[0]) + 1))
        case "rep":
            return borders(term.args[0])
        case "cat":
            codes: set[int] = set()
            for part in term.args:
                codes |= borders(part)
                if not part.nullable:
                    break
            return frozenset(codes)
    return frozenset(edge for part in term.args for edge in borders(part))


_FRIENDLY = tuple(ord(c) for c in "a0A -_.")  # preferred in words that are shown to people


def derivative_classes(term: Regular) -> list[tuple[int, int]]:
    """Return ranges of code points such that all code points of one range give the same derivative."""
    starts = sorted(edge for edge in {0, 0x20} | borders(term) if edge <= MAX_CODE_POINT)
    return [(low, high - 1) for low, high in zip(starts, [*starts[1:], MAX_CODE_POINT + 1], strict=True)]


def representatives(term: Regular) -> list[int]:
    """Return one code point of each class with the same derivative, printable letters and digits first."""
    out = []
    for low, high in derivative_classes(term):
        nice = next((c for c in _FRIENDLY if low <= c <= high), low)
        if 0xD800 <= nice <= 0xDFFF:  # no text contains a lone surrogate
            nice = 0xE000
            if nice > high:
                continue
        out.append(nice)
    out.sort(key=lambda c: (c not in _FRIENDLY, c < 0x20 or c == 0x7F, c > 0x7E, c))
    return out


# -- membership


def matches(term: Regular, word: str) -> bool:
    """Whether ``word`` is in the language.  Raises `SchemaError` past the deadline of the thread."""
    match term.op:
        case "words":
            return word in term.args
        case "and":
            return all(matches(p, word) for p in term.args)
        case "alt":
            return any(matches(p, word) for p in term.args)
        case "not":
            return not matches(term.args[0], word)
    for at, char in enumerate(word):
        if term in (ALL, NONE):
            break
        term = derive(term, ord(char))
        if at % _CHARACTERS_PER_CHECK == _CHARACTERS_PER_CHECK - 1:
            check_deadline()
    return term.nullable


@lru_cache(maxsize=100_000)
def partial_derivatives(term: Regular, code: int) -> tuple[Regular, ...]:
    """Return the partial derivatives, whose union is the derivative: few, since all of them are parts of ``term``."""
    args = term.args
    match term.op:
        case "alt":
            return tuple(dict.fromkeys(after for part in args for after in partial_derivatives(part, code)))
        case "cat":
            derivatives: dict[Regular, None] = {}
            for at, part in enumerate(args, 1):
                derivatives |= dict.fromkeys(cat(after, *args[at:]) for after in partial_derivatives(part, code))
                if not part.nullable:
                    break
            return tuple(derivatives)
        case "rep":
            body, least, most = args
            repeated = rep(body, max(least - 1, 0), None if most is None else most - 1)
            return tuple(cat(after, repeated) for after in partial_derivatives(body, code))
    after = derive(term, code)
    return () if after == NONE else (after,)
