"""The search for the stop pattern of one row: decodes content bytes to characters and feeds the incremental regex."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from guided.stops.automaton import StopAutomaton
from guided.stops.incremental_regex import IncrementalRegex, Thread
from guided.stops.scope import Piece
from guided.stops.strings import CompletedStop
from guided.tracking.regions import Move

__all__ = ["PatternSearch"]


class PatternSearch:
    """The search for the stop pattern of one row, with one state per token so that it can be rolled back."""

    __slots__ = ("_history", "_pattern")

    def __init__(self, pattern: IncrementalRegex) -> None:
        self._pattern = pattern
        self._history: list[_Place] = [_IDLE]

    @property
    def held_bytes(self) -> int:
        place = self._history[-1]
        starts = place.thread.starts
        return place.at - min(starts) if starts else len(place.partial)

    def push(
        self, automaton: StopAutomaton, node: int, token: int, string: CompletedStop | None, move: Move | None = None
    ) -> CompletedStop | None:
        """Read a token; return the earlier of ``string`` (a stop found otherwise) and the pattern's first match.

        ``move``: see `guided.stops.scope.Scope.step`.
        """
        place, step = self._history[-1], node << 32 | token
        if place is _IDLE and step in automaton.idle:
            self._history.append(_IDLE)
            return string
        pieces, joined = automaton.pieces(node, token, move)
        after, completed = self._read_all(place, pieces)
        after = after if joined and (after.partial or after.thread.state) else _IDLE
        self._history.append(after)
        if place is _IDLE and after is _IDLE and completed is None:
            automaton.idle.add(step)
        if completed is None or string is None:
            return completed or string
        return min(completed, string, key=lambda f: (f.end, -f.length))

    def _read_all(self, place: _Place, pieces: Iterable[Piece]) -> tuple[_Place, CompletedStop | None]:
        for piece in pieces:
            place, completed = self._read(place, piece)
            if completed is not None:
                return place, completed
        return place, None

    def _read(self, place: _Place, piece: Piece) -> tuple[_Place, CompletedStop | None]:
        thread, partial, at = _IDLE if piece.fresh else place
        for i, byte in enumerate(piece.data):
            partial += bytes((byte,))
            at += 1
            char = _character(partial)
            if char is None:
                continue
            thread, start = self._pattern.feed(thread, char, at - len(partial))
            partial = b""
            if start is not None:
                return _IDLE, CompletedStop(piece.base + i + 1, at - start, self._pattern.source)
        return _Place(thread, partial, at), None

    def rollback(self, num_tokens: int) -> None:
        del self._history[-num_tokens:]

    def fork(self) -> PatternSearch:
        twin = PatternSearch(self._pattern)
        twin._history = self._history.copy()
        return twin


class _Place(NamedTuple):
    """The state of the search: its thread, the bytes of an unfinished character, bytes read since it was idle."""

    thread: Thread = Thread()
    partial: bytes = b""
    at: int = 0


_IDLE = _Place()


def _character(data: bytes) -> str | None:
    """Return the character that ``data`` encodes; None while it is incomplete; U+FFFD for invalid bytes."""
    first = data[0]
    size = 1 if first < 0x80 else 2 if first >> 5 == 6 else 3 if first >> 4 == 14 else 4 if first >> 3 == 30 else 1
    if len(data) < size and all(byte >> 6 == 2 for byte in data[1:]):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"
