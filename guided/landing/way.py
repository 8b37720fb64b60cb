"""A way to the end of an answer: symbols, the tokens that write them, and the values that begin on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guided.landing.byte_twin import ByteMatcher
from guided.landing.place import AnswerPlace, PlaceMap
from guided.watchers.persistent_set import Mode

__all__ = ["EMPTY", "NOTHING", "Way", "rests", "values_of"]

#: A string on the shortest way counts as empty, to be filled by the model, if it has at most this many bytes.
EMPTY = 2
#: The most rests of a way that `rests` follows to their end.
_FOLLOWED = 6
_FREE_TEXT = 64


class Way:
    """``symbols`` end an answer; ``tokens`` write them and the end token, and are None until they are known.

    ``values`` are the JSON values that begin on the way: the distance of each from the way's end, in symbols, and
    whether it is a string (else it is a number).
    """

    __slots__ = ("size", "symbols", "tokens", "values")

    def __init__(
        self, symbols: Sequence[int], tokens: Sequence[int] | None, values: Sequence[tuple[int, bool]] = ()
    ) -> None:
        self.symbols = symbols
        self.tokens = tokens
        self.values = values
        #: upper bound of the number of tokens
        self.size = len(symbols) + 1 if tokens is None else len(tokens)

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


def rests(matcher: ByteMatcher, place: AnswerPlace, places: PlaceMap, symbols: Sequence[int]) -> Iterator[int]:
    """Yield the indexes at which ``symbols``, a way from another place, end the answer from here; the last first."""
    mask = matcher.mask()
    if not matcher.ends.isdisjoint(mask.ids):
        yield len(symbols)
    in_string = place.scan is not None and place.scan.mode in (Mode.STRING, Mode.IN_KEY)
    in_text = place.scan is None and mask.bytes.bit_count() > _FREE_TEXT
    followed = 0
    for at in range(len(symbols) - 1, -1, -1):
        first = symbols[at]
        if (in_string and first != 0x22) or (in_text and first < 256 and at):
            continue
        if not (mask.bytes >> first & 1 if first < 256 else first - 256 in mask.ids):
            continue
        rest = symbols[at:]
        if not matcher.fits(rest):
            continue
        copy = matcher.copy()
        is_end = copy.feed(rest) and not copy.ends.isdisjoint(copy.mask().ids)
        if is_end and not places.advance(place, rest).is_refused:
            yield at
        followed += 1
        if followed == _FOLLOWED:
            return
