"""A path to the end of an answer: symbols and the tokens that write them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grammars.values.persistent_set import Mode
from guided.landing.byte_classes import FREE_TEXT
from guided.landing.byte_twin import ByteMatcher
from guided.landing.effort import Effort
from guided.tracking.places import AnswerPlace, PlaceMap
from guided.tracking.regions import RegionMap

__all__ = ["NOTHING", "EndPath", "remaining_from"]

_CHECK_COST = 0.1  # of one check whether the end of a path fits, in places of a search
_SYMBOLS_PER_PLACE = 600  # of a path, whose check takes as long as one place
#: Comes after each key.
_COLON = 0x3A
#: The symbols of the end of a path that are tried before all of them.
_FIRST_SYMBOLS = 40


@dataclass(eq=False)
class EndPath:
    """``symbols`` end an answer.  ``tokens`` write the symbols and the end token; None until they are known.

    ``size`` is an upper bound of the number of tokens, the end token included; -1 when a path is made: that of the
    tokens, without them the number of symbols plus 1.  A given smaller number counts each of the first ``num_single``
    symbols as a token.
    """

    symbols: Sequence[int]
    tokens: Sequence[int] | None = None
    size: int = -1
    num_single: int = 0
    _ids: list[int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.size < 0:
            self.size = len(self.symbols) + 1 if self.tokens is None else len(self.tokens)

    def ids(self, matcher: ByteMatcher) -> list[int]:
        """Return the symbols as ids of ``matcher``, any of the answer's."""
        if self._ids is None:
            self._ids = matcher.to_ids(self.symbols)
        return self._ids

    @cached_property
    def positions(self) -> Mapping[int, Sequence[int]]:
        """The indexes of each symbol, ascending."""
        positions = defaultdict[int, list[int]](list)
        for at, symbol in enumerate(self.symbols):
            positions[symbol].append(at)
        return positions

    def after(self, token: int, symbols: Sequence[int]) -> EndPath | None:
        """Return what remains of the path after ``token``; None if ``token`` is not the next one on it."""
        tokens, size = self.tokens, len(symbols)
        if tokens is None:
            is_next = bool(symbols) and tuple(self.symbols[:size]) == tuple(symbols)
        else:
            is_next, tokens = tuple(tokens[:1]) == (token,), tokens[1:]
        return EndPath(self.symbols[size:], tokens) if is_next else None

    def from_symbol(self, at: int, regions: RegionMap) -> EndPath:
        """Return the path from its symbol ``at`` on; the rest of a token counts as single symbols."""
        if not at:
            return self
        symbols = self.symbols[at:]
        if not symbols:
            return EndPath(())
        if self.tokens is None:
            is_single = at <= self.num_single
            return EndPath(symbols, size=self.size - at if is_single else -1, num_single=self.num_single - at)
        num = written = 0
        while written < at:
            written += len(regions.symbols(self.tokens[num]))
            num += 1
        return EndPath(symbols, size=written - at + len(self.tokens) - num, num_single=written - at)

    def prefixed(self, symbols: Sequence[int]) -> EndPath:
        """Return the path that writes ``symbols`` first."""
        size = len(symbols)
        single = size + (self.num_single if self.tokens is None else 0)
        return EndPath((*symbols, *self.symbols), size=size + self.size, num_single=single) if size else self


#: The empty path: nothing more must be written, for example because free text may be cut anywhere.
NOTHING = EndPath((), ())


def remaining_from(
    matcher: ByteMatcher,
    place: AnswerPlace,
    places: PlaceMap,
    path: EndPath,
    effort: Effort,
    after: int = -1,
    written: int = -1,
) -> int:
    """Return the last index after ``after`` from which the symbols of ``path`` end the answer from here, else -1.

    ``path`` belongs to another place of the answer, after which ``written`` symbols were written, if that is known: the
    rest of a text of one length may follow others.
    """
    mask = matcher.mask()
    if not matcher.ends.isdisjoint(mask.ids):
        return len(path.symbols)
    in_string = place.scan is not None and place.scan.mode in (Mode.STRING, Mode.IN_KEY)
    in_text = place.scan is None and mask.byte_bits.bit_count() > FREE_TEXT
    in_string = in_string and mask.allows(0x22)  # else a pattern wants more of it, and a part of the path may fit
    starts: list[int] = []
    ends = places.regions.next_of_exits(place.position) if in_text else ()
    for symbol, indexes in path.positions.items():
        if mask.allows(symbol) and (symbol == 0x22 or not in_string):
            starts += [at for at in indexes if not at or not in_text or symbol >= 256 or symbol in ends]
    if in_string:  # what has been written may only delay the path, or be a part of it
        starts += {0, written} & set(range(len(path.symbols)))
    is_free = not (place.is_refused or places.has_unique or (place.scan and place.scan.mode) is Mode.NUMBER)
    ids = path.ids(matcher)
    kept = effort.left / 2  # for a search
    for at in sorted((at for at in starts if at > after), reverse=True):
        if effort.left < kept:
            break
        effort.spend(_CHECK_COST)
        if len(ids) - at > _FIRST_SYMBOLS and not matcher.accepts_ids(ids[at : at + _FIRST_SYMBOLS]):
            continue
        effort.spend((len(ids) - at) / _SYMBOLS_PER_PLACE)
        if matcher.ends_after(ids[at:]):
            # A part of a path has no more digits than the whole; without a key none is repeated.
            remainder = path.symbols[at:]
            if (is_free and _COLON not in remainder) or not places.refuses(place, remainder):
                return at
    return -1
