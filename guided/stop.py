"""Stop sequences, found on the very token that completes them.

All stop strings of a request are one Aho-Corasick automaton over bytes, whatever the tokens are cut like; stop ids
and a pattern are asked in the same breath.  A step from (state, token) is computed once and remembered, so a token
costs one look-up, however many stops there are and however long the output is.  Positions are appended per token:
undoing is forgetting, a copy is a copy of a list.

Of two stops the one that is complete at the earlier byte wins, of two at the same byte the one that began first:
the only rule whose answer does not depend on how text is cut into tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from grammars.plan.plan import Plan, Stops
from guided.engine.engine import Engine
from guided.stops.incremental_regex import Pattern, compile_pattern
from guided.stops.scope import Piece, Scope, ScopeState
from guided.stops.pattern_search import PatternSearch
from guided.stops.strings import Found, Strings
from guided.stops.vocabulary import check_writable_stops
from special_tokens import SpecialTokens
from special_tokens.errors import GuidanceError, RequestError

__all__ = ["StopAutomaton", "StopHit", "StopMatcher", "check_stops", "compile_stops", "stops_of", "truncate"]

#: Compiled automata that are kept per engine, and remembered steps per automaton.
CACHE_SIZE = 64
MAX_STEPS = 1 << 17


@dataclass(frozen=True, slots=True)
class StopHit:
    """A stop is complete.

    ``reason`` is the stop itself: its text, its token id or the source of the pattern.  ``num_tokens`` tokens were
    read, the completing one included.  The text before the stop is ``before`` whole tokens and ``before_bytes`` bytes
    of the next; with the stop it is ``until`` tokens and ``until_bytes`` bytes.
    """

    reason: str | int
    num_tokens: int
    before: int
    before_bytes: int
    until: int
    until_bytes: int


class StopAutomaton:
    """The stops of one request under one plan.  Share it: what it learns about tokens serves every row.

    A *node* numbers a pair of scope state and node of the strings.
    """

    def __init__(self, stops: Stops, engine: Engine, plan: Plan | None = None) -> None:
        check_stops(stops, engine.tokens)
        self.stops = stops
        self.pattern: Pattern | None = compile_pattern(stops.regex) if stops.regex is not None else None
        self._engine = engine
        self._scope = Scope(plan, engine, everywhere=stops.everywhere)
        self._ids = frozenset(stops.ids)
        self._strings = Strings(stops.strings)
        self._lock = threading.Lock()
        self._nodes: list[tuple[ScopeState, int]] = []
        self._numbers: dict[tuple[ScopeState, int], int] = {}
        self.steps: dict[int, int | Found] = {}
        self.idle: set[int] = set()  # steps that leave an idle pattern idle
        self.held: list[int] = []  # bytes that may belong to a string, by node
        self.undecided: list[int] = []  # of them, those that may belong to a marker

    def begin(self, entry: str = "fresh") -> int:
        """The node before the first token."""
        return self._number(self._scope.begin(entry), 0)

    def token_bytes(self, token: int) -> bytes:
        return self._engine.token_bytes(token)

    def learn(self, node: int, token: int) -> int | Found:
        """Compute the step from ``node`` over ``token`` and remember it under ``node << 32 | token``."""
        scope, inner = self._nodes[node]
        result: int | Found | None = None
        if token in self._ids:
            size = len(self.token_bytes(token))
            result = Found(size, size, token)
        else:
            scope, pieces = self._scope.step(scope, token)
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

    def pieces(self, node: int, token: int) -> tuple[tuple[Piece, ...], bool]:
        """The bytes of ``token`` that count, read at ``node``, and whether those after it may join them."""
        scope, pieces = self._scope.step(self._nodes[node][0], token)
        return pieces, self._scope.is_joined(scope)


class StopMatcher:
    """The stops of one row, fed with what the row writes after its prompt.

    `feed` takes tokens as they come, one or several; `rollback` undoes them exactly; `fork` is independent.
    """

    __slots__ = ("_automaton", "_begin", "_nodes", "_search", "_steps", "_tokens", "hit")

    def __init__(self, automaton: StopAutomaton, *, entry: str = "fresh") -> None:
        self._automaton = automaton
        self._steps = automaton.steps
        self._begin = automaton.begin(entry)
        self._nodes: list[int] = [self._begin]
        self._tokens: list[int] = []
        self._search = PatternSearch(automaton.pattern) if automaton.pattern is not None else None
        self.hit: StopHit | None = None

    @property
    def stops(self) -> Stops:
        return self._automaton.stops

    @property
    def num_tokens(self) -> int:
        """Tokens read so far."""
        return len(self._tokens)

    @property
    def is_stopped(self) -> bool:
        return self.hit is not None

    @property
    def held_bytes(self) -> int:
        """Bytes at the end of the text that may still become part of a stop, and must not be shown yet."""
        if self.hit is not None:
            return 0
        node = self._nodes[-1]
        held = self._automaton.held[node]
        return held if self._search is None else max(held, self._search.held_bytes + self._automaton.undecided[node])

    def feed(self, tokens: Iterable[int]) -> StopHit | None:
        """Read ``tokens`` up to and including the one that completes a stop; what follows it is not read."""
        for token in tokens:
            if self.push(token) is not None:
                break
        return self.hit

    def push(self, token: int) -> StopHit | None:
        """Read one token.  Raises `GuidanceError` when a stop is complete already."""
        if self.hit is not None:
            raise GuidanceError("the row has stopped", place=f"token {len(self._tokens)}", hint="roll back first")
        node = self._nodes[-1]
        step = self._steps.get(node << 32 | token)
        if step is None:
            step = self._automaton.learn(node, token)
        self._tokens.append(token)
        if self._search is None and step.__class__ is int:  # the usual case
            self._nodes.append(step)
            return None
        found = None if isinstance(step, int) else step
        if self._search is not None:
            found = self._search.push(self._automaton, node, token, found)
        self._nodes.append(step if isinstance(step, int) else node)
        if found is not None:
            self.hit = self._hit(found)
        return self.hit

    def sync(self, tokens: Sequence[int]) -> StopHit | None:
        """Bring the matcher to ``tokens``: undo what differs, read what is new; nothing is read after a stop."""
        self.rollback(len(self._tokens) - self.num_common(tokens))
        return self.hit if self.hit is not None else self.feed(tokens[len(self._tokens) :])

    def num_common(self, tokens: Sequence[int]) -> int:
        """How many tokens ``tokens`` and what was read begin with in common."""
        read = self._tokens
        if list(tokens[: len(read)]) == read:
            return len(read)
        return next(i for i, token in enumerate(read) if i >= len(tokens) or tokens[i] != token)

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` tokens."""
        if not 0 <= num_tokens <= len(self._tokens):
            raise GuidanceError(f"cannot undo {num_tokens} of {len(self._tokens)} tokens", place="rollback")
        if num_tokens:
            del self._nodes[-num_tokens:], self._tokens[-num_tokens:]
            self.hit = None
            if self._search is not None:
                self._search.rollback(num_tokens)

    def reset(self) -> None:
        """Back to the beginning."""
        self.rollback(len(self._tokens))

    def fork(self) -> StopMatcher:
        """An independent copy at the same place."""
        twin = object.__new__(StopMatcher)
        twin._automaton, twin._steps, twin._begin, twin.hit = self._automaton, self._steps, self._begin, self.hit
        twin._nodes, twin._tokens = self._nodes.copy(), self._tokens.copy()
        twin._search = self._search.fork() if self._search is not None else None
        return twin

    def _hit(self, found: Found) -> StopHit:
        last = len(self._tokens) - 1
        until, until_bytes = self._place(last, found.end)
        before, before_bytes = self._place(last, found.end - found.length)
        return StopHit(found.reason, last + 1, before, before_bytes, until, until_bytes)

    def _place(self, token: int, offset: int) -> tuple[int, int]:
        """Byte ``offset`` from the start of token number ``token``, as whole tokens and bytes of the next."""
        size = len(self._automaton.token_bytes(self._tokens[token]))
        while offset < 0:
            token -= 1
            size = len(self._automaton.token_bytes(self._tokens[token]))
            offset += size
        return (token + 1, 0) if offset >= size else (token, offset)


