"""The stop strings of a request, searched at once; the search goes on where the last token ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from guided.stops.scope import Piece
from guided.tracking.aho_corasick import AhoCorasick

__all__ = ["CompletedStop", "StopStrings"]


class CompletedStop(NamedTuple):
    """A stop that one token completes; it ends ``end`` bytes after the token's start and is ``length`` bytes long."""

    end: int
    length: int
    reason: str | int


class StopStrings:
    """All stop strings of a request as one automaton over bytes; nodes are its nodes."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._words = AhoCorasick((string.encode("utf-8"), string) for string in strings)
        self.depth = self._words.depth  #: by node: bytes of the partial match

    def scan(self, node: int, piece: Piece) -> tuple[int, CompletedStop | None]:
        """Return the node after ``piece``, and the first stop that it completes."""
        if piece.fresh:
            node = 0
        for i, byte in enumerate(piece.data):
            node = self._words.next(node, byte)
            completed = self._words.output[node]
            if completed is not None:
                return node, CompletedStop(piece.base + i + 1, len(completed.encode("utf-8")), completed)
        return node, None
