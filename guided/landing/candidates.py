"""Candidates of a search at one place: the few continuations that may lead to the nearest end."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from guided.landing.byte_twin import ByteMask, ByteMatcher, Look
from guided.landing.place import AnswerPlace
from guided.watchers.json_scanner import ScanState
from guided.watchers.persistent_set import Mode

__all__ = ["EXIT", "FREE_TEXT", "Candidate", "Candidates", "Classes", "Preference", "open_parts"]

#: More bytes than this are tried by class.
_FEW = 8
#: Where more bytes than this are allowed, any text is.
FREE_TEXT = 64
#: What must come next, if it is as long as this, shows that free text has been left.
EXIT = 4
_NAMES_AT_ONCE = 3
_DIGITS = b"0123456789"
_BLANK = b" \n\t\r"
#: Values that often have several tokens, and values of one or two.
_VALUE = re.compile(rb'(?:(?<=: )|(?<=, )|(?<=\[))(?:-?[0-9.]+|"a+")(?=[],}])')
_SIMPLE = (b"[]", b'""', b"null", b"true", b'" "')
#: The lengths of the runs of one byte that are tried in a string.
_RUNS = (64, 256)
_PRINTABLE = bytes((*range(0x20, 0x7F), 0x0A, 0x09))


#: The cost of a byte that must come, and what is added for members that may be optional, where others are required.
_FORCED, _OPTIONAL = 0.35, 40.0


class Candidate(NamedTuple):
    """Symbols to write; whether candidates of earlier places may be dropped, and whether they begin a JSON value.

    ``extra`` is added to their cost.
    """

    symbols: tuple[int, ...]
    settles: bool = False
    begins_value: bool = False
    extra: float = 0.0


class Preference(NamedTuple):
    """One preference of a search.

    ``first_bytes`` are extra costs of beginning a JSON value with a byte.  ``forced_cost`` is the cost of a byte that
    must come; that of a chosen one is 1.  It is less, because forced bytes are mostly parts of longer tokens.
    ``takes_known``: a known text is written wherever one fits.
    """

    first_bytes: Mapping[int, float]
    forced_cost: float = _FORCED
    takes_known: bool = False

    @property
    def values_alone(self) -> bool:
        """Whether it is the first preference but for where values begin."""
        return bool(self.first_bytes) and self.forced_cost == _FORCED

    def cost(self, candidate: Candidate) -> float:
        cost = 1.0 + self.forced_cost * (len(candidate.symbols) - 1) + candidate.extra
        return cost + self.first_bytes.get(candidate.symbols[0], 0.0) if candidate.begins_value else cost


#: Places that take as long as seeing what comes after some symbols, and as asking whether they fit.
_SEEN, _FITTED = 0.05, 0.02


class Classes(dict[tuple[ByteMask, bytes], dict[Look, int]]):
    """One byte of each class that leads to places alike, by what is seen after it; remembered by the mask before it.

    ``spent``: the places that take as long as what candidates have looked at; a search takes them off its effort.
    """

    spent: float = 0.0


class Candidates:
    """The candidates under one plan.  Immutable; what is remembered of classes belongs to the caller.

    ``closing``, ``keywords``, ``names`` and ``exits`` are those of `known_texts`, ``strings`` returns its
    `string_texts`; ``known`` maps steps of tool calls to
    texts of the value that begins there (-1: the response); ``may_change``: any that the grammar allows is valid.
    """

    def __init__(
        self,
        closing: Sequence[bytes],
        keywords: Sequence[bytes],
        names: Sequence[tuple[bytes, bool]],
        exits: frozenset[int],
        strings: Callable[[], Sequence[bytes]],
        known: Mapping[int, Sequence[bytes]],
        *,
        may_change: bool,
    ) -> None:
        self._closing, self._keywords = closing, keywords
        self._names = names[::-1]  # what is required last comes first
        self._exits = exits
        self._find_strings: Callable[[], Sequence[bytes]] = strings
        self._known, self._may_change = known, may_change

    def at(
        self, matcher: ByteMatcher, mask: ByteMask, place: AnswerPlace, classes: Classes, *, is_first: bool
    ) -> list[Candidate]:
        """Return what to try after a place at which ``mask`` is allowed, and the answer cannot end.

        ``is_first``: the search begins here, where others may have written a part of what closes a text.
        """
        if place.scan is not None and (found := self._in_json(matcher, mask, place.scan, classes)):
            return found
        many = mask.bytes.bit_count()
        ids = sorted(mask.ids, key=lambda i: i not in self._exits)[:_FEW]
        found = [Candidate((256 + i,)) for i in ids]
        if found and many > FREE_TEXT:
            return found  # a marker ends the text
        if many <= _FEW:
            return [*found, *_each(_bytes_of(mask.bytes))]
        found += self._led_by(self._closing, matcher, mask, classes, is_first=is_first)
        if found and many > FREE_TEXT:
            return found
        found += self._led_by(self._keywords, matcher, mask, classes, is_first=is_first)
        return [*found, *_each(self._classes_of(matcher, mask, classes))]

    def known_at(
        self, matcher: ByteMatcher, mask: ByteMask, place: AnswerPlace, written: Sequence[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the rests, after ``written``, of known texts of the value that may begin at a place, the best first."""
        scan, step, size = place.scan, -1, len(written)
        if scan is None and place.text is not None:
            return  # between the values of a tag or a grammar
        if scan is not None:
            if scan.mode is not Mode.VALUE or scan.frame is not None or (not size and mask.bytes >> 0x5D & 1):
                return
            step = place.call.state if place.call is not None else -1
        for text in self._known.get(step, ()):
            if list(text[:size]) == written and matcher.fits(text[size:]):
                if step < 0 and self._may_change and (simple := _with_simple_values(matcher, text, size)):
                    yield tuple(simple)
                yield tuple(text[size:])

    def others(self, matcher: ByteMatcher, mask: ByteMask, classes: Classes) -> list[Candidate]:
        """Return what to try besides where a watcher refuses what closes a value."""
        return _each(self._classes_of(matcher, mask, classes, _BLANK + b",]}"))

    def _led_by(
        self, texts: Sequence[bytes], matcher: ByteMatcher, mask: ByteMask, classes: Classes, *, is_first: bool
    ) -> list[Candidate]:
        """The texts, or at first what is left of one, that lead where no single byte leads.

        The mask does not show how much of one is written already, so nothing is remembered by it.
        """
        found: list[Candidate] = []
        others: set[Look] = set()
        is_known = False
        for text in texts:
            for at in range(len(text) if is_first else 1):
                rest = text[at:]
                if (at and len(rest) < 2) or not mask.bytes >> rest[0] & 1:
                    continue
                classes.spent += _FITTED
                if not matcher.fits(rest):
                    continue
                if not others:
                    some = (symbols for symbols in (b"", b" ", b"a") if not symbols or mask.bytes >> symbols[0] & 1)
                    others = {matcher.outcome(symbols) for symbols in some}
                after = matcher.outcome(rest)
                classes.spent += _SEEN
                if after not in others and not is_known and len(after.forced) < EXIT:
                    others |= self._looks(matcher, mask, classes).keys()
                    is_known = True
                if after not in others:
                    found.append(Candidate(tuple(rest)))
                    break  # the longest rest ends it surely
        return found

    # -- JSON

    def _in_json(self, matcher: ByteMatcher, mask: ByteMask, scan: ScanState, classes: Classes) -> list[Candidate]:
        allowed = mask.bytes
        match scan.mode:
            case Mode.VALUE:
                return self._value(matcher, mask, classes)
            case Mode.KEY:
                if allowed >> 0x7D & 1:
                    return [Candidate((0x7D,))]
                return self._key(matcher, mask)
            case Mode.IN_KEY if _is_guess(allowed) and (found := self._named(matcher, b'"' + scan.text)):
                rests = [candidate._replace(settles=False) for candidate in found]
                return [*rests, *_each(self._classes_of(matcher, mask, classes))]
            case Mode.IN_KEY if not scan.text and not allowed >> 0x22 & 1 and (found := self._needed(matcher)):
                some = self._classes_of(matcher, mask, classes)
                return [*found, *(Candidate((byte,), extra=_OPTIONAL) for byte in some)]
            case Mode.STRING | Mode.IN_KEY:
                if allowed >> 0x22 & 1:
                    return [Candidate((0x22,))]
                some = self._classes_of(matcher, mask, classes)
                return [*self._pattern_ends(matcher, classes)] or _filled(matcher, some, classes) or _each(some)
            case Mode.NUMBER | Mode.AFTER:
                for closer in b"}]":
                    if allowed >> closer & 1:
                        return [Candidate((closer,))]
                if allowed >> 0x2C & 1:
                    return [Candidate((0x2C,))]
                if scan.mode is Mode.NUMBER:
                    some = self._classes_of(matcher, mask, classes, _BLANK)
                    return [*self._two_digits(matcher, mask, some, classes), *_each(some)]
        return []

    def _value(self, matcher: ByteMatcher, mask: ByteMask, classes: Classes) -> list[Candidate]:
        allowed = mask.bytes
        if allowed >> 0x5D & 1:
            return [Candidate((0x5D,))]
        digits = [digit for digit in _DIGITS if allowed >> digit & 1]
        if len(digits) > _NAMES_AT_ONCE:
            digits = list(self._classes_of(matcher, ByteMask(allowed & _set_of(_DIGITS), ()), classes))
        first = [byte for byte in (*digits, *b'"[{tfn-') if allowed >> byte & 1]
        return [Candidate((byte,), begins_value=True) for byte in first]

    @cached_property
    def _strings(self) -> Sequence[bytes]:
        return self._find_strings()

    def _pattern_ends(self, matcher: ByteMatcher, classes: Classes) -> Iterator[Candidate]:
        """The shortest ends that fit here of strings that patterns accept: a single byte may not lead to one."""
        for text in self._strings:
            for at in reversed(range(len(text) - 1)):
                classes.spent += _FITTED
                if matcher.fits(text[at:]):
                    yield Candidate(tuple(text[at:]))
                    break

    def _two_digits(
        self, matcher: ByteMatcher, mask: ByteMask, some: Iterable[int], classes: Classes
    ) -> list[Candidate]:
        """Two digits after which a number may end, where it ends after no single one (a multiple of 60).

        The digits lead to places alike, so that their classes alone never lead there.
        """
        if mask.bytes & _set_of(_DIGITS) != _set_of(_DIGITS):
            return []
        if any(_leaves_number(matcher.outcome((byte,))) for byte in some):
            return []
        pairs = ((first, second) for first in _DIGITS for second in _DIGITS)
        for pair in pairs:
            classes.spent += _SEEN
            if _leaves_number(matcher.outcome(pair)):
                return [Candidate(pair)]
        return []

    def _key(self, matcher: ByteMatcher, mask: ByteMask) -> list[Candidate]:
        """The member names that may be written: the last required one, or else some of them."""
        if not mask.bytes >> 0x22 & 1:
            return []
        found = self._named(matcher)
        if found:
            return found if found[0].settles else [*found, Candidate((0x22,))]
        return [Candidate((0x22,), settles=True)]

    def _named(self, matcher: ByteMatcher, begun: bytes = b"") -> list[Candidate]:
        """The rests of known names after ``begun``: of the last required one, or else of some."""
        for is_required in (True, False):
            names = (name for name, needed in self._names if needed is is_required and name.startswith(begun))
            rests = (rest for rest in (name[len(begun) :] for name in names) if matcher.fits(rest))
            last = list(islice(rests, 1 if is_required else _NAMES_AT_ONCE))
            if last:
                return [Candidate(tuple(rest), settles=is_required) for rest in reversed(last)]
        return []

    def _needed(self, matcher: ByteMatcher) -> list[Candidate]:
        """The rests, after the quote, of known names that fit here and that any object of the plan requires."""
        names = (name[1:] for name, needed in self._names if needed)
        return [Candidate(tuple(name)) for name in islice(filter(matcher.fits, names), _FEW)]

    # -- classes of bytes

    def _classes_of(
        self, matcher: ByteMatcher, mask: ByteMask, classes: Classes, without: bytes = b""
    ) -> tuple[int, ...]:
        """One byte of each class; all bytes if they are few."""
        allowed = mask.bytes & ~_set_of(without)
        if allowed.bit_count() <= _FEW:
            return _bytes_of(allowed)
        return tuple(self._looks(matcher, mask, classes, without).values())

    def _looks(self, matcher: ByteMatcher, mask: ByteMask, classes: Classes, without: bytes = b"") -> dict[Look, int]:
        key = (mask, without)
        found = classes.get(key)
        if found is None or any(matcher.outcome((byte,)) != after for after, byte in found.items()):
            allowed = mask.bytes & ~_set_of(without)
            found, some = {}, _bytes_of(allowed)
            if len(some) > 2 * _FEW:  # some of many; where none is printable, they continue a character
                some = tuple(byte for byte in _PRINTABLE if allowed >> byte & 1) or some[:_FEW]
            classes.spent += _SEEN * len(some)
            for byte in some:
                found.setdefault(matcher.outcome((byte,)), byte)
            classes[key] = found
        return found


