"""Build the table that locates JSON values inside tool calls (`grammars.values.watchers`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.tool_calls.pattern import CallPattern, Hole
from grammars.tree.markers import Markers
from grammars.values.watchers import CallStep, CallWay

__all__ = ["ValueTable", "filled", "lead_texts", "until", "whole_arguments"]

_Pieces: TypeAlias = tuple[int | str, ...]


@dataclass
class ValueTable:
    """A table under construction; steps are numbered in the order in which they are added."""

    markers: Markers
    _ways: list[dict[_Pieces, int]] = field(default_factory=lambda: [{}])
    _values: dict[int, tuple[str, int]] = field(default_factory=dict)

    def add(self) -> int:
        """Add a step without transitions and return its number."""
        self._ways.append({})
        return len(self._ways) - 1

    def value(self, place: str, to: int) -> int:
        """Add a step for a JSON value under the schema at ``place``; step ``to`` follows the value."""
        at = self.add()
        self._values[at] = (place, to)
        return at

    def raw(self, end: str, to: int) -> int:
        """Add a step for raw text up to ``end``, which the text cannot contain; step ``to`` follows."""
        at = self.add()
        pieces = self.markers.pieces(end)
        token = next((piece for piece in pieces if isinstance(piece, int)), None)
        self.way(at, pieces if token is None else (token,), to)
        return at

    def way(self, at: int, trigger: str | _Pieces, to: int) -> None:
        """Add a transition from step ``at`` to ``to``; of several with the same trigger the first counts."""
        pieces = self.markers.pieces(trigger) if isinstance(trigger, str) else trigger
        self._ways[at].setdefault(pieces, to)

    def chain(self, at: int, texts: Sequence[_Pieces], to: int) -> None:
        """Add transitions from step ``at`` to ``to`` by all ``texts`` in order, with any text between them."""
        for text in texts[:-1]:
            after = self._ways[at].get(text) or self.add()
            self.way(at, text, after)
            at = after
        self.way(at, texts[-1], to)

    def build(self) -> tuple[CallStep, ...]:
        """The table.  A place that several values share is dropped from it, because their schemas differ."""
        places = [place for place, _ in self._values.values()]
        out = []
        for at, ways in enumerate(self._ways):
            place, to = self._values.get(at, ("", 0))
            kept = place if places.count(place) == 1 else ""
            triggers = tuple(CallWay(trigger, target) for trigger, target in ways.items())
            out.append(CallStep(triggers, at in self._values, to, kept))
        return tuple(out)


def lead_texts(markers: Markers, parts: Iterable[str | Hole], hole_texts: Mapping[str, str]) -> tuple[_Pieces, ...]:
    """The texts before a value, from the call's name on, split at holes that are not in ``hole_texts``.

    () if they do not identify the call: the name comes later, or no text ends it.
    """
    texts: list[list[int | str]] = [[]]
    named: int | None = None
    closed = False
    for part in parts:
        if not isinstance(part, Hole):
            texts[-1] += markers.pieces(part)
            closed = closed or (bool(part) and named == len(texts) - 1)
        elif part.name in hole_texts:
            texts[-1].append(hole_texts[part.name])
            if part.name == "name":
                named, closed = len(texts) - 1, False
        else:
            texts.append([])
    if named is None or not closed or not texts[-1]:
        return ()
    return tuple(_joined(text) for text in texts[named:])


def whole_arguments(markers: Markers, leads: Iterable[tuple[str, Sequence[_Pieces]]]) -> tuple[CallStep, ...]:
    """The table of a syntax that writes all arguments as one JSON value; ``leads`` are places and the texts before.

    () if some of these texts do not identify the call.
    """
    table = ValueTable(markers)
    values: dict[str, int] = {}
    for place, texts in leads:
        if not texts:
            return ()
        values[place] = values[place] if place in values else table.value(place, 0)
        table.chain(0, texts, values[place])
    return table.build()


def filled(markers: Markers, parts: Iterable[str | Hole], hole_texts: Mapping[str, str]) -> _Pieces:
    """The text of these parts with holes filled from ``hole_texts``; raises `KeyError` for any other hole."""
    pieces: list[int | str] = []
    for part in parts:
        pieces += [hole_texts[part.name]] if isinstance(part, Hole) else markers.pieces(part)
    return _joined(pieces)


def until(pattern: CallPattern, hole: str) -> CallPattern:
    """The parts of a pattern before a hole."""
    return pattern[: pattern.index(Hole(hole))]


def _joined(pieces: Sequence[int | str]) -> _Pieces:
    """The pieces with adjacent texts joined."""
    out: list[int | str] = []
    for piece in pieces:
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)
