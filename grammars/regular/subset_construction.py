"""Membership in time linear in the word: all states that a nondeterministic automaton may be in, kept together.

What was stepped once is remembered, so that the words of a long enumeration cost a look-up for each character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from grammars.limits.schema_limits import check_deadline

__all__ = ["Subsets"]

State = TypeVar("State")

_MOST_HELD = 10_000  # states in all sets that one automaton remembers
_UNLOOKED = 2_000  # states stepped between two looks at the clock: some milliseconds


class Subsets(Generic[State]):
    """The automaton that starts in ``start`` and steps by ``following``; in ``everything`` it takes all words."""

    def __init__(self, start: State, following: Callable[[State, int], Iterable[State]], everything: State) -> None:
        self._start = frozenset((start,))
        self._following = following
        self._everything = everything
        self._rows: dict[frozenset[State], dict[str, frozenset[State]]] = {}
        self._held = 0

    def after(self, word: str) -> frozenset[State]:
        """The states that the automaton may be in behind ``word``, or some of them with ``everything``.

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
                if stepped > _UNLOOKED:
                    stepped = 0
                    check_deadline()
            if not following or self._everything in following:
                return following
            states = following
        return states

    def _step(self, states: frozenset[State], char: str) -> frozenset[State]:
        code = ord(char)
        found = frozenset(after for state in states for after in self._following(state, code))
        self._held += len(found) + 1
        if self._held > _MOST_HELD:
            self._rows.clear()
            self._held = 0
        self._rows.setdefault(states, {})[char] = found
        return found
