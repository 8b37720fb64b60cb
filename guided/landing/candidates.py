"""Candidates of a search at one place: the few continuations that may lead to the nearest end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from guided.landing.byte_twin import ByteMask, ByteMatcher
from guided.landing.place import AnswerPlace
from guided.watchers.json_scanner import ScanState
from guided.watchers.persistent_set import Mode

__all__ = ["Candidate", "Candidates", "Preference", "open_parts"]

#: More bytes than this are tried by class.
_FEW = 8
_FREE_TEXT = 64
_NAMES_AT_ONCE = 3
_DIGITS = b"0123456789"
_BLANK = b" \n\t\r"
_PRINTABLE = bytes((*range(0x20, 0x7F), 0x0A, 0x09))


class Preference(NamedTuple):
    """One preference of a search.

    ``first_bytes`` are extra costs of beginning a JSON value with a byte.  ``forced_cost`` is the cost of a byte that
    must come; that of a chosen one is 1.  It is less, because forced bytes are mostly parts of longer tokens.
    ``takes_known``: a known text is written wherever one fits.
    """

    first_bytes: Mapping[int, float]
    forced_cost: float = 0.35
    takes_known: bool = False


class Candidate(NamedTuple):
    """Symbols to write, their cost, and whether candidates of earlier places may be dropped."""

    symbols: tuple[int, ...]
    cost: float
    settles: bool = False


class Candidates:
    """The candidates under one plan and one preference.

    ``closing``, ``names`` and ``exits`` are those of `known_texts`; ``known`` maps steps of tool calls (-1: the
    response) to texts of the value that begins there.
    """

    def __init__(
        self,
        closing: Sequence[bytes],
        names: Sequence[tuple[bytes, bool]],
        exits: frozenset[int],
        known: Mapping[int, Sequence[bytes]],
        preference: Preference,
    ) -> None:
        self._closing = closing
        self._names = names
        self._exits = exits
        self._known = known
        self._first_bytes, self.forced_cost, self.takes_known = preference
        self._classes: dict[tuple[object, ...], tuple[int, ...]] = {}

    def at(
        self,
        matcher: ByteMatcher,
        mask: ByteMask,
        place: AnswerPlace,
        advance: Callable[[AnswerPlace, Sequence[int]], AnswerPlace],
    ) -> list[Candidate]:
        """Return what to try after a place at which ``mask`` is allowed, and the answer cannot end.

        ``advance`` is `PlaceMap.advance`: where a watcher refuses what closes a value, more is tried.
        """
        if place.scan is not None:
            found = self._in_json(matcher, mask, place, place.scan)
            if any(advance(place, candidate.symbols).is_refused for candidate in found):
                found = [candidate._replace(settles=False) for candidate in found]
                found += _each(self._classes_of(matcher, mask, _BLANK + b",]}"))
            if found:
                return found
        elif self.takes_known:
            for text in self._known.get(-1, ()):
                if matcher.fits(text):
                    return [Candidate(tuple(text), 0.0)]
        many = mask.bytes.bit_count()
        ids = sorted(mask.ids, key=lambda i: i not in self._exits)[:_FEW]
        found = [Candidate((256 + i,), 1.0) for i in ids]
        if found and many > _FREE_TEXT:
            return found  # a marker ends the text
        if many <= _FEW:
            return [*found, *_each(_bytes_of(mask.bytes))]
        found += self._closed_by(matcher, mask)
        if found and many > _FREE_TEXT:
            return found
        return [*found, *_each(self._classes_of(matcher, mask))]

    def _closed_by(self, matcher: ByteMatcher, mask: ByteMask) -> list[Candidate]:
        """The closing texts, or what is left of one, that lead somewhere else here.

        The mask does not show how much of one is written already, so nothing is remembered by it.
        """
        found: list[Candidate] = []
        before = (mask, tuple(matcher.forced()))
        for text in self._closing:
            for at in range(len(text)):
                rest = text[at:]
                if (at and len(rest) < 2) or not mask.bytes >> rest[0] & 1 or not matcher.fits(rest):
                    continue
                copy = matcher.copy()
                if copy.feed(rest) and (copy.mask(), tuple(copy.forced())) != before:
                    found.append(Candidate(tuple(rest), self._cost(rest)))
                    break  # the longest rest ends it surely
        return found

    # -- JSON

    def _in_json(self, matcher: ByteMatcher, mask: ByteMask, place: AnswerPlace, scan: ScanState) -> list[Candidate]:
        allowed = mask.bytes
        match scan.mode:
            case Mode.VALUE:
                return self._value(matcher, mask, place, scan)
            case Mode.KEY:
                if allowed >> 0x7D & 1:
                    return [Candidate((0x7D,), 1.0)]
                return self._key(matcher, mask)
            case Mode.IN_KEY if _is_guess(allowed) and (found := self._named(matcher, b'"' + scan.text)):
                rests = [candidate._replace(settles=False) for candidate in found]
                return [*rests, *_each(self._classes_of(matcher, mask))]
            case Mode.STRING | Mode.IN_KEY:
                if allowed >> 0x22 & 1:
                    return [Candidate((0x22,), 1.0)]
                return _each(self._classes_of(matcher, mask))
            case Mode.NUMBER | Mode.AFTER:
                for closer in b"}]":
                    if allowed >> closer & 1:
                        return [Candidate((closer,), 1.0)]
                if allowed >> 0x2C & 1:
                    return [Candidate((0x2C,), 1.0)]
                if scan.mode is Mode.NUMBER:
                    return _each(self._classes_of(matcher, mask, _BLANK))
        return []

    def _value(self, matcher: ByteMatcher, mask: ByteMask, place: AnswerPlace, scan: ScanState) -> list[Candidate]:
        allowed = mask.bytes
        if allowed >> 0x5D & 1:
            return [Candidate((0x5D,), 1.0)]
        if self.takes_known and scan.frame is None:
            step = place.call.state if place.call is not None else -1
            for text in self._known.get(step, ()):
                if matcher.fits(text):
                    return [Candidate(tuple(text), 0.0)]
        digits = [digit for digit in _DIGITS if allowed >> digit & 1]
        if len(digits) > _NAMES_AT_ONCE:
            digits = list(self._classes_of(matcher, ByteMask(allowed & _set_of(_DIGITS), ())))
        costs = self._first_bytes
        first = [byte for byte in (*digits, *b'"[{tfn-') if allowed >> byte & 1]
        return [Candidate((byte,), 1.0 + costs.get(byte, 0.0)) for byte in first]

    def _key(self, matcher: ByteMatcher, mask: ByteMask) -> list[Candidate]:
        """The member names that may be written: the last required one, or else some of them."""
        if not mask.bytes >> 0x22 & 1:
            return []
        found = self._named(matcher)
        if found:
            return found if found[0].settles else [*found, Candidate((0x22,), 1.0)]
        return [Candidate((0x22,), 1.0, settles=True)]

    def _named(self, matcher: ByteMatcher, begun: bytes = b"") -> list[Candidate]:
        """The rests of known names after ``begun``: of the last required one, or else of some."""
        for is_required in (True, False):
            names = [name for name, needed in self._names if needed is is_required and name.startswith(begun)]
            rests = [rest for rest in (name[len(begun) :] for name in names) if matcher.fits(rest)]
            if rests:
                last = rests[-1:] if is_required else rests[-_NAMES_AT_ONCE:]
                return [Candidate(tuple(rest), self._cost(rest), settles=is_required) for rest in last]
        return []

    def _cost(self, text: bytes) -> float:
        return 1.0 + self.forced_cost * (len(text) - 1)

    # -- classes of bytes

    def _classes_of(self, matcher: ByteMatcher, mask: ByteMask, without: bytes = b"") -> tuple[int, ...]:
        """One byte of each class that leads to places alike, remembered by the mask."""
        allowed = mask.bytes & ~_set_of(without)
        if allowed.bit_count() <= _FEW:
            return _bytes_of(allowed)
        key = (mask.bytes, mask.ids, without)
        found = self._classes.get(key)
        if found is None:
            classes: dict[tuple[object, ...], int] = {}
            for byte in _PRINTABLE if allowed.bit_count() > 2 * _FEW else _bytes_of(allowed):
                if allowed >> byte & 1:
                    classes.setdefault(matcher.class_of(byte), byte)
            found = self._classes[key] = tuple(classes.values()) or _bytes_of(allowed)[:_FEW]
        return found


def _each(symbols: Iterable[int]) -> list[Candidate]:
    return [Candidate((symbol,), 1.0) for symbol in symbols]


def _bytes_of(bits: int) -> tuple[int, ...]:
    return tuple(byte for byte in range(256) if bits >> byte & 1)


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
    frame, found = scan.frame, 0
    while frame is not None:
        frame, found = frame.parent, found + 1
    if scan.mode in (Mode.STRING, Mode.IN_KEY):
        found += 1
    if scan.mode in (Mode.IN_KEY, Mode.AFTER_KEY, Mode.VALUE, Mode.KEY):
        found += 1
    return found


def _is_guess(allowed: int) -> bool:
    """Whether bytes alone do not show which name is being written."""
    return allowed.bit_count() > _FEW and not allowed >> 0x22 & 1
