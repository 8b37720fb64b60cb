"""The scope of stops: selects the bytes of an answer in which stop strings and patterns are searched.

Stops apply to content: not inside reasoning or tool calls, not inside the strings of a JSON response, and not to a
marker or the white space that frames it.  Bytes that may begin a marker written as text are held until they turn out
to be content.  Without a plan, or if the plan's stops apply everywhere, all bytes are content.
"""

from __future__ import annotations

from typing import NamedTuple

from grammars.plan.plan import Plan, RegionName
from grammars.values.json_scanner import string_end
from guided.engine.engine import Engine
from guided.tracking.regions import Move, Position, RegionMap, spans_of

__all__ = ["BEGIN", "Piece", "Scope", "ScopeState"]


class Piece(NamedTuple):
    """Bytes of one token that are content.

    ``base`` is their offset in the token; negative if they begin in an earlier token (framing that turned out to be
    text).  ``fresh``: no match may continue from earlier content into them.
    """

    base: int
    data: bytes
    fresh: bool


class ScopeState(NamedTuple):
    """The position in an answer.

    ``frame`` is the framing that may follow a marker and ``framed`` the number of its bytes read; ``pending`` are
    symbols that may begin a marker; ``string`` is 0 outside the strings of a JSON response, 1 inside, 2 after a
    backslash; ``joined``: a match may continue from earlier content into the next byte of content.
    """

    position: Position
    frame: bytes = b""
    framed: int = 0
    pending: tuple[bytes, ...] = ()
    string: int = 0
    joined: bool = False

    @property
    def held(self) -> int:
        """Number of bytes at the end of the text that may turn out to be content."""
        return self.framed + sum(map(len, self.pending))


BEGIN = ScopeState(Position(0, 0))

_BACKSLASH = 0x5C


class Scope:
    """Selects the content bytes of tokens for one plan (None: all bytes).  Immutable."""

    def __init__(self, plan: Plan | None, engine: Engine, *, everywhere: bool = False) -> None:
        self._bytes = engine.token_bytes
        self._regions: RegionMap | None = None
        self._is_json = False
        if plan is not None and not everywhere:
            self._regions = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
            self._is_json = plan.response is not None and plan.response.kind == "json"
            self._plan = plan

    def begin(self, entry: str = "fresh") -> ScopeState:
        """Return the state before the first token."""
        if self._regions is None:
            return BEGIN
        return ScopeState(self._regions.start(self._plan.entry(entry).region))

    def is_joined(self, state: ScopeState) -> bool:
        """Whether a match may continue from earlier content into the next."""
        return self._regions is None or state.joined

    def step(self, state: ScopeState, token: int, move: Move | None = None) -> tuple[ScopeState, tuple[Piece, ...]]:
        """Return the state after ``token``, and the pieces of content in it.

        ``move`` is the effect of the token on the regions, from whoever follows them already; None to follow it here.
        """
        data = self._bytes(token)
        if self._regions is None:
            return BEGIN, (Piece(0, data, False),)
        is_whole = token in self._regions.markers or len(data) == 1
        parts = (data,) if is_whole else tuple(data[i : i + 1] for i in range(len(data)))
        position, exits = move if move is not None else self._regions.follow(state.position, token)
        region = self._regions.region_number(state.position)
        reader = _SpanReader(state, self._is_json)
        for span in spans_of(exits, len(parts)):
            name = self._regions.regions[region].name
            reader.hold(parts[span.first : span.last])
            end = len(data) if span.last == len(parts) else span.last
            if span.exit is None:
                reader.read(name, self._regions.matched(position), end)
            else:
                reader.read(name, span.left, end)
                region = span.exit.to
                reader.enter(span.exit.after.encode("utf-8"))
        return reader.state(position), tuple(reader.pieces)


class _SpanReader:
    """Reads the spans of one token."""

    def __init__(self, state: ScopeState, is_json: bool) -> None:
        _, self._frame, self._framed, self._pending, self._string, self._joined = state
        self._is_json = is_json
        self.pieces: list[Piece] = []

    def state(self, position: Position) -> ScopeState:
        return ScopeState(position, self._frame, self._framed, self._pending, self._string, self._joined)

    def enter(self, frame: bytes) -> None:
        """Enter a region, after a marker with this framing."""
        self._frame, self._framed, self._pending, self._string, self._joined = frame, 0, (), 0, False

    def hold(self, parts: tuple[bytes, ...]) -> None:
        """Add symbols of the region to those that are held."""
        self._pending += parts

    def read(self, name: RegionName, keep: int, end: int) -> None:
        """Read all held symbols but the last ``keep``; the last of all ends at byte ``end`` of the token."""
        ready = self._pending[: len(self._pending) - keep]
        base = end - sum(map(len, self._pending))
        self._pending = self._pending[len(ready) :]
        data = b"".join(ready)
        if name not in (RegionName.CONTENT, RegionName.RESPONSE):
            self._pending = ()
            return
        if not data:
            return
        if self._frame:
            data, base = self._after_frame(data, base)
        if name is RegionName.RESPONSE and self._is_json:
            self._outside_strings(data, base)
        else:
            self._add(data, base)

    def _add(self, data: bytes, base: int) -> None:
        if data:
            self.pieces.append(Piece(base, data, not self._joined))
            self._joined = True

    def _after_frame(self, data: bytes, base: int) -> tuple[bytes, int]:
        """Return ``data`` without the framing and its offset; text that differs from the framing is content."""
        frame, done = self._frame, self._framed
        frame_end = frame[done:]
        if len(data) < len(frame_end) and frame_end.startswith(data):
            self._framed += len(data)
            return b"", base
        self._frame, self._framed = b"", 0
        if data.startswith(frame_end):
            return data[len(frame_end) :], base + len(frame_end)
        return frame[:done] + data, base - done

    def _outside_strings(self, data: bytes, base: int) -> None:
        """Add the pieces between JSON strings; quotes belong to the strings."""
        at, size = 0, len(data)
        while at < size:
            if self._string:
                end = string_end(data, at, escaped=self._string == 2)
                self._string = 1 if end == size else 2 if data[end] == _BACKSLASH else 0
            else:
                end = data.find(b'"', at) % (size + 1)  # the size if there is none
                self._add(data[at:end], base + at)
                if end < size:
                    self._string, self._joined = 1, False
            at = end + 1