# -- stops of a request


def stops_of(value: str | Sequence[str] | Stops | None) -> Stops:
    """What a caller gives as ``stop``: one string, several, or the full record."""
    if value is None:
        return Stops()
    if isinstance(value, Stops):
        return value
    if not isinstance(value, str | list | tuple):
        raise RequestError(
            f"{type(value).__name__} is no stop", place="stop", expected="a string, a list of strings, or guided.Stops"
        )
    return Stops((value,) if isinstance(value, str) else tuple(value))


def check_stops(stops: Stops, tokens: SpecialTokens) -> None:
    """Raise `RequestError` for a stop that is empty, that is no Unicode text, no token, or a broken pattern.

    `guided.stops.vocabulary.check_writable_stops` asks whether the vocabulary can write the strings.
    """
    for i, string in enumerate(stops.strings):
        _check_string(string, f"stop[{i}]")
    for i, token in enumerate(stops.ids):
        if not 0 <= token < tokens.vocab_size:
            raise RequestError(
                f"no text can contain token {token}",
                place=f"stop.ids[{i}]",
                expected=f"an id from 0 to {tokens.vocab_size - 1}",
            )
    if stops.regex is not None:
        compile_pattern(stops.regex)


def _check_string(string: str, place: str) -> None:
    if not string:
        raise RequestError("the stop is empty", place=place, expected="at least one character")
    try:
        string.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(
            f"no text can contain {string!a}", place=place, expected="Unicode text without lone surrogates"
        ) from None


_compiled_lock = threading.Lock()


def compile_stops(stops: Stops, engine: Engine, plan: Plan | None = None) -> StopAutomaton:
    """The automaton of ``stops``, from the engine's cache (the last `CACHE_SIZE` kinds) or built now.

    Raises `RequestError` for stops that cannot be, see `check_stops` and `check_writable_stops`.
    """
    key: Hashable = (stops, plan.regions if plan is not None else None, plan is not None and plan.response is not None
           and plan.response.kind)  # fmt: skip
    kept = engine.stop_automata
    with _compiled_lock:
        found: StopAutomaton | None = kept.get(key)
        if found is not None:
            kept.move_to_end(key)
            return found
    built = StopAutomaton(stops, engine, plan)
    check_writable_stops(stops, engine)
    with _compiled_lock:
        kept[key] = built
        if len(kept) > CACHE_SIZE:
            kept.popitem(last=False)
    return built


def truncate(tokens: Sequence[int], hit: StopHit, *, include: bool) -> tuple[Sequence[int], int]:
    """The whole tokens of the text that ``hit`` leaves, and how many bytes of the token after them."""
    if include:
        return tokens[: hit.until], hit.until_bytes
    return tokens[: hit.before], hit.before_bytes
