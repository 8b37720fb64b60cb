"""What generation prompts have behind the assistant's header, and how far into a reasoning block that goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from grammars.formats.reasoning.switches import Effects, Tried
from grammars.formats.probe.turns import Turn
from grammars.formats.probe.text_units import Units
from grammars.tool_calls.pattern import escape_literal

__all__ = ["Framing", "State", "Tails", "tag_at_end"]

State: TypeAlias = Literal["open", "closed", "fresh"]


@dataclass(frozen=True, slots=True)
class Framing:
    """A reasoning block's opening and closing, and what shows them."""

    start: str
    end: str
    content_start: str = ""
    given_as: str = ""
    evidence: str = "rendering"
    shown_by: str = ""  #: the same more exactly, for whoever asks how ``start`` and ``end`` are known

    @property
    def is_tellable(self) -> bool:
        """Can both be told from a thought's own text?"""
        return bool(self.start.strip() and self.end.strip())


class Tails:
    """The tails of all generation prompts that were tried."""

    def __init__(self, header: str, effects: Effects, turn: Turn | None, units: Units) -> None:
        self.header = header
        self.effects = effects
        self.turn = turn
        self.units = units
        self.default = self.after_header(effects.default.turn)

    def after_header(self, text: str) -> str:
        """``text`` behind the header; "" where there is none."""
        if text.startswith(self.header):
            return text[len(self.header) :]
        at = text.rfind(self.header.lstrip()) if self.header.strip() else -1
        return text[at + len(self.header.lstrip()) :] if at >= 0 else ""

    def of(self, name: str, value: Any) -> str:
        """The tail under one value of one argument; None stands for leaving it out."""
        return self.after_header(self.effects.of(name).get(value, self.effects.default).turn)

    def is_changed(self, tried: Tried) -> bool:
        """Did the argument change how the prompt ends, rather than a text further up?"""
        return self.after_header(tried.turn) != self.default

    def all(self) -> list[str]:
        """All tails, the default's first."""
        found = [self.default, *(self.after_header(change.turn) for change in self.effects.changes)]
        return list(dict.fromkeys(found))

    def empty(self, framing: Framing) -> str:
        """The empty block that an answer without reasoning has in front of it."""
        if self.turn is None:
            return ""
        lead = self.after_header(self.turn.lead).removesuffix(framing.content_start)
        return lead if self.state(lead, framing) == "closed" else ""

    def state(self, tail: str, framing: Framing) -> State:
        """How far into a reasoning block does the tail go?"""
        start, end = framing.start.strip(), _core(framing.end, self.units)
        opened = _last_opening(tail, start)
        if end and end in tail and (opened is None or tail.rfind(end) >= opened[0]):
            return "closed"
        return "open" if opened is not None and not tail[opened[1] :].strip() else "fresh"

    def states(self, name: str, framing: Framing) -> Mapping[Any, State]:
        """Value -> state, of every value of an argument that the template takes, and of leaving it out (None).

        A value under which the prompt does not open the assistant's turn says nothing of reasoning.
        """
        found = {tried.value: tried for tried in self.effects.tried if tried.name == name}
        opening = {value: tried for value, tried in found.items() if self.header.strip() in tried.turn}
        states = {value: self.state(self.after_header(tried.turn), framing) for value, tried in opening.items()}
        return {None: self.state(self.default, framing), **states}

    def opened_by(self, framing: Framing) -> str:
        """How prompts open the block where they write more than ``framing.start``: a pattern, ``$value`` what varies.

        "" where every prompt that opens the block ends with the start itself.
        """
        tags: dict[str, None] = {}
        for tried in (self.effects.default, *self.effects.changes):
            tail = self.after_header(tried.turn)
            tag = tag_at_end(tail) if self.state(tail, framing) == "open" else None
            if tag is not None:
                tags[tag[0]] = None
                if tried.name and str(tried.value) in tag[0].removeprefix(tag[1]):  # it may be any other value
                    tags[tag[1] + tag[0].removeprefix(tag[1]).replace(str(tried.value), "", 1)] = None
        return "" if set(tags) <= {framing.start.strip()} else _pattern(tags)


#: A tag with or without attributes, at the very end of a text.
_TAG = re.compile(r"(?P<head>[<\[{(|]{1,3}\w[\w.-]*)(?P<inside>(?:[\s=:][^<>\[\]{}]*)?)(?P<tail>[|\]>})]{1,3})\s*$")


def tag_at_end(text: str) -> tuple[str, str, str] | None:
    """The tag that ``text`` ends with, its name with the brackets in front of it, and the brackets behind it."""
    found = _TAG.search(text)
    return (found[0].rstrip(), found["head"], found["tail"]) if found is not None else None


@lru_cache(maxsize=64)
def _opening(start: str) -> re.Pattern[str]:
    """``start`` itself; where it is one tag, also the same tag with other attributes."""
    tag = tag_at_end(start)
    if tag is None or tag[0] != start:
        return re.compile(re.escape(start))
    return re.compile(rf"{re.escape(start)}|{re.escape(tag[1])}(?:[\s=:][^<>\[\]{{}}]*)?{re.escape(tag[2])}")


def _last_opening(tail: str, start: str) -> tuple[int, int] | None:
    """Begin and end of the last place where ``start`` opens a block."""
    found = list(_opening(start).finditer(tail)) if start else []
    return found[-1].span() if found else None


def _pattern(texts: Iterable[str]) -> str:
    """One pattern for all texts: what they begin and end with, and a hole where they differ."""
    first, *others = texts
    before = behind = len(first)
    for other in others:
        before = min(before, _shared(first, other))
        behind = min(behind, _shared(first[::-1], other[::-1]))
    if not others:
        return escape_literal(first)
    behind = min(behind, min(map(len, (first, *others))) - before)
    return f"{escape_literal(first[:before])}$value{escape_literal(first[len(first) - behind :])}"


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _core(framing: str, units: Units) -> str:
    """The marker of a framing; all of it where there is none."""
    return next(iter(units.markers(framing)), framing.strip())
