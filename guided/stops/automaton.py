"""The stop automaton: what each token does to the stops of a request, computed once and shared by all rows.

All stop strings of a request are one Aho-Corasick automaton over bytes (`guided.stops.strings`), so a stop is found
however the tokens split it.  A state pairs the node of that automaton with what `guided.stops.scope` knows about the
position.  The step from (state, token) is computed once and kept, so a token costs one dictionary look-up, whatever
the number of stops and the length of the output.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from grammars.limits.bounded_cache import BoundedCache
from grammars.plan.plan import Plan, Stops
from guided.engine.engine import Engine
from guided.stops.incremental_regex import IncrementalRegex, compile_pattern
from guided.stops.request import check_stops
from guided.stops.scope import Piece, Scope, ScopeState
from guided.stops.strings import CompletedStop, StopStrings
from guided.stops.vocabulary import check_writable_stops
from guided.tracking.regions import Move

__all__ = ["StopAutomaton", "compile_stops"]

#: Compiled automata kept per engine, and steps kept per automaton.
CACHE_SIZE = 64
MAX_STEPS = 1 << 17


class StopAutomaton:
    """The stops of one request under one plan; all rows share it, and the steps that it has computed.

    A *node* is the number of a pair: a scope state and a node of the string automaton.
    """

    def __init__(self, stops: Stops, engine: Engine, plan: Plan | None = None) -> None:
        check_stops(stops, engine.tokens)
        self.stops = stops
        self.pattern: IncrementalRegex | None = compile_pattern(stops.regex) if stops.regex is not None else None
        self._engine = engine
        self._scope = Scope(plan, engine, everywhere=stops.everywhere)
        self._ids = frozenset(stops.ids)
        self._strings = StopStrings(stops.strings)
        self._lock = threading.Lock()
        self._nodes: list[tuple[ScopeState, int]] = []
        self._numbers: dict[tuple[ScopeState, int], int] = {}
        self.steps: dict[int, int | CompletedStop] = {}
        self.idle: set[int] = set()  # steps at which a pattern search that has not begun does not begin
        self.held: list[int] = []  # by node: bytes at the end that may belong to a stop string
        self.undecided: list[int] = []  # by node: of these, bytes that may belong to a marker

    def begin(self, entry: str = "fresh") -> int:
        """Return the node before the first token."""
        return self._number(self._scope.begin(entry), 0)

    def token_bytes(self, token: int) -> bytes:
        return self._engine.token_bytes(token)

    def learn(self, node: int, token: int, move: Move | None = None) -> int | CompletedStop:
        """Compute the step from ``node`` over ``token`` and store it in ``steps`` under ``node << 32 | token``.

        The step is the next node, or the stop that the token completes.  ``move``: see `Scope.step`.
        """
        scope, inner = self._nodes[node]
        result: int | CompletedStop | None = None
        if token in self._ids:
            size = len(self.token_bytes(token))
            result = CompletedStop(size, size, token)
        else:
            scope, pieces = self._scope.step(scope, token, move)
            for piece in pieces:
                inner, result = self._strings.scan(inner, piece)
                if result is not None:
                    break
            else:
                result = self._number(scope, inner if self._scope.is_joined(scope) else 0)
        if len(self.steps) >= MAX_STEPS:
            self.steps.clear()
            self.idle.clear()
        self.steps[node << 32 | token] = result
        return result

    def _number(self, scope: ScopeState, inner: int) -> int:
        key = (scope, inner)
        number = self._numbers.get(key)
        if number is None:
            with self._lock:
                number = self._numbers.setdefault(key, len(self._nodes))
                if number == len(self._nodes):
                    self._nodes.append(key)
                    self.undecided.append(scope.held)
                    self.held.append(self._strings.depth[inner] + scope.held)
        return number

    def pieces(self, node: int, token: int, move: Move | None = None) -> tuple[tuple[Piece, ...], bool]:
        """Return the content bytes of ``token`` at ``node``, and whether a match may continue in the next token."""
        scope, pieces = self._scope.step(self._nodes[node][0], token, move)
        return pieces, self._scope.is_joined(scope)


def _automata(engine: Engine) -> BoundedCache[StopAutomaton]:
    """The automata of one engine: they hold it, and go with it."""
    return BoundedCache(CACHE_SIZE)


def compile_stops(stops: Stops, engine: Engine, plan: Plan | None = None) -> StopAutomaton:
    """Return the automaton of ``stops`` from the engine's cache (an LRU of `CACHE_SIZE`), or build it.

    Raises `RequestError` for invalid stops, see `check_stops` and `check_writable_stops`.
    """
    key: Hashable = (stops, plan.regions if plan is not None else None, plan is not None and plan.response is not None
           and plan.response.kind)  # fmt: skip
    cache = engine.derived(_automata)
    built = cache.get(key)
    if built is None:
        built = StopAutomaton(stops, engine, plan)
        check_writable_stops(stops, engine)
        cache.put(key, built)
    return built
