"""An incremental regular expression: fed character by character, it reports a match as soon as it is complete.

Patterns are of the dialect of Python's ``re``, see `grammars.regular.syntax.python`.  The search is a Thompson NFA
converted to a DFA state by state, because ``re`` can neither continue a search nor say where a match that is still open
began.  A match ends at the *earliest* character that completes one, and begins at the leftmost position from which it
does: ``\\d+`` is complete at the first digit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from grammars.regular.languages import NONE, Ranges, Regular, cat, chars
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.python import Irregular, parse
from special_tokens.errors import GrammarError, shown

__all__ = ["IncrementalRegex", "Thread", "compile_pattern"]

#: Most NFA states of one pattern; bounded repeats are written out.
MAX_STATES = 10_000

_PLACE = "stop.regex"


class Thread(NamedTuple):
    """The state of a search: DFA state, and where the open match of each of its groups began (in characters)."""

    state: int = 0
    starts: tuple[int, ...] = ()


class _Step(NamedTuple):
    """A DFA transition: the next state, and for each of its groups the group it came from (-1: begins here)."""

    state: int
    sources: tuple[int, ...]
    #: the group whose oldest match is complete, -1 for a match that began at this character; None for no match
    complete: int | None


class _Nfa:
    """An NFA: each state has empty moves or one move over a character."""

    def __init__(self) -> None:
        self.empty: list[list[int]] = []
        self.leaf: list[tuple[Ranges, int] | None] = []

    def state(self) -> int:
        if len(self.empty) >= MAX_STATES:
            raise GrammarError("the pattern is too large", place=_PLACE, hint="use smaller repeats")
        self.empty.append([])
        self.leaf.append(None)
        return len(self.empty) - 1

    def closure(self, states: Iterable[int]) -> set[int]:
        """Return ``states`` and all states that empty moves reach from them."""
        seen = set(states)
        stack = list(seen)
        while stack:
            for target in self.empty[stack.pop()]:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return seen


class IncrementalRegex:
    """A compiled stop pattern.  Immutable for its users; it caches the DFA states that it has visited.

    A DFA state is a tuple of groups, oldest match first; a group holds the NFA states of matches that began at the
    same character, and an NFA state is only in the oldest group that reaches it.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._nfa = _Nfa()
        term = _read(source)
        first = self._nfa.state()
        self._accept = self._build(term, first)
        self._first = self._nfa.closure([first])
        if self._accept in self._first:
            raise GrammarError(
                f"the pattern {shown(source)} matches the empty text",
                place=_PLACE,
                expected="a pattern that needs at least one character",
            )
        if term == NONE:
            raise GrammarError(f"no text matches the pattern {shown(source)}", place=_PLACE)
        self._states: list[tuple[frozenset[int], ...]] = [()]
        self._numbers: dict[tuple[frozenset[int], ...], int] = {(): 0}
        self._steps: dict[tuple[int, str], _Step] = {}

    def feed(self, thread: Thread, char: str, at: int) -> tuple[Thread, int | None]:
        """Read character number ``at`` of the text; return the state and where a match that it completes began."""
        step = self._steps.get((thread.state, char))
        if step is None:
            step = self._steps[thread.state, char] = self._step(thread.state, char)
        if step.complete is not None:
            return Thread(), at if step.complete < 0 else thread.starts[step.complete]
        if step.state == 0:
            return _IDLE, None
        starts = tuple([at if source < 0 else thread.starts[source] for source in step.sources])
        return Thread(step.state, starts), None

    def _step(self, state: int, char: str) -> _Step:
        groups = [*self._states[state], frozenset(self._first)]
        last = len(groups) - 1
        seen: set[int] = set()
        kept: list[frozenset[int]] = []
        sources: list[int] = []
        for g, group in enumerate(groups):
            reached = self._nfa.closure(self._moves(group, char))
            source = -1 if g == last else g
            if self._accept in reached:
                return _Step(0, (), source)
            fresh = frozenset(reached - seen)
            seen |= fresh
            if fresh:
                kept.append(fresh)
                sources.append(source)
        key = tuple(kept)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._states)
            self._states.append(key)
        return _Step(number, tuple(sources), None)

    def _moves(self, group: Iterable[int], char: str) -> list[int]:
        moves = (self._nfa.leaf[s] for s in group)
        return [move[1] for move in moves if move is not None and _holds(move[0], ord(char))]

    # -- building

    def _build(self, term: Regular, at: int) -> int:
        """Append ``term`` after state ``at``; return the state after it."""
        args = term.args
        match term.op:
            case "chars":
                target = self._nfa.state()
                self._nfa.leaf[at] = (args, target)
                return self._after(target)
            case "words":
                return self._branch([cat(*(chars([(ord(c), ord(c))]) for c in word)) for word in sorted(args)], at)
            case "cat":
                for part in args:
                    at = self._build(part, at)
                return at
            case "alt":
                return self._branch(args, at)
        body, least, most = args
        return self._repeat(body, least, most, at)

    def _after(self, state: int) -> int:
        """Add and return a new state after ``state``: a state has either empty moves or a character."""
        target = self._nfa.state()
        self._nfa.empty[state].append(target)
        return target

    def _branch(self, options: Iterable[Regular], at: int) -> int:
        end = self._nfa.state()
        for option in options:
            self._nfa.empty[self._build(option, self._after(at))].append(end)
        return self._after(end)

    def _repeat(self, body: Regular, least: int, most: int | None, at: int) -> int:
        for _ in range(least):
            at = self._build(body, at)
        if most is None:
            head = self._after(at)
            self._nfa.empty[self._build(body, self._after(head))].append(head)
            return self._after(head)
        end = self._nfa.state()
        for _ in range(most - least):
            self._nfa.empty[at].append(end)
            at = self._build(body, self._after(at))
        self._nfa.empty[at].append(end)
        return self._after(end)


_IDLE = Thread()


@lru_cache(maxsize=64)
def compile_pattern(source: str) -> IncrementalRegex:
    """Compile ``source``, a pattern in the dialect of Python's ``re``.

    Raises `GrammarError` for an invalid pattern, one that matches the empty text or no text at all, and one that
    cannot be decided character by character (anchors, look-around, back-references).
    """
    return IncrementalRegex(source)


def _read(source: str) -> Regular:
    """The language of a pattern; raises `GrammarError` for what is invalid or cannot be decided as text arrives."""
    try:
        return parse(source)
    except Irregular as error:
        raise GrammarError(
            f"{error.what} in the pattern {shown(source)}, column {error.at + 1}",
            column=error.at + 1,
            place=_PLACE,
            expected="characters, classes, groups, alternatives and repeats",
        ) from None
    except InvalidRegex as error:
        message = f"{shown(source)} is not a valid pattern: {error}, column {error.at + 1}"
        raise GrammarError(message, column=error.at + 1, place=_PLACE) from None


def _holds(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)
