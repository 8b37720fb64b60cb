"""The committed tokens of one sequence, and where each of them left it.

A trail grows by about 16 bytes a token: a token id and a reference to a position, which neighbours share.  What
changes only now and then (the region, a forced closing) is one entry where it changed, so undoing is cutting lists.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from guided.tracking.regions import Position

__all__ = ["Trail"]


class _Stay(NamedTuple):
    """A stay in region number ``region`` whose first token is token number ``start``."""

    start: int
    region: int


class _Closing(NamedTuple):
    """From token number ``start`` on these tokens are forced; () ends an earlier closing."""

    start: int
    tokens: tuple[int, ...]


class Trail:
    """Tokens, positions after them, and the stays and closings they belong to."""

    __slots__ = ("_closings", "_positions", "_stays", "_tokens")

    def __init__(self, position: Position, region: int) -> None:
        self._tokens = array("q")
        self._positions = [position]
        self._stays = [_Stay(0, region)]
        self._closings: list[_Closing] = []

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> array[int]:
        """The committed tokens; read only."""
        return self._tokens

    @property
    def positions(self) -> list[Position]:
        """Where each token begins, and the next one; read only."""
        return self._positions

    @property
    def position(self) -> Position:
        """Where the next token begins."""
        return self._positions[-1]

    @property
    def region(self) -> int:
        """Number of the region in which the next token begins."""
        return self._stays[-1].region

    @property
    def count(self) -> int:
        """Tokens begun in this stay so far."""
        return len(self._tokens) - self._stays[-1].start

    @property
    def closing(self) -> tuple[int, ...]:
        """What is left of the closing that has begun; () where none has."""
        if not self._closings:
            return ()
        start, tokens = self._closings[-1]
        return tokens[len(self._tokens) - start :]

    def push(self, token: int, position: Position, region: int) -> None:
        """Append a token that leads to ``position`` in ``region``."""
        stay = self._stays[-1]
        if self._closings and self.closing and (self.closing[0] != token or region != stay.region):
            self._closings.append(_Closing(len(self._tokens), ()))
        self._tokens.append(token)
        # One object for equal neighbours: inside a region the position mostly stays as it is.
        last = self._positions[-1]
        self._positions.append(last if position == last else position)
        if region != stay.region:
            self._stays.append(_Stay(len(self._tokens), region))

    def stay(self, token: int) -> None:
        """`push` of a token behind which the position is as before."""
        if self._closings:
            self.push(token, self._positions[-1], self._stays[-1].region)
        else:
            self._tokens.append(token)
            self._positions.append(self._positions[-1])

    def close(self, tokens: tuple[int, ...]) -> None:
        """The next tokens are forced to be ``tokens``."""
        self._closings.append(_Closing(len(self._tokens), tokens))

    def pop(self, num_tokens: int) -> None:
        """Forget the last ``num_tokens`` tokens."""
        if num_tokens == 0:
            return
        del self._tokens[-num_tokens:], self._positions[-num_tokens:]
        size = len(self._tokens)
        while self._stays[-1].start > size:
            self._stays.pop()
        while self._closings and self._closings[-1].start >= size:
            self._closings.pop()

    def num_common(self, tokens: Sequence[int]) -> int:
        """How many tokens the trail and ``tokens`` begin with in common."""
        mine = self._tokens
        size = min(len(mine), len(tokens))
        if list(tokens[:size]) == mine[:size].tolist():
            return size
        return next(i for i in range(size) if mine[i] != tokens[i])

    def fork(self) -> Trail:
        """An independent copy."""
        twin = object.__new__(Trail)
        twin._tokens = self._tokens[:]
        twin._positions = self._positions.copy()
        twin._stays = self._stays.copy()
        twin._closings = self._closings.copy()
        return twin

    @property
    def size_bytes(self) -> int:
        """Memory held by this trail alone; positions that neighbours share are counted once."""
        positions = {id(p): sys.getsizeof(p) for p in self._positions}
        lists = (self._tokens, self._positions, self._stays, self._closings)
        return sum(map(sys.getsizeof, lists)) + sum(positions.values())
