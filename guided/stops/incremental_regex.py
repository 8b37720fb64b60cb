"""An incremental regular expression: fed character by character, it reports a match as soon as it is complete.

Patterns are of the dialect of Python's ``re``, see `grammars.regular.syntax.python`.  The search takes derivatives, one
state after the other, because ``re`` can neither continue a search nor say where a match that is still open began.  A
match ends at the *earliest* character that completes one, and begins at the leftmost position from which it does:
``\\d+`` is complete at the first digit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from grammars.regular.lexer_cost import expanded_size
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.python import Irregular, parse
from grammars.regular.terms import NONE, Regular, partial_derivatives
from special_tokens.errors import GrammarError, shown

__all__ = ["IncrementalRegex", "Thread", "compile_pattern"]

#: Characters of one pattern, with its repeats written out.
MAX_CHARACTERS = 10_000

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


class IncrementalRegex:
    """A compiled stop pattern.  Immutable for its users; it caches the DFA states that it has visited.

    A DFA state is a tuple of groups, oldest match first; a group holds what remains, as terms, of matches that began
    at the same character; a term is only in the oldest of its groups.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._term = term = _read(source)
        if expanded_size(term) > MAX_CHARACTERS:
            raise GrammarError("the pattern is too large", place=_PLACE, hint="use smaller repeats")
        if term.nullable:
            raise GrammarError(
                f"the pattern {shown(source)} matches the empty text",
                place=_PLACE,
                expected="a pattern that needs at least one character",
            )
        if term == NONE:
            hint = "look for classes without a character"
            raise GrammarError(f"no text matches the pattern {shown(source)}", place=_PLACE, hint=hint)
        self._states: list[tuple[frozenset[Regular], ...]] = [()]
        self._numbers: dict[tuple[frozenset[Regular], ...], int] = {(): 0}
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
        groups = [*self._states[state], frozenset((self._term,))]
        last = len(groups) - 1
        seen: set[Regular] = set()
        kept: list[frozenset[Regular]] = []
        sources: list[int] = []
        for g, group in enumerate(groups):
            reached = {derivative for term in group for derivative in partial_derivatives(term, ord(char))}
            source = -1 if g == last else g
            if any(derivative.nullable for derivative in reached):
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
        raise GrammarError(message, column=error.at + 1, place=_PLACE, expected="a pattern of Python's re") from None
