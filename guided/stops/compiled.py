"""The stops of a request, compiled: what each token of an answer adds to a stop that has begun.

All stop strings of a request are one Aho-Corasick automaton over bytes (`guided.tracking.aho_corasick`), and its
pattern is searched character by character (`guided.stops.incremental_regex`), so a stop is found however the tokens
split it.  `guided.stops.scope` says which bytes of a token count.
"""

from __future__ import annotations

from typing import NamedTuple

from grammars.plan.plan import Plan, Stops
from guided.engine.engine import Engine
from guided.stops.incremental_regex import IncrementalRegex, Thread, compile_pattern
from guided.stops.request import check_stops
from guided.stops.scope import Piece, Scope, ScopeState
from guided.tracking.aho_corasick import AhoCorasick
from guided.tracking.regions import Move

__all__ = ["CompiledStops", "CompletedStop", "SearchState"]


class SearchState(NamedTuple):
    """The state after a token: its scope, the node of the stop strings, and the thread of the pattern.

    ``partial`` are the bytes of an unfinished character, ``at`` the number of bytes read since the thread was idle.
    """

    scope: ScopeState
    node: int = 0
    thread: Thread = Thread()
    partial: bytes = b""
    at: int = 0


class CompiledStops:
    """The stops of one request under one plan; immutable, all rows share it."""

    def __init__(self, stops: Stops, engine: Engine, plan: Plan | None = None) -> None:
        check_stops(stops, engine.tokens)
        self.stops = stops
        self.token_bytes = engine.token_bytes
        self._scope = Scope(plan, engine, everywhere=stops.everywhere)
        self._strings = AhoCorasick((string.encode("utf-8"), string) for string in stops.strings)
        self._pattern: IncrementalRegex | None = compile_pattern(stops.regex) if stops.regex is not None else None

    def begin(self, entry: str = "fresh") -> SearchState:
        """Return the state before the first token."""
        return SearchState(self._scope.begin(entry))

    def held_bytes(self, state: SearchState) -> int:
        """Return the number of bytes at the end of the text that may become part of a stop."""
        starts = state.thread.starts
        held = state.at - min(starts) if starts else len(state.partial)
        return max(held, self._strings.depth[state.node]) + state.scope.held

    def step(
        self, state: SearchState, token: int, move: Move | None = None
    ) -> tuple[SearchState, CompletedStop | None]:
        """Return the state after ``token``, and the stop that it completes; ``move``: see `Scope.step`."""
        scope, pieces = self._scope.step(state.scope, token, move)
        completed: list[CompletedStop | None] = []
        if token in self.stops.ids:
            size = len(self.token_bytes(token))
            completed.append(CompletedStop(size, size, token))
        for piece in pieces:
            state, *found = self._read(SearchState(scope) if piece.fresh else state, piece)
            completed += found
            if any(found):
                break
        state = state._replace(scope=scope) if self._scope.is_joined(scope) else SearchState(scope)
        return state, min(filter(None, completed), key=lambda stop: (stop.end, -stop.length), default=None)

    def _read(self, state: SearchState, piece: Piece) -> tuple[SearchState, CompletedStop | None, CompletedStop | None]:
        """Return the state after ``piece``, and the first string and the first match that it completes."""
        scope, node, thread, partial, at = state
        node, string = self._scanned(node, piece)
        for i, byte in enumerate(piece.data if self._pattern is not None else b""):
            assert self._pattern is not None
            partial += bytes((byte,))
            at += 1
            while True:  # twice where the byte breaks off a character that earlier bytes began
                char, size = _character(partial)
                if not size:
                    break
                thread, start = self._pattern.feed(thread, char, at - len(partial))
                partial = partial[size:]
                if start is not None:
                    end = piece.base + i + 1 - len(partial)
                    return state, string, CompletedStop(end, at - len(partial) - start, self._pattern.source)
        return SearchState(scope, node, thread, partial, at if partial or thread.state else 0), string, None

    def _scanned(self, node: int, piece: Piece) -> tuple[int, CompletedStop | None]:
        """Return the node after ``piece``, and the first stop string that it completes."""
        for i, byte in enumerate(piece.data):
            node = self._strings.next(node, byte)
            completed = self._strings.output[node]
            if completed is not None:
                return node, CompletedStop(piece.base + i + 1, len(completed.encode("utf-8")), completed)
        return node, None


def _character(data: bytes) -> tuple[str, int]:
    """Return the first character of ``data``, U+FFFD for invalid bytes, and its size; 0 while it is incomplete."""
    try:
        return data.decode(), len(data)
    except UnicodeDecodeError as error:
        return "\N{REPLACEMENT CHARACTER}", 0 if error.reason == "unexpected end of data" else error.end


class CompletedStop(NamedTuple):
    """A stop that one token completes; it ends ``end`` bytes after the token's start and is ``length`` bytes long."""

    end: int
    length: int
    reason: str | int
