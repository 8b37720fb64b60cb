"""Membership in time linear in the word, by on-the-fly subset construction of a nondeterministic automaton.

Steps are cached, so that later words of a long enumeration cost one look-up per character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from grammars.limits.schema_limits import check_deadline

__all__ = ["SubsetAutomaton"]

State = TypeVar("State")

_MAX_CACHED_STATES = 10_000  # states in all cached sets of one automaton
_STATES_PER_CHECK = 2_000  # states stepped between two looks at the clock: some milliseconds


class SubsetAutomaton(Generic[State]):
    """The automaton that starts in ``start`` and steps by ``following``; the state ``everything`` accepts all words."""

    def __init__(self, start: State, following: Callable[[State, int], Iterable[State]], everything: State) -> None:
        self._start = frozenset((start,))
        self._following = following
        self._everything = everything
        self._rows: dict[frozenset[State], dict[str, frozenset[State]]] = {}
        self._held = 0

    def states_after(self, word: str) -> frozenset[State]:
        """Return the states that the automaton may be in after ``word``, or some of them with ``everything``.

        Raises `SchemaError` past the deadline of the thread.
        """
        states = self._start
        stepped = 0
        for char in word:
            row = self._rows.get(states)
            following = None if row is None else row.get(char)
            if following is None:
                following = self._step(states, char)
                stepped += len(states) + 1
                if stepped > _STATES_PER_CHECK:
                    stepped = 0
                    check_deadline()
            if not following or self._everything in following:
                return following
            states = following
        return states

    def _step(self, states: frozenset[State], char: str) -> frozenset[State]:
        code = ord(char)
        states_after = frozenset(after for state in states for after in self._following(state, code))
        self._held += len(states_after) + 1
        if self._held > _MAX_CACHED_STATES:
            self._rows.clear()
            self._held = 0
        self._rows.setdefault(states, {})[char] = states_after
        return states_after
