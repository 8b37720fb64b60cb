"""Candidates of a search at one place: the few continuations that may lead to the nearest end of the answer."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

from grammars.plan.plan import Plan, RegionName
from grammars.tree.markers import Markers
from grammars.values.json_scanner import ScanState
from grammars.values.persistent_set import Mode
from guided.landing import known_texts
from guided.landing.byte_classes import BLANK, FEW, FITTED, FREE_TEXT, Outlook, set_of
from guided.landing.byte_twin import ByteMask, ByteMatcher, Lookahead, bits_of
from guided.tracking.places import AnswerPlace, PlaceMap
from guided.tracking.regions import FIRST_MARKER

__all__ = ["Candidate", "Candidates", "Preference", "open_parts"]

_NAMES_AT_ONCE = 3
_DIGITS = b"0123456789"
#: Bytes of texts and numbers that must differ, although they lead to places alike.
_DIFFERING = b"9876543210zyxwvutsrqponmlkjihgfedcba"
#: The end of a string in JSON.
_QUOTE = ((0x22,),)
#: The lengths of the runs of one byte that are tried in a string.
_RUN_LENGTHS = (64, 256)
#: What is open in the modes of JSON besides brackets: a string, and what a comma or colon asks for.
_OPEN_PARTS = {Mode.STRING: 1, Mode.IN_KEY: 2, Mode.AFTER_KEY: 1, Mode.VALUE: 1, Mode.KEY: 1}
#: Members or items after which a search does not go back to the ones before.
_MANY_MEMBERS = 8


#: The cost of a byte that must come; it is less than that of a chosen one, since it is mostly a part of a longer token.
_FORCED_COST = 0.35
_OPTIONAL_COST = 40.0  # added to members that may be optional, where others are required
_NO_CHANGE_COST = 4.0  # added to a byte after which nothing has changed, as another digit, where others lead on


class Candidate(NamedTuple):
    """A continuation that a search may try."""

    symbols: tuple[int, ...]  #: to be written
    settles: bool = False  #: whether the search may drop candidates of earlier places in JSON
    begins_value: bool = False  #: whether the symbols begin a JSON value
    extra: float = 0.0  #: added to the cost of the symbols


class Preference(NamedTuple):
    """The costs by which one search chooses.

    A piece of text is a candidate and the symbols that must follow it.  The piece costs 1, and `_FORCED_COST` for each
    byte after the first.
    """

    first_bytes: Mapping[int, float]  #: first byte of a JSON value -> its extra cost
    by_tokens: bool = False  #: whether a piece of text costs the number of its tokens instead
    heeds_extra: bool = True  #: whether `Candidate.extra` counts

    def cost(self, candidate: Candidate) -> float:
        """Return what a choice costs besides its text."""
        cost = candidate.extra * self.heeds_extra
        return cost + self.first_bytes.get(candidate.symbols[0], 0.0) if candidate.begins_value else cost

    def cost_of(self, piece: Sequence[int], num_tokens: Callable[[Sequence[int]], int]) -> float:
        """Return what a piece of text costs, of which ``num_tokens`` counts the tokens."""
        if not piece:
            return 0.0
        return num_tokens(piece) if self.by_tokens else 1.0 + _FORCED_COST * (len(piece) - 1)


class Candidates:
    """The candidates under one plan.  Immutable; what is remembered of classes belongs to the caller."""

    def __init__(self, plan: Plan, markers: Markers) -> None:
        self._plan = plan
        self._ends = known_texts.value_ends(plan, markers)
        self._closing = (*known_texts.closing_texts(plan), *self._ends)
        self._rests, self._exits = known_texts.rule_rests(plan), known_texts.exit_ids(plan)
        grammars = known_texts.grammars_in(plan)
        self._has_ignored = any(kind == "lark" and "%ignore" in source for kind, source in grammars)
        self._names = known_texts.member_names(plan)[::-1]  # what is required last comes first

    def at(self, here: Outlook, place: AnswerPlace, places: PlaceMap, *, is_begun: bool) -> list[Candidate]:
        """Return what to try at a place where the answer cannot end.

        ``is_begun``: there was text before the search, after which rests of rules may be left.
        """
        if place.scan is not None:
            candidates = self._in_json(here, place.scan, must_differ=places.has_unique)
            if candidates:
                return candidates
        mask, region = here.mask, places.region(place)
        many = mask.byte_bits.bit_count()
        ids = sorted(mask.ids, key=lambda i: i not in self._exits)[:FEW]
        candidates = [Candidate((FIRST_MARKER + i,)) for i in ids]
        # Text of the answer itself may end after a letter, where what leads out of it leads on to a call.
        is_left = many > FREE_TEXT and region is not RegionName.CONTENT
        if candidates and is_left:
            return candidates  # a marker ends the text
        if many > FEW:
            closing = [*here.leading(self._closing)]
            if not closing:
                closing = [*here.leading(self._closing, partial(_ends_reasoning, places, place))]
            candidates += map(Candidate, closing)
            if candidates and is_left:
                return candidates
            ends = self._string_ends(here, self._ends)
            if not ends and many > FREE_TEXT:
                ends = _filled(here, here.some(), self._ends)
            if ends:
                return list(dict.fromkeys((*candidates, *ends)))
        leading = here.leading if many > FREE_TEXT else here.shortest
        rests = [Candidate(symbols) for symbols in leading(self._rests if is_begun else ())]
        is_ignored = self._has_ignored and many > FEW and region not in (RegionName.CONTENT, RegionName.REASONING)
        blanks = bytes(byte for byte in BLANK if is_ignored and mask.allows(byte))
        some = bits_of(mask.byte_bits) if many <= FEW else here.some(blanks)
        if region is RegionName.CONTENT and mask.allows(0x61) and 0x61 not in some:
            some = (*some, 0x61)  # classes may be remembered from reasoning, where a letter is as good as a blank
        extra = _OPTIONAL_COST if rests else 0.0
        stays = here.looks(blanks).get(Lookahead(mask, b"")) if many > FEW and len(some) > 1 else None
        idle = (stays, *blanks[:1], *(byte for byte in some if blanks and byte > 0x7F))  # a blank may be one of them
        some = (*some, *blanks[:1])  # it parts two words, and hides none that leads to a place like it
        singles = (Candidate((byte,), extra=extra + _NO_CHANGE_COST * (byte in idle)) for byte in some)
        return [*candidates, *rests, *singles]

    def others(self, here: Outlook) -> list[Candidate]:
        """Return what to try besides where a watcher refuses what closes a value, what is nearest last."""
        some = dict.fromkeys(here.some(BLANK + b",]}"))
        more = dict.fromkeys(byte for byte in _DIFFERING if here.mask.allows(byte))
        return _each((*(byte for byte in some if byte not in more), *more))

    # -- JSON

    def _in_json(self, here: Outlook, scan: ScanState, *, must_differ: bool) -> list[Candidate]:
        matcher, mask = here.matcher, here.mask
        allowed = mask.byte_bits
        is_guess = allowed.bit_count() > FEW and not allowed >> 0x22 & 1  # bytes do not show which name is written
        match scan.mode:
            case Mode.VALUE:
                if not allowed >> 0x5D & 1 and (candidates := _different(matcher, scan)):
                    return candidates
                candidates = self._value(here, must_differ=must_differ)
                return candidates[:1] if _has_many(scan) and not must_differ else candidates
            case Mode.KEY if allowed >> 0x7D & 1:
                return [Candidate((0x7D,))]
            case Mode.KEY if allowed >> 0x22 & 1:  # the last required name, or else some names and any other
                required = self._required(matcher, scan)
                named = [] if required else self._named(matcher)
                return required or [*named, Candidate((0x22,), settles=not named)]
            case Mode.IN_KEY if candidates := self._required(matcher, scan):
                return [*candidates, *(Candidate((byte,), extra=_OPTIONAL_COST) for byte in here.some())]
            case Mode.IN_KEY if is_guess and (candidates := self._named(matcher, b'"' + scan.text)):
                return [*candidates, *_each(here.some())]
            case Mode.STRING if candidates := _different(matcher, scan):
                return candidates
            case Mode.STRING | Mode.IN_KEY:
                if allowed >> 0x22 & 1:
                    is_item = scan.mode is Mode.STRING and scan.frame is not None and not scan.frame.is_object
                    words = self._string_ends(here, _QUOTE) if is_item else []  # it may be contained
                    return [*words, Candidate((0x22,))]
                if candidates := self._string_ends(here, _QUOTE):
                    return candidates
                some = here.some()
                candidates = _filled(here, some, _QUOTE)
                return candidates or (self.others(here) if must_differ else _each(reversed(some)))
            case Mode.NUMBER | Mode.LITERAL | Mode.AFTER:
                for closer in b"}]":
                    if allowed >> closer & 1:
                        return [Candidate((closer,))]
                if allowed >> 0x2C & 1:
                    return [Candidate((0x2C,), settles=_has_many(scan))]
                if mask.ids and scan.frame is None:
                    return _each(FIRST_MARKER + i for i in mask.ids[:FEW])  # a marker ends the value
                if scan.mode is Mode.NUMBER:
                    return _each(here.some(BLANK if scan.frame is not None else b""))
        return []

    def _value(self, here: Outlook, *, must_differ: bool) -> list[Candidate]:
        """Return what begins a value: all digits where values may have to differ, else one of those that lead alike."""
        allowed = here.mask.byte_bits
        if allowed >> 0x5D & 1:
            return [Candidate((0x5D,))]
        digits = [digit for digit in _DIGITS if allowed >> digit & 1]
        if len(digits) > _NAMES_AT_ONCE and not must_differ:
            digits = [*here._replace(mask=ByteMask(allowed & set_of(_DIGITS), ())).some()]
        first = [byte for byte in (*digits, *b'"[{tfn-') if allowed >> byte & 1]
        return [Candidate((byte,), begins_value=True) for byte in first]

    @cached_property
    def _words(self) -> Sequence[tuple[bytes, Sequence[Sequence[int]]]]:
        """Words of patterns and of arguments as JSON writes them and as text, with the ends of such strings."""
        words, quotes = known_texts.string_texts(self._plan), {*_QUOTE, *(end for end in self._ends if end[0] == 0x22)}
        others = [end for end in self._ends if end not in quotes]
        as_json = [(json.dumps(word, ensure_ascii=False).encode()[1:-1], [*quotes]) for word in words]
        return [*as_json, *((word.encode(), others) for word in words if others)]

    def _string_ends(self, here: Outlook, ends: Sequence[Sequence[int]]) -> list[Candidate]:
        """Return the rests of words of patterns and of arguments that lead to one of ``ends``, where no byte may."""
        candidates: list[Candidate] = []
        plain: dict[int, Lookahead | None] = {}
        for word, some in self._words:
            left = [end for end in some if end in ends]
            rests = ((word[at:], end) for at in reversed(range(len(word))) for end in tuple(left))
            for ending, end in rests:
                text = (*ending, *end)
                if end in left and here.fits(text):
                    if here.leads(text, plain):
                        candidates.append(Candidate(text))
                        break
                    left.remove(end)  # here it is text
        return candidates

    def _required(self, matcher: ByteMatcher, scan: ScanState) -> list[Candidate]:
        """The rest of the last required name that may be written in an object and has not been.

        Of several for the first name in a key, which may decide what the object is.
        """
        written_part = b'"' + scan.text if scan.mode is Mode.IN_KEY else b""
        written = scan.frame.written if scan.frame is not None else ()
        names = (name for name, needed in self._names if needed and name.startswith(written_part))
        rests = (name[len(written_part) :] for name in names if name[1:-1] not in written)
        most = FEW if written_part and not written else 1
        return [Candidate(tuple(ending), settles=most == 1) for ending in islice(filter(matcher.accepts, rests), most)]

    def _named(self, matcher: ByteMatcher, written_part: bytes = b"") -> list[Candidate]:
        """The rests of known names after ``written_part``: of the last required one, or else of some."""
        for is_required in (True, False):
            names = (name for name, needed in self._names if needed is is_required and name.startswith(written_part))
            rests = (ending for ending in (name[len(written_part) :] for name in names) if matcher.accepts(ending))
            last = list(islice(rests, 1 if is_required else _NAMES_AT_ONCE))
            if last:
                return [Candidate(tuple(ending)) for ending in reversed(last)]
        return []


def _ends_reasoning(places: PlaceMap, place: AnswerPlace, text: Sequence[int]) -> bool:
    """Whether ``text`` leads out of reasoning, after which the same may be allowed as in it."""
    if places.region(place) is not RegionName.REASONING:
        return False
    return places.region(places.advance(place, text)) is not RegionName.REASONING


def _filled(here: Outlook, some: Iterable[int], ends: Sequence[Sequence[int]]) -> list[Candidate]:
    """The shortest run of one byte after which a string may end, where that is not the first byte.

    A string of a least length may end after each longer run; elsewhere the run ends it as well, but may not be the
    shortest.  None where the string may end after one of the bytes and not after another: a run is longer.
    """
    matcher, classes, runs = here.matcher, here.classes, list[tuple[int, ...]]()
    some = [byte for byte in some if byte != 0x5C]  # an escape is not a run
    classes.spent += FITTED * len(some) * len(ends)
    at_once = [[matcher.accepts((byte, *end)) for byte in some] for end in ends]
    if any(any(fits) and not all(fits) for fits in at_once):
        return []
    late = [end for end, fits in zip(ends, at_once, strict=True) if not any(fits)]
    for byte in some if late else ():
        for size in _RUN_LENGTHS:
            run = (byte,) * matcher.num_accepted((byte,) * size)
            end = next((end for end in late if matcher.accepts((*run, *end))), None)
            classes.spent += FITTED * (len(ends) + size / _RUN_LENGTHS[0])
            if end is not None:
                least = 2 + bisect_left(range(2, len(run)), True, key=lambda at: matcher.accepts((*run[:at], *end)))
                classes.spent += 8 * FITTED
                runs.append(run[:least])
            if len(run) < size or end is not None:
                break
    return [Candidate(min(runs, key=len))] if runs else []


def _each(symbols: Iterable[int]) -> list[Candidate]:
    return [Candidate((symbol,)) for symbol in symbols]


def open_parts(place: AnswerPlace) -> int:
    """Return how much is open at a place: brackets, a string, and what a comma or colon asks for."""
    scan = place.scan
    if scan is None:
        return 0
    return (scan.frame.depth if scan.frame is not None else 0) + _OPEN_PARTS.get(scan.mode, 0)


def _different(matcher: ByteMatcher, scan: ScanState) -> list[Candidate]:
    """A number or a word for an item that must differ from many others: one of its index."""
    at = scan.frame.item_index if scan.frame is not None and scan.frame.node >= 0 else 0
    written_part = b"" if scan.mode is Mode.VALUE else b'"' + scan.text
    for text in (b"%d" % (100 + at), b'"%c%c"' % (97 + at // 26 % 26, 97 + at % 26)) if at >= _MANY_MEMBERS else ():
        if text.startswith(written_part) and matcher.accepts(text[len(written_part) :]):
            return [Candidate(tuple(text[len(written_part) :]))]
    return []


def _has_many(scan: ScanState) -> bool:
    """Whether so much of an array or object that is open has been written that other values for it are not compared."""
    frame = scan.frame
    while frame is not None and max(frame.item_index, len(frame.written)) < _MANY_MEMBERS:
        frame = frame.parent
    return frame is not None
