"""How a model's reasoning is framed, switched and prefilled, read off renderings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.formats import samples as s
from grammars.formats.format import ReasoningFormat, Switch
from grammars.formats.header import THOUGHT, assistant_header
from grammars.formats.pairs import closing_of, is_pair, markers_in_template
from grammars.formats.renderings import Asking, Renderings
from grammars.formats.switches import (
    LEVELS,
    Effects,
    Tried,
    effort_switch,
    is_about_history,
    on_and_off,
    speaks_of_thinking,
    text_switches,
    try_switches,
)
from grammars.formats.turns import Turn
from grammars.formats.units import Units
from special_tokens import Role, SpecialTokens

__all__ = ["ReasoningReading", "read_reasoning"]


@dataclass(frozen=True, slots=True)
class ReasoningReading:
    """A reasoning format, what shows it, what the assistant's header is, and how content begins behind reasoning.

    ``given_as`` says how messages carry reasoning so that the template renders it: the field's name, ``parts``, or ""
    where it never does; ``opening`` is white space that every answer begins with, ``block`` the empty
    block in front of an answer without reasoning.
    """

    format: ReasoningFormat | None
    header: str
    content_start: str = ""
    given_as: str = ""
    evidence: str = ""
    opening: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class _Framing:
    start: str
    end: str
    content_start: str = ""
    given_as: str = ""
    evidence: str = "rendering"


def read_reasoning(
    renderings: Renderings, plain: Asking, calling: Asking | None, turn: Turn | None, units: Units, template: str
) -> ReasoningReading:
    """The reasoning of a template, as far as renderings show it; ``format`` is None for a model without."""
    effects = try_switches(renderings, plain, template)
    sights = list(_sights(renderings, plain, calling, effects, template))
    header = assistant_header(turn, effects, [sight.lead for sight in sights], units)
    tails = _Tails(header, effects, turn, units)
    framing = _from_rendering(sights, tails, turn, units) or _from_prompts(tails, template, units)
    switch = _switch(effects, tails, framing, units)
    if framing is None and (switch is not None or _speaks_of_thinking(template)):
        framing = _from_words(template, units.tokens)
    if framing is None:
        return ReasoningReading(
            None, header, _content_start(turn, header, "", units), opening=_opening(turn, header, "")
        )
    on = {switch.name: switch.on} if switch else {}
    effort = effort_switch(renderings, plain, template, units, on)
    default = tails.state(tails.default, framing, units)
    off_tail = tails.of(switch.name, switch.off) if switch else ""
    block = tails.empty(framing, units)
    empty = off_tail if tails.state(off_tail, framing, units) == "closed" else block
    if not empty and tails.default and units.markers(framing.start):
        empty = framing.start + framing.end  # the prompt opens the block, so it has to be closed at once
    content_start = framing.content_start or _content_start(turn, header, empty, units)
    made = ReasoningFormat(
        start=framing.start,
        end=framing.end,
        empty=empty,
        default_on=_default_on(switch, effects, tails, default, bool(empty), framing),
        can_be_off=bool(switch or empty) or not content_start,
        switch=switch,
        effort_switch=effort,
        prompt_on=tails.of(switch.name, switch.on) if switch else tails.default,
        prompt_off=off_tail,
        closed_lead=block[len(off_tail) :] if off_tail and block.startswith(off_tail) else "",
    )
    opening = _opening(turn, header, block)
    return ReasoningReading(made, header, content_start, framing.given_as, framing.evidence, opening, block)


# -- reasoning that a template renders


@dataclass(frozen=True, slots=True)
class _Sight:
    """A rendering that shows reasoning: what stands in front of it and behind it."""

    lead: str
    rest: str
    given_as: str
    with_call: bool


def _sights(
    renderings: Renderings, plain: Asking, calling: Asking | None, effects: Effects, template: str
) -> Iterator[_Sight]:
    """Reasoning in front of an answer first, then in front of calls, under default arguments and under switches."""
    fields: tuple[tuple[str, dict[str, Any], Any], ...] = (
        ("reasoning_content", {"reasoning_content": s.REASON}, s.ANSWER),
        ("parts", {}, [{"type": "thinking", "thinking": s.REASON}, {"type": "text", "text": s.ANSWER}]),
    )
    others = _fields_of_thought(template)
    fields += tuple((name, {name: s.REASON}, s.ANSWER) for name in others)
    switched = [{change.name: change.value} for change in effects.changes if change.value in (True, "none", -1)]
    for kwargs in ({}, *switched):
        for given_as, extra, content in fields:
            yield from _sight(renderings.turn(plain, s.assistant(content, **extra), **kwargs), given_as, False)
        if calling is None:
            continue
        for name in ("reasoning_content", *others):
            message = renderings.calling(calling, [(s.NAME, s.BOTH)], **{name: s.REASON})
            for after in ((message,), (message, s.result())):
                rendering = renderings.turn(calling, *after, tools=True, **kwargs)
                yield from _sight(rendering, name, True)


_FIELD = re.compile(
    r"(?:\.|\[\s*['\"]|\.get\(\s*['\"])([a-z_]*(?:reason|think|thought|plan|reflect)[a-z_]*)\b(?!\s*\()"
)
_MOST_FIELDS = 4


def _fields_of_thought(template: str) -> list[str]:
    """Fields of messages that may carry reasoning, beside those that transformers fills from each other."""
    found = dict.fromkeys(_FIELD.findall(template))
    return [name for name in found if name not in ("reasoning_content", "thinking")][:_MOST_FIELDS]


def _sight(rendering: str | None, given_as: str, with_call: bool) -> Iterator[_Sight]:
    if rendering is None or s.REASON not in rendering:
        return
    lead, rest = rendering.split(s.REASON, 1)
    if re.search(r"\{\s*['\"]type", lead) or (s.NAME if with_call else s.ANSWER) not in rest:
        return  # the message was dumped as it is, or reasoning was put somewhere else
    yield _Sight(lead, rest, given_as, with_call)


def _from_rendering(sights: Sequence[_Sight], tails: _Tails, turn: Turn | None, units: Units) -> _Framing | None:
    for sight in sights:
        start = tails.after_header(sight.lead)
        if not units.markers(start):
            start = tails.default if tails.default.strip() and not start.strip() else start
        if not start.strip():
            continue
        middle = sight.rest[: sight.rest.index(s.NAME if sight.with_call else s.ANSWER)]
        if sight.with_call:
            end = _up_to_marker(middle, start, units)
            return _Framing(start, end, "", sight.given_as)
        content_start = _shared_start(sight, middle, turn, tails, units)
        end = middle[: len(middle) - len(content_start)]
        return _Framing(start, end, content_start, sight.given_as)
    return None


def _shared_start(sight: _Sight, middle: str, turn: Turn | None, tails: _Tails, units: Units) -> str:
    """What content begins with by itself: in front of an answer without reasoning it stands alone."""
    if turn is None:
        return ""
    alone = tails.after_header(turn.lead)
    shared = units.common_suffix(middle, alone)
    first = next(iter(units.markers(middle)), "")
    if first and first in shared:  # the empty block ends like the full one
        behind = shared[shared.index(first) + len(first) :]
        opener = next(iter(units.markers(tails.after_header(sight.lead))), "")
        if opener and opener in behind:
            return behind[behind.index(opener) :]
        return behind.lstrip() if units.markers(behind) else ""
    return shared if units.markers(shared) else ""


def _up_to_marker(middle: str, start: str, units: Units) -> str:
    """What closes reasoning in front of a call: everything up to the marker that closes ``start``."""
    openers = units.markers(start)
    for marker in units.markers(middle):
        if any(is_pair(opener, marker) for opener in openers):
            return middle[: middle.index(marker) + len(marker)]
    first = next(iter(units.markers(middle)), "")
    return middle[: middle.index(first) + len(first)] if first else middle


# -- what the generation prompt shows


class _Tails:
    """What generation prompts have behind the assistant's header."""

    def __init__(self, header: str, effects: Effects, turn: Turn | None, units: Units) -> None:
        self.header = header
        self.effects = effects
        self.turn = turn
        self.default = self.after_header(effects.default.turn)

    def after_header(self, text: str) -> str:
        """``text`` behind the header."""
        if text.startswith(self.header):
            return text[len(self.header) :]
        at = text.rfind(self.header.lstrip()) if self.header.strip() else -1
        return text[at + len(self.header.lstrip()) :] if at >= 0 else ""

    def of(self, name: str, value: Any) -> str:
        """The tail under one value of one argument."""
        tried = self.effects.of(name).get(value, self.effects.default)
        return self.after_header(tried.turn)

    def is_changed(self, tried: Tried) -> bool:
        """Did the argument change how the prompt ends, rather than a text further up?"""
        return self.after_header(tried.turn) != self.default

    def all(self) -> list[str]:
        """All tails, the default's first."""
        found = [self.default, *(self.after_header(change.turn) for change in self.effects.changes)]
        return list(dict.fromkeys(found))

    def empty(self, framing: _Framing, units: Units) -> str:
        """The empty block that an answer without reasoning has in front of it."""
        if self.turn is None:
            return ""
        lead = self.after_header(self.turn.lead)
        lead = lead.removesuffix(framing.content_start)
        return lead if self.state(lead, framing, units) == "closed" else ""

    def state(self, tail: str, framing: _Framing, units: Units) -> str:
        """``open``, ``closed`` or ``fresh``: how far into a reasoning block does the tail go?"""
        start, end = framing.start.strip(), _core(framing.end, units)
        if end and end in tail and tail.rfind(end) >= tail.rfind(start):
            return "closed"
        return "open" if start and tail.rstrip().endswith(start) else "fresh"


