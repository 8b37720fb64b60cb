"""Which bytes of an answer its stops look at.

Stops act on content: not inside reasoning or tool calls, not inside the strings of a JSON response, and not on a
marker or the white space that frames it.  Bytes that may begin a marker written as text count as soon as they turn
out not to.  A row without a plan, and a plan whose stops act everywhere, is all content.
"""

from __future__ import annotations

from typing import NamedTuple

from grammars.plan.plan import Plan, RegionName
from guided.engine.engine import Engine
from guided.tracking.regions import Position, RegionMap

__all__ = ["BEGIN", "Piece", "Scope", "ScopeState"]


class Piece(NamedTuple):
    """Bytes of one token that count as content.

    ``base`` is where they begin in the token; negative when they begin in an earlier token (framing that turned
    out to be text).  ``fresh``: they do not join the bytes that counted before.
    """

    base: int
    data: bytes
    fresh: bool


class ScopeState(NamedTuple):
    """Where an answer stands.

    ``frame`` is the framing that may follow a marker and ``framed`` how much of it was read; ``pending`` are symbols
    that may begin a marker; ``string`` is 0 outside
    the strings of a JSON response, 1 inside, 2 after a backslash; ``joined`` is false where nothing before
    the next byte of content can belong to one stop with it.
    """

    position: Position
    frame: bytes = b""
    framed: int = 0
    pending: tuple[bytes, ...] = ()
    string: int = 0
    joined: bool = False

    @property
    def held(self) -> int:
        """Bytes at the end of the text of which it is not known yet whether they count."""
        return self.framed + sum(map(len, self.pending))


BEGIN = ScopeState(Position(0, 0))

_QUOTE, _BACKSLASH = 0x22, 0x5C


class Scope:
    """Splits tokens for one plan (None: everything counts).  Immutable."""

    def __init__(self, plan: Plan | None, engine: Engine, *, everywhere: bool = False) -> None:
        self._bytes = engine.token_bytes
        self._regions: RegionMap | None = None
        self._is_json = False
        if plan is not None and not everywhere:
            self._regions = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
            self._is_json = plan.response is not None and plan.response.kind == "json"
            self._plan = plan

    def begin(self, entry: str = "fresh") -> ScopeState:
        """The state before the first token."""
        if self._regions is None:
            return BEGIN
        return ScopeState(self._regions.start(self._plan.entry(entry).region))

    def is_joined(self, state: ScopeState) -> bool:
        """May the next bytes that count join those before?"""
        return self._regions is None or state.joined

    def step(self, state: ScopeState, token: int) -> tuple[ScopeState, tuple[Piece, ...]]:
        """The state after ``token`` and its pieces."""
        data = self._bytes(token)
        if self._regions is None:
            return BEGIN, (Piece(0, data, False),)
        symbols = self._regions.symbols(token)
        parts = (data,) if len(symbols) == 1 else tuple(data[i : i + 1] for i in range(len(symbols)))
        spans, position = self._regions.spans(state.position, symbols)
        region = self._regions.region_number(state.position)
        reader = _Reader(state, self._is_json)
        for span in spans:
            name = self._regions.regions[region].name
            reader.hold(parts[span.first : span.last])
            end = len(data) if span.last == len(symbols) else span.last
            if span.exit is None:
                reader.read(name, self._regions.matched(position), end)
            else:
                reader.read(name, span.left, end)
                region = span.exit.to
                reader.enter(span.exit.after.encode("utf-8"))
        return reader.state(position), tuple(reader.pieces)


class _Reader:
    """Reads the spans of one token."""

    def __init__(self, state: ScopeState, is_json: bool) -> None:
        _, self._frame, self._framed, self._pending, self._string, self._joined = state
        self._is_json = is_json
        self.pieces: list[Piece] = []

    def state(self, position: Position) -> ScopeState:
        return ScopeState(position, self._frame, self._framed, self._pending, self._string, self._joined)

    def enter(self, frame: bytes) -> None:
        """A region begins, after a marker with this framing."""
        self._frame, self._framed, self._pending, self._string, self._joined = frame, 0, (), 0, False

    def hold(self, parts: tuple[bytes, ...]) -> None:
        """More symbols of the region."""
        self._pending += parts

    def read(self, name: RegionName, keep: int, end: int) -> None:
        """Read what is held but the last ``keep`` symbols; the last of all ends at byte ``end`` of the token."""
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
        """What is left of ``data`` when the framing is dropped; all of it, and what was read before, if it differs."""
        frame, done = self._frame, self._framed
        rest = frame[done:]
        if len(data) < len(rest) and rest.startswith(data):
            self._framed += len(data)
            return b"", base
        self._frame, self._framed = b"", 0
        if data.startswith(rest):
            return data[len(rest) :], base + len(rest)
        return frame[:done] + data, base - done

    def _outside_strings(self, data: bytes, base: int) -> None:
        """The pieces between strings; a string's own quotes belong to it."""
        begin = 0
        for i, byte in enumerate(data):
            if self._string == 2:
                self._string = 1
            elif self._string == 1:
                if byte == _BACKSLASH:
                    self._string = 2
                elif byte == _QUOTE:
                    self._string, begin = 0, i + 1
            elif byte == _QUOTE:
                self._add(data[begin:i], base + begin)
                self._string, self._joined = 1, False
        if self._string == 0:
            self._add(data[begin:], base + begin)
