"""Prompt suffixes: the text of generation prompts after the assistant's header, which may open or close reasoning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from grammars.formats.probe.text_units import Units
from grammars.formats.probe.turns import Turn
from grammars.formats.reasoning.switches import SwitchEffects
from grammars.tool_calls.pattern import escape_literal

__all__ = ["BlockState", "PromptSuffixes", "ReasoningMarkers", "tag_at_end"]

#: Whether a prompt suffix leaves a reasoning block open, has closed it, or contains none.
BlockState: TypeAlias = Literal["open", "closed", "fresh"]


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """The markers that open and close a reasoning block, and their evidence."""

    start: str
    end: str
    content_start: str = ""
    reasoning_as: str = ""
    evidence: str = "rendering"

    @property
    def is_recognisable(self) -> bool:
        """Whether both markers can be recognised in text; white space alone cannot."""
        return bool(self.start.strip() and self.end.strip())


class PromptSuffixes:
    """The suffixes of all generation prompts that were tried."""

    def __init__(self, header: str, effects: SwitchEffects, turn: Turn | None, units: Units) -> None:
        self.header = header
        self.effects = effects
        self.turn = turn
        self.units = units
        self.default = self.after_header(effects.default.turn)

    def after_header(self, text: str) -> str:
        """``text`` after the header; "" if it does not contain the header."""
        if text.startswith(self.header):
            return text[len(self.header) :]
        at = text.rfind(self.header.lstrip()) if self.header.strip() else -1
        return text[at + len(self.header.lstrip()) :] if at >= 0 else ""

    def of(self, name: str, value: Any) -> str:
        """The suffix with the argument ``name`` set to ``value``; None means that it is left out."""
        return self.after_header(self.effects.of(name).get(value, self.effects.default).turn)

    def all(self) -> list[str]:
        """All distinct suffixes, the default one first."""
        suffixes = [self.default, *(self.after_header(change.turn) for change in self.effects.changes)]
        return list(dict.fromkeys(suffixes))

    def empty(self, markers: ReasoningMarkers) -> str:
        """The empty block before an answer without reasoning; "" if there is none."""
        if self.turn is None:
            return ""
        lead = self.after_header(self.turn.lead).removesuffix(markers.content_start)
        return lead if self.state(lead, markers) == "closed" else ""

    def state(self, suffix: str, markers: ReasoningMarkers) -> BlockState:
        """Return whether ``suffix`` leaves a reasoning block open, has closed it, or contains none."""
        start, end = markers.start.strip(), _main_marker(markers.end, self.units)
        opened = _last_opening(suffix, start)
        if end and end in suffix and (opened is None or suffix.rfind(end) >= opened[0]):
            return "closed"
        return "open" if opened is not None and not suffix[opened[1] :].strip() else "fresh"

    def states(self, name: str, markers: ReasoningMarkers) -> Mapping[Any, BlockState]:
        """Value -> state of the prompt, for all accepted values of an argument and for leaving it out (None).

        Values with which the prompt does not open the assistant's turn are left out.
        """
        tried_values = {tried.value: tried for tried in self.effects.tried if tried.name == name}
        opening = {value: tried for value, tried in tried_values.items() if self.header.strip() in tried.turn}
        states = {value: self.state(self.after_header(tried.turn), markers) for value, tried in opening.items()}
        return {None: self.state(self.default, markers), **states}

    def opened_by(self, markers: ReasoningMarkers) -> str:
        """The pattern with which prompts open the block, with ``$value`` for what varies; "" if it is the start itself.

        Some prompts write attributes into the opening tag.
        """
        tags: dict[str, None] = {}
        start = markers.start.strip()
        for tried in (self.effects.default, *self.effects.changes):
            suffix = self.after_header(tried.turn)
            tag = tag_at_end(suffix) if self.state(suffix, markers) == "open" else None
            if tag is not None and not suffix.rstrip().endswith(start):
                tags[tag[0]] = None
                if tried.name and str(tried.value) in tag[0].removeprefix(tag[1]):  # other values must match as well
                    tags[tag[1] + tag[0].removeprefix(tag[1]).replace(str(tried.value), "", 1)] = None
        return _pattern(tags) if tags else ""


#: A tag with or without attributes, at the very end of a text.
_TAG = re.compile(r"(?P<head>[<\[{(|]{1,3}\w[\w.-]*)(?P<inside>(?:[\s=:][^<>\[\]{}]*)?)(?P<suffix>[|\]>})]{1,3})\s*$")


def tag_at_end(text: str) -> tuple[str, str, str] | None:
    """The tag at the end of ``text``, its beginning up to the name, and its closing brackets; None without a tag."""
    tag = _TAG.search(text)
    return (tag[0].rstrip(), tag["head"], tag["suffix"]) if tag is not None else None


@lru_cache(maxsize=64)
def _opening(start: str) -> re.Pattern[str]:
    """A regex for ``start``; if that is one tag, also for the same tag with other attributes."""
    tag = tag_at_end(start)
    if tag is None or tag[0] != start:
        return re.compile(re.escape(start))
    return re.compile(rf"{re.escape(start)}|{re.escape(tag[1])}(?:[\s=:][^<>\[\]{{}}]*)?{re.escape(tag[2])}")


def _last_opening(suffix: str, start: str) -> tuple[int, int] | None:
    """Begin and end of the last place where ``start`` opens a block, or None."""
    openings = list(_opening(start).finditer(suffix)) if start else []
    return openings[-1].span() if openings else None


def _pattern(texts: Iterable[str]) -> str:
    """One pattern for all texts: their common prefix and suffix, with a hole between."""
    first, *others = texts
    before = after = len(first)
    for other in others:
        before = min(before, _shared(first, other))
        after = min(after, _shared(first[::-1], other[::-1]))
    if not others:
        return escape_literal(first)
    after = min(after, min(map(len, (first, *others))) - before)
    return f"{escape_literal(first[:before])}$value{escape_literal(first[len(first) - after :])}"


def _shared(one: str, other: str) -> int:
    """The length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _main_marker(text: str, units: Units) -> str:
    """The first marker in ``text``; all of it, stripped, if there is none."""
    return next(iter(units.markers(text)), text.strip())
