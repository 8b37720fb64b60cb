"""Finds the JSON values in the text of tool calls, by the table in the plan (`grammars.values.call_values`)."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.values.call_values import CallStep
from guided.tracking.aho_corasick import AhoCorasick
from guided.tracking.regions import Position, symbols_of

__all__ = ["CallValueTable"]

_START = Position(0, 0)


class CallValueTable:
    """The compiled table of one plan.  Immutable; share it."""

    def __init__(self, steps: Sequence[CallStep]) -> None:
        self.steps = tuple(steps)
        self._states = [AhoCorasick((symbols_of(way.trigger), way) for way in step.ways) for step in self.steps]

    def enter(self, opening: Sequence[int]) -> Position:
        """Return the position at the beginning of a section, after the symbols that opened it."""
        position = _START
        for symbol in opening:
            position = self.advance(position, symbol)
        return position

    def after_value(self, step: int) -> Position:
        """Return the position after the value at ``step``."""
        return Position(self.steps[step].to, 0)

    def advance(self, position: Position, symbol: int) -> Position:
        """Return the position after one more symbol."""
        state = self._states[position.state]
        node = state.next(position.node, symbol)
        output = state.output[node]
        if output is None:
            return Position(position.state, node)
        after, node = self._states[output.to], 0
        for read in symbols_of(output.trigger):
            node = after.next(node, read)
        return Position(output.to, node)
