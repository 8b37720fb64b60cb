"""Makes the table that finds the JSON values of calls (`grammars.call_steps`), from the patterns of a syntax."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.call_steps import CallStep, CallWay
from grammars.tree.markers import Markers
from grammars.tool_calls.pattern import Hole, Pattern

__all__ = ["CallSteps", "filled", "lead_texts", "until", "whole_arguments"]

_Pieces: TypeAlias = tuple[int | str, ...]


@dataclass
class CallSteps:
    """A table being made: steps are numbered as they come."""

    markers: Markers
    _ways: list[dict[_Pieces, int]] = field(default_factory=lambda: [{}])
    _values: dict[int, tuple[str, int]] = field(default_factory=dict)

    def add(self) -> int:
        """A new step without a way out."""
        self._ways.append({})
        return len(self._ways) - 1

    def value(self, place: str, to: int) -> int:
        """A JSON value under the schema at ``place``, with step ``to`` behind it."""
        at = self.add()
        self._values[at] = (place, to)
        return at

    def raw(self, end: str, to: int) -> int:
        """Text of any kind up to ``end``; it can hold no token, and of characters not all of them in this order."""
        at = self.add()
        pieces = self.markers.pieces(end)
        token = next((piece for piece in pieces if isinstance(piece, int)), None)
        self.way(at, pieces if token is None else (token,), to)
        return at

    def way(self, at: int, trigger: str | _Pieces, to: int) -> None:
        """From step ``at`` to ``to``; the first of several equal ones counts."""
        pieces = self.markers.pieces(trigger) if isinstance(trigger, str) else trigger
        self._ways[at].setdefault(pieces, to)

    def chain(self, at: int, texts: Sequence[_Pieces], to: int) -> None:
        """From step ``at`` to ``to`` by all ``texts`` one after the other, with anything between them."""
        for text in texts[:-1]:
            after = self._ways[at].get(text) or self.add()
            self.way(at, text, after)
            at = after
        self.way(at, texts[-1], to)

    def steps(self) -> tuple[CallStep, ...]:
        """The table.  A place that several values share is nobody's: their schemas differ."""
        places = [place for place, _ in self._values.values()]
        out = []
        for at, ways in enumerate(self._ways):
            place, to = self._values.get(at, ("", 0))
            kept = place if places.count(place) == 1 else ""
            triggers = tuple(CallWay(trigger, target) for trigger, target in ways.items())
            out.append(CallStep(triggers, at in self._values, to, kept))
        return tuple(out)


def lead_texts(markers: Markers, parts: Iterable[str | Hole], known: Mapping[str, str]) -> tuple[_Pieces, ...]:
    """The texts in front of a value, cut at holes that are not ``known``, from the call's name on.

    () when they do not tell which call it is: the name comes later, or nothing follows it.
    """
    texts: list[list[int | str]] = [[]]
    named: int | None = None
    closed = False
    for part in parts:
        if not isinstance(part, Hole):
            texts[-1] += markers.pieces(part)
            closed = closed or (bool(part) and named == len(texts) - 1)
        elif part.name in known:
            texts[-1].append(known[part.name])
            if part.name == "name":
                named, closed = len(texts) - 1, False
        else:
            texts.append([])
    if named is None or not closed or not texts[-1]:
        return ()
    return tuple(_joined(text) for text in texts[named:])


def whole_arguments(markers: Markers, leads: Mapping[str, Sequence[_Pieces]]) -> tuple[CallStep, ...]:
    """The table of a syntax that writes all arguments as one JSON value, from what stands in front by its place.

    () where that does not tell whose arguments follow.
    """
    table = CallSteps(markers)
    for place, texts in leads.items():
        if not texts:
            return ()
        table.chain(0, texts, table.value(place, 0))
    return table.steps()


def filled(markers: Markers, parts: Iterable[str | Hole], known: Mapping[str, str]) -> _Pieces:
    """The text of these parts; raises `KeyError` for a hole that is not ``known``."""
    pieces: list[int | str] = []
    for part in parts:
        pieces += [known[part.name]] if isinstance(part, Hole) else markers.pieces(part)
    return _joined(pieces)


def until(pattern: Pattern, hole: str) -> Pattern:
    """The parts in front of a hole."""
    return pattern[: pattern.index(Hole(hole))]


def _joined(pieces: Sequence[int | str]) -> _Pieces:
    """The pieces with neighbouring texts made one, as a trigger is one text."""
    out: list[int | str] = []
    for piece in pieces:
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)