def _core(framing: str, units: Units) -> str:
    """The marker of a framing; all of it where there is none."""
    return next(iter(units.markers(framing)), framing.strip())


def _from_prompts(tails: _Tails, template: str, units: Units) -> _Framing | None:
    """A block that is only ever opened or closed by the prompt: its framing, as far as that shows."""
    shown = tails.all()
    if tails.turn is not None:
        shown += [tails.after_header(tails.turn.lead)]
    opened = next((tail for tail in shown if _opens(tail, template, units)), "")
    for tail in shown:
        closed = _split_block(tail, opened, units)
        if closed is not None:
            return closed
    if not opened:
        return None
    closing = closing_of(units.markers(opened)[-1], markers_in_template(template, units.tokens))
    return _mirrored(opened, closing) if closing else None


def _opens(tail: str, template: str, units: Units) -> bool:
    """Does the tail end with a marker that is closed somewhere in the template?"""
    markers = units.markers(tail)
    if not markers or not tail.rstrip().endswith(markers[-1]):
        return False
    return (
        closing_of(markers[-1], markers_in_template(template, units.tokens)) is not None
        and THOUGHT.search(markers[-1]) is not None
    )


def _split_block(tail: str, opened: str, units: Units) -> _Framing | None:
    """An empty block taken apart; the white space inside it belongs half to each side."""
    markers = units.markers(tail)
    for i, opener in enumerate(markers):
        closer = closing_of(opener, markers[i + 1 :])
        if closer is None or not THOUGHT.search(opener):
            continue
        begin = tail.index(opener) + len(opener)
        inside, behind = tail[begin : tail.index(closer, begin)], tail[tail.index(closer, begin) + len(closer) :]
        if opened.strip() == tail[:begin].strip():
            return _behind(opened, closer, tail[len(opened) :] if tail.startswith(opened) else closer)
        half = inside[: len(inside) // 2] if not inside.strip() else "\n" * inside.startswith("\n")
        spaces = behind[: len(behind) - len(behind.lstrip())]
        return _Framing(tail[:begin] + half, half + closer + spaces, evidence="rendering of the empty block")
    return None


def _behind(opened: str, closer: str, rest: str) -> _Framing:
    """The framing of a block that the prompt opens with ``opened`` and closes with ``rest``."""
    if rest == closer and opened.endswith("\n"):
        return _mirrored(opened, closer)
    return _Framing(opened, rest, evidence="rendering of the prompt")


def _mirrored(opened: str, closer: str) -> _Framing:
    """A block whose end nobody shows: framed as its beginning, and a blank line as most families have it."""
    framed = opened.endswith("\n")
    return _Framing(opened, f"\n{closer}\n\n" if framed else closer, evidence="rendering of the prompt, end by custom")


# -- words of the template and of the vocabulary


def _speaks_of_thinking(template: str) -> bool:
    return any(THOUGHT.search(marker) for marker in re.findall(r"</?[a-z_|:]+>|\[/?[A-Z]+\]", template))


def _from_words(template: str, tokens: SpecialTokens) -> _Framing | None:
    """A pair of markers that the template speaks of, or that the vocabulary has for reasoning."""
    candidates = markers_in_template(template, tokens)
    for opener in candidates:
        if THOUGHT.search(opener):
            closer = closing_of(opener, candidates)
            if closer is not None:
                return _Framing(opener, closer, evidence="template text")
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    return _Framing(pair[0].text, pair[1].text, evidence="vocabulary") if pair else None


# -- switches and defaults


def _switch(effects: Effects, tails: _Tails, framing: _Framing | None, units: Units) -> Switch | None:
    """The argument that opens or closes the block, or that at least tells the model to."""
    for name in effects.names:
        on, off = on_and_off(name)
        found = effects.of(name)
        if is_about_history(name) or not any(tails.is_changed(tried) for tried in found.values()):
            continue
        if not speaks_of_thinking(name) and not _opens_or_closes(found, tails, framing, units):
            continue
        by_word = _switch_by_word(name, found, tails, framing, units)
        if by_word is not None and not _opens_or_closes(_plain_values(found), tails, framing, units):
            return by_word
        if "none" in found and on not in found and off not in found:
            return Switch(name, None, "none")
        return Switch(name, on, off)
    by_text = (name for name in text_switches(effects) if not any(map(tails.is_changed, effects.of(name).values())))
    return next((Switch(name, *on_and_off(name)) for name in by_text if speaks_of_thinking(name)), None)


def _plain_values(found: Mapping[Any, Tried]) -> dict[Any, Tried]:
    return {value: tried for value, tried in found.items() if not isinstance(value, str)}


def _switch_by_word(
    name: str, found: Mapping[Any, Tried], tails: _Tails, framing: _Framing | None, units: Units
) -> Switch | None:
    """A switch whose values are words; None stands for leaving the argument out."""
    if framing is None:
        return None
    states: dict[str, list[str]] = {"open": [], "closed": [], "fresh": []}
    for value, tried in found.items():
        if isinstance(value, str) and tails.is_changed(tried):
            states[tails.state(tails.after_header(tried.turn), framing, units)].append(value)
    weakest = sorted(states["closed"], key=_strength)
    strongest = sorted(states["open"] or states["fresh"], key=_strength)
    if tails.state(tails.default, framing, units) == "closed":
        return Switch(name, strongest[-1], None) if strongest else None
    if not weakest:
        return None
    return Switch(name, strongest[-1] if states["open"] else None, weakest[0])


def _strength(word: str) -> int:
    return LEVELS.index(word) if word in LEVELS else len(LEVELS)


def _opens_or_closes(found: Mapping[Any, Tried], tails: _Tails, framing: _Framing | None, units: Units) -> bool:
    """Does some value make the prompt open or close the block?"""
    states = (
        {tails.state(tails.after_header(tried.turn), framing, units) for tried in found.values()} if framing else set()
    )
    return not states <= {"fresh"}


def _default_on(
    switch: Switch | None, effects: Effects, tails: _Tails, default: str, has_empty: bool, framing: _Framing
) -> bool:
    """Does the model reason when nobody asks?"""
    if switch is not None:
        return switch.on not in effects.of(switch.name)
    if default == "closed":
        return False
    return default == "open" or has_empty or framing.given_as != ""


def _content_start(turn: Turn | None, header: str, empty: str, units: Units) -> str:
    """Markers in front of an answer that belong to no reasoning block."""
    if turn is None:
        return ""
    lead = turn.lead[len(header) :] if turn.lead.startswith(header) else ""
    lead = lead.removeprefix(empty) if empty else lead
    is_frame = units.markers(lead) or 0 < len(lead.strip()) <= _LONGEST_WORD
    return lead if is_frame and not THOUGHT.search(lead) else ""


_LONGEST_WORD = 16  # characters of a frame that is no marker


def _opening(turn: Turn | None, header: str, block: str) -> str:
    """White space between header and answer, where nothing else stands there."""
    lead = turn.lead[len(header) :] if turn is not None and turn.lead.startswith(header) else ""
    return lead if not block and not lead.strip() else ""
