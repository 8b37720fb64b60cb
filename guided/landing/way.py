"""A way to the end of an answer: symbols, the tokens that write them, and the values that begin on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guided.landing.byte_twin import ByteMatcher
from guided.landing.effort import Effort
from guided.landing.place import AnswerPlace, PlaceMap
from guided.watchers.persistent_set import Mode

__all__ = ["EMPTY", "NOTHING", "Way", "rest_at", "values_of"]

#: A string on the shortest way counts as empty, to be filled by the model, if it has at most this many bytes.
EMPTY = 2
_FREE_TEXT = 64
#: Places that take as long as one look whether a rest ends the answer, and as looking at this many of its symbols.
_CHECKED, _READ = 0.1, 600
#: Comes after each key.
_COLON = 0x3A
#: The symbols of a rest that are tried before all of them.
_BEGUN = 40


class Way:
    """``symbols`` end an answer; ``tokens`` write them and the end token, and are None until they are known.

    ``values`` are the JSON values that begin on the way: the distance of each from the way's end, in symbols, and
    whether it is a string (else it is a number).
    """

    __slots__ = ("_ids", "_positions", "size", "symbols", "tokens", "values")

    def __init__(
        self, symbols: Sequence[int], tokens: Sequence[int] | None, values: Sequence[tuple[int, bool]] = ()
    ) -> None:
        self.symbols = symbols
        self.tokens = tokens
        self.values = values
        #: upper bound of the number of tokens
        self.size = len(symbols) + 1 if tokens is None else len(tokens)
        self._ids: list[int] | None = None
        self._positions: dict[int, list[int]] | None = None

    def ids(self, matcher: ByteMatcher) -> list[int]:
        """Return the symbols as ids of ``matcher``, any of the answer's."""
        if self._ids is None:
            self._ids = matcher.ids(self.symbols)
        return self._ids

    @property
    def positions(self) -> dict[int, list[int]]:
        """The indexes of each symbol, ascending."""
        if self._positions is None:
            self._positions = {}
            for at, symbol in enumerate(self.symbols):
                self._positions.setdefault(symbol, []).append(at)
        return self._positions

    def after(self, token: int, symbols: Sequence[int]) -> Way | None:
        """Return the rest of the way after ``token``; None if ``token`` is not the next one on the way."""
        if self.tokens is None:
            is_next = bool(symbols) and tuple(self.symbols[: len(symbols)]) == tuple(symbols)
            return Way(self.symbols[len(symbols) :], None, self.values) if is_next else None
        if self.tokens and self.tokens[0] == token:
            return Way(self.symbols[len(symbols) :], self.tokens[1:], self.values)
        return None

    def open_values(self) -> Iterator[bool]:
        """Yield, for each value that begins on the rest of the way, whether it is a string."""
        return (is_string for distance, is_string in self.values if distance <= len(self.symbols))


#: The empty way: nothing more must be written, for example because free text may be cut anywhere.
NOTHING = Way((), ())


def values_of(places: PlaceMap, place: AnswerPlace, symbols: Sequence[int]) -> tuple[tuple[int, bool], ...]:
    """Return the `Way.values` of symbols that follow ``place``: empty or short strings, and numbers."""
    found: list[tuple[int, bool]] = []
    size, begun = len(symbols), -1
    before = place.scan.mode if place.scan is not None else None
    for i, symbol in enumerate(symbols):
        place = places.advance(place, (symbol,))
        mode = place.scan.mode if place.scan is not None else None
        if mode is not before:
            if mode is Mode.STRING:
                begun = i
            elif before is Mode.STRING and begun >= 0 and i - begun - 1 <= EMPTY:
                found.append((size - begun, True))
            if mode is Mode.NUMBER:
                found.append((size - i, False))
            before = mode
    return tuple(found)


def rest_at(
    matcher: ByteMatcher,
    place: AnswerPlace,
    places: PlaceMap,
    way: Way,
    effort: Effort,
    after: int = -1,
    written: int = -1,
    *,
    may_repeat: bool = False,
) -> int:
    """Return the last index after ``after`` from which the symbols of ``way`` end the answer from here, else -1.

    ``way`` belongs to another place of the answer, after which ``written`` symbols have been written, if that is known:
    the rest of a text of one length may follow others.  ``may_repeat``: whether watchers are not asked.
    """
    mask = matcher.mask()
    if not matcher.ends.isdisjoint(mask.ids):
        return len(way.symbols)
    in_string = place.scan is not None and place.scan.mode in (Mode.STRING, Mode.IN_KEY)
    in_text = place.scan is None and mask.bytes.bit_count() > _FREE_TEXT
    in_string = in_string and mask.allows(0x22)  # else a pattern wants more of it, and a part of the way may fit
    found: list[int] = []
    ends = places.regions.next_of_exits(place.position) if in_text else ()
    for symbol, indexes in way.positions.items():
        if mask.allows(symbol) and (symbol == 0x22 or not in_string):
            found += [at for at in indexes if not at or not in_text or symbol >= 256 or symbol in ends]
    if in_string:  # what has been written may only delay the way, or be a part of it
        found += {0, written} & set(range(len(way.symbols)))
    is_free = not (place.is_refused or places.has_unique or (place.scan and place.scan.mode) is Mode.NUMBER)
    ids = way.ids(matcher)
    kept = effort.left / 2  # for a search
    for at in sorted((at for at in found if at > after), reverse=True):
        if effort.left < kept or effort.is_spent:
            break
        effort.spend(_CHECKED)
        if len(ids) - at > _BEGUN and not matcher.fits(way.symbols[at : at + _BEGUN]):
            continue
        effort.spend((len(ids) - at) / _READ)
        if matcher.ends_after(ids[at:]):
            rest = way.symbols[at:]  # a part of a way has no more digits than the whole; without a key none is repeated
            if may_repeat or (is_free and _COLON not in rest) or not places.refuses(place, rest):
                return at
    return -1
