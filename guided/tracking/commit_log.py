"""The log of the committed tokens of one sequence, and the position after each of them.

A log grows by about 16 bytes a token: a token id and a reference to a position, which neighbours share.  What changes
only now and then (the region, an exit, a forced closing) is one entry where it changed, so undoing is cutting lists.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grammars.plan.plan import RegionName
from guided.tracking.regions import Move, Position, RegionMap, Span

__all__ = ["CommitLog", "StopReason", "num_common"]


@dataclass(frozen=True, slots=True)
class StopReason:
    """The reason why a sequence ended: an end token of a region, or nothing more could follow."""

    kind: str  #: ``end`` or ``complete``
    token_id: int | None = None
    region: RegionName = RegionName.CONTENT


class _Stay(NamedTuple):
    """A stay in region number ``region`` whose first token is token number ``start``."""

    start: int
    region: int


class _Closing(NamedTuple):
    """From token number ``start`` on these tokens are forced; () ends an earlier closing."""

    start: int
    tokens: tuple[int, ...]


class CommitLog:
    """The committed tokens, the positions between them, and the stays and closings that they belong to.

    It follows the regions: once per token, and only where a token may change the position.
    """

    __slots__ = ("_closings", "_regions", "_stays", "exits", "positions", "tokens")

    def __init__(self, regions: RegionMap, region: int) -> None:
        self._regions = regions
        #: the committed tokens; read only
        self.tokens = array("q")
        #: the position before each token, and the one after the last; read only
        self.positions = [regions.start(region)]
        #: by token number: the exits that the token completes, where there are some; read only
        self.exits: dict[int, tuple[Span, ...]] = {}
        self._stays = [_Stay(0, region)]
        self._closings: list[_Closing] = []

    @property
    def position(self) -> Position:
        """The position of the next token."""
        return self.positions[-1]

    @property
    def region(self) -> int:
        """Number of the region in which the next token begins."""
        return self._stays[-1].region

    @property
    def count(self) -> int:
        """Tokens begun in this stay so far."""
        return len(self.tokens) - self._stays[-1].start

    @property
    def closing_tokens(self) -> tuple[int, ...]:
        """The tokens left of the closing that has begun; () if none has."""
        if not self._closings:
            return ()
        start, tokens = self._closings[-1]
        return tokens[len(self.tokens) - start :]

    @property
    def last_move(self) -> Move:
        """The effect of the last token."""
        return Move(self.positions[-1], self.exits.get(len(self.tokens) - 1, ()))

    def stays(self) -> list[tuple[RegionName, int]]:
        """Return the parts of the answer in their order, each with the number of tokens that begin in it."""
        stays = self._stays.copy()  # another thread may look on
        ends = [*(stay.start for stay in stays[1:]), len(self.tokens)]
        names = [self._regions.regions[stay.region].name for stay in stays]
        return [(name, end - stay.start) for name, stay, end in zip(names, stays, ends, strict=True)]

    def push(self, token: int) -> None:
        """Append a token, and follow it from region to region."""
        position, regions = self.positions[-1], self._regions
        if position.node or regions.reads_bytes[position.state] or token in regions.markers:
            move = regions.follow(position, token)
            if move.exits:
                self.exits[len(self.tokens)] = move.exits
            # One object for equal neighbours: inside a region the position mostly stays as it is.
            self._append(token, position if move.position == position else move.position)
        elif self._closings:
            self._append(token, position)
        else:
            self.tokens.append(token)
            self.positions.append(position)

    def push_end(self, token: int) -> None:
        """Append an end token, which belongs to the region that it ends."""
        self._append(token, self.positions[-1])

    def _append(self, token: int, position: Position) -> None:
        stay = self._stays[-1]
        region = self._regions.region_number(position)
        if self._closings and self.closing_tokens and (self.closing_tokens[0] != token or region != stay.region):
            self._closings.append(_Closing(len(self.tokens), ()))
        self.tokens.append(token)
        self.positions.append(position)
        if region != stay.region:
            self._stays.append(_Stay(len(self.tokens), region))

    def close(self, tokens: tuple[int, ...]) -> None:
        """The next tokens are forced to be ``tokens``."""
        self._closings.append(_Closing(len(self.tokens), tokens))

    def pop(self, num_tokens: int) -> None:
        """Forget the last ``num_tokens`` tokens."""
        if num_tokens == 0:
            return
        del self.tokens[-num_tokens:], self.positions[-num_tokens:]
        size = len(self.tokens)
        while self._stays[-1].start > size:
            self._stays.pop()
        while self._closings and self._closings[-1].start >= size:
            self._closings.pop()
        if self.exits:
            self.exits = {number: exits for number, exits in self.exits.items() if number < size}

    def num_common(self, tokens: Sequence[int]) -> int:
        """Return the length of the common prefix of the committed tokens and ``tokens``."""
        return num_common(self.tokens.tolist(), list(tokens))

    def fork(self) -> CommitLog:
        """Return an independent copy."""
        twin = object.__new__(CommitLog)
        twin._regions = self._regions
        twin.tokens = self.tokens[:]
        twin.positions = self.positions.copy()
        twin.exits = self.exits.copy()
        twin._stays = self._stays.copy()
        twin._closings = self._closings.copy()
        return twin


def num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two tuples or lists: slices are compared, ever longer, then halved."""
    low, size, end = 0, 32, min(len(one), len(other))
    while one[low : (high := min(low + size, end))] == other[low:high]:
        if high == end:
            return end
        low, size = high, 2 * size
    while low < high - 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