def _with_simple_values(matcher: ByteMatcher, text: bytes, at: int) -> bytes:
    """Return ``text`` from ``at`` on with values of fewer tokens where ``matcher`` lets them stand, else nothing."""
    matcher, done = matcher.copy(), b""
    for found in _VALUE.finditer(text, at):
        before, end = text[at : found.start()], found.end()
        if not matcher.feed(before):
            return b""
        value = next((value for value in _SIMPLE if matcher.fits(value + text[end : end + 2])), found[0])
        if not matcher.feed(value):  # another value before it has led to another branch
            return b""
        done, at = done + before + value, end
    return done + text[at:] if matcher.fits(text[at:]) else b""


def _filled(matcher: ByteMatcher, some: Iterable[int], classes: Classes) -> list[Candidate]:
    """The shortest run of one byte after which a string may end, where that is not the first byte.

    A string of a least length may end after each longer run; elsewhere the run ends it as well, but may not be the
    shortest.
    """
    found: list[tuple[int, ...]] = []
    for byte in some:
        for size in _RUNS:
            run = (byte,) * matcher.num_fitting((byte,) * size)
            classes.spent += _FITTED * (1 + size / _RUNS[0])
            if len(run) < size or matcher.fits((*run, 0x22)):
                break
        ends = [matcher.fits((*run[:at], 0x22)) for at in (1, len(run))]
        if run and ends == [False, True]:
            least = bisect_left(range(len(run)), True, key=lambda at: matcher.fits((*run[:at], 0x22)))
            classes.spent += 8 * _FITTED
            found.append(run[:least])
    return [Candidate(min(found, key=len))] if found else []


def _each(symbols: Iterable[int]) -> list[Candidate]:
    return [Candidate((symbol,)) for symbol in symbols]


def _bytes_of(bits: int) -> tuple[int, ...]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(found)


def _set_of(data: bytes) -> int:
    bits = 0
    for byte in data:
        bits |= 1 << byte
    return bits


def open_parts(place: AnswerPlace) -> int:
    """Return how much is open at a place: brackets, a string, and what a comma or colon asks for."""
    scan = place.scan
    if scan is None:
        return 0
    found = scan.frame.depth if scan.frame is not None else 0
    if scan.mode in (Mode.STRING, Mode.IN_KEY):
        found += 1
    if scan.mode in (Mode.IN_KEY, Mode.AFTER_KEY, Mode.VALUE, Mode.KEY):
        found += 1
    return found


def _leaves_number(look: Look) -> bool:
    """Whether a number may end here."""
    return bool(look.mask.ids) or bool(look.mask.bytes & ~_set_of(b"+-.eE" + _DIGITS))


def _is_guess(allowed: int) -> bool:
    """Whether bytes alone do not show which name is being written."""
    return allowed.bit_count() > _FEW and not allowed >> 0x22 & 1
