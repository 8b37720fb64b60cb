"""Infer from renderings how a model's reasoning is marked, switched and prefilled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units
from grammars.formats.probe.turns import Turn
from grammars.formats.reasoning.header import THINKING, assistant_header
from grammars.formats.reasoning.marker_evidence import has_thinking_markers, marker_candidates, rendered_reasoning
from grammars.formats.reasoning.prompt_suffixes import BlockState, PromptSuffixes, ReasoningMarkers
from grammars.formats.reasoning.switches import (
    LEVELS,
    effort_switch,
    is_about_history,
    is_negated,
    on_and_off,
    suggests_reasoning,
    try_switches,
)
from grammars.values.format import ReasoningFormat, Switch

__all__ = ["ReasoningReading", "read_reasoning"]


@dataclass(frozen=True, slots=True)
class ReasoningReading:
    """A reasoning format with its evidence, and the texts around it.

    ``header`` is the assistant's, ``content_start`` opens content after reasoning.  ``reasoning_as`` is the field in
    which messages carry reasoning so that the template renders it: its name, ``parts``, or "" if it never does.
    ``opening`` is white space that begins every answer, ``block`` the empty block before an answer without reasoning.
    ``evidence`` is that of the markers.
    """

    format: ReasoningFormat | None
    header: str
    content_start: str = ""
    reasoning_as: str = ""
    evidence: str = ""
    opening: str = ""
    block: str = ""


def read_reasoning(
    renderings: Renderings, plain: Probe, calling: Probe | None, turn: Turn | None, units: Units, template: str
) -> Iterator[ReasoningReading]:
    """The possible readings of a template's reasoning, the best evidence first; the last one has no format."""
    effects = try_switches(renderings, plain, template)
    rendered = list(rendered_reasoning(renderings, plain, calling, effects, template))
    header = assistant_header(turn, effects, [shown.lead for shown in rendered], units)
    suffixes = PromptSuffixes(header, effects, turn, units)
    hinted = any(map(_may_instruct, suffixes.effects.names)) or has_thinking_markers(template)
    for markers in marker_candidates(rendered, suffixes, turn, units, template, hinted=hinted):
        yield _reading(markers, suffixes, renderings, plain, template)
    content_start = _content_start(turn, header, "", units)
    yield ReasoningReading(None, header, content_start, opening=_opening(turn, header, ""))


def _reading(
    markers: ReasoningMarkers, suffixes: PromptSuffixes, renderings: Renderings, plain: Probe, template: str
) -> ReasoningReading:
    """The reading of a reasoning block with these markers."""
    units, turn, header = suffixes.units, suffixes.turn, suffixes.header
    switch = _read_switch(suffixes, markers)
    on = {switch.name: switch.on} if switch and switch.on is not None else {}
    effort = effort_switch(renderings, plain, template, units, on, switch.off if switch else None)
    off_suffix = suffixes.of(switch.name, switch.off) if switch else ""
    block = suffixes.empty(markers)
    empty = off_suffix if suffixes.state(off_suffix, markers) == "closed" else block
    if not empty and suffixes.default and (units.markers(markers.start) or suffixes.opened_by(markers)):
        empty = markers.start + markers.end  # the prompt opens the block, so an empty one must be closed
    content_start = markers.content_start or _content_start(turn, header, empty, units)
    made = ReasoningFormat(
        start=markers.start,
        end=markers.end,
        empty=empty,
        default_on=_default_on(switch, suffixes, bool(empty), markers),
        can_be_off=bool(switch or empty) or not content_start,
        switch=switch,
        effort_switch=effort,
        prompt_on=suffixes.of(switch.name, switch.on) if switch else suffixes.default,
        prompt_off=off_suffix,
        closed_lead=block[len(off_suffix) :] if off_suffix and block.startswith(off_suffix) else "",
        opened_by=suffixes.opened_by(markers),
    )
    opening = _opening(turn, header, block)
    return ReasoningReading(made, header, content_start, markers.reasoning_as, markers.evidence, opening, block)


def _default_on(switch: Switch | None, suffixes: PromptSuffixes, has_empty: bool, markers: ReasoningMarkers) -> bool:
    """Whether the model reasons by default; the block that the prompt opens or closes decides, then the switch."""
    default = suffixes.state(suffixes.default, markers)
    if default != "fresh":
        return default == "open"
    if switch is not None:
        return switch.on not in suffixes.effects.of(switch.name)
    return has_empty or markers.reasoning_as != ""


def _content_start(turn: Turn | None, header: str, empty: str, units: Units) -> str:
    """The markers before an answer that do not belong to a reasoning block."""
    if turn is None:
        return ""
    lead = turn.lead[len(header) :] if turn.lead.startswith(header) else ""
    lead = lead.removeprefix(empty) if empty else lead
    is_frame = units.markers(lead) or 0 < len(lead.strip()) <= _MAX_WORD_LENGTH
    return lead if is_frame and not THINKING.search(lead) else ""


_MAX_WORD_LENGTH = 16  # characters of a text around answers that is not a marker


def _opening(turn: Turn | None, header: str, block: str) -> str:
    """The white space between header and answer; "" if anything else is between them."""
    lead = turn.lead[len(header) :] if turn is not None and turn.lead.startswith(header) else ""
    return lead if not block and not lead.strip() else ""


#: The order of prompt states towards reasoning.
_RANK: Mapping[BlockState, int] = {"closed": 0, "fresh": 1, "open": 2}


def _read_switch(suffixes: PromptSuffixes, markers: ReasoningMarkers) -> Switch | None:
    """The argument that opens or closes the block, or at least instructs the model to reason; None if there is none.

    The prompts rendered with each value decide.  The argument's name decides only if the argument merely changes an
    instruction to the model earlier in the prompt.
    """
    for name in suffixes.effects.names:
        by_prompts = _by_prompts(name, suffixes.states(name, markers))
        if by_prompts is not None:
            return by_prompts
    if suffixes.state(suffixes.default, markers) != "fresh":
        return None  # the block is open or closed whatever the instructions say
    return next((switch for name in suffixes.effects.names if (switch := _by_name(name, suffixes, markers))), None)


def _by_prompts(name: str, states: Mapping[Any, BlockState]) -> Switch | None:
    """The switch by the states of prompts: one value leads further towards reasoning than another."""
    ranks = {value: _RANK[state] for value, state in states.items()}
    if len(set(ranks.values())) == 1:
        return None
    if "effort" in name:  # levels are words; many templates also accept true and false without meaning them
        return _by_word(name, ranks, str) or _pair(name, ranks)
    return _pair(name, ranks) or _by_word(name, ranks, object)


def _pair(name: str, ranks: Mapping[Any, int]) -> Switch | None:
    """The switch with the two usual values, in either sense."""
    first, second = on_and_off(name)
    if first not in ranks or second not in ranks or ranks[first] == ranks[second]:
        return None
    return Switch(name, first, second) if ranks[first] > ranks[second] else Switch(name, second, first)


def _by_word(name: str, ranks: Mapping[Any, int], kind: type) -> Switch | None:
    """The switch with a value of the highest and one of the lowest rank; leaving the argument out is preferred."""
    given = {value: rank for value, rank in ranks.items() if isinstance(value, kind) or value is None}
    least, most = min(given.values()), max(given.values())
    if least == most:
        return None
    on = _preferred(value for value, rank in given.items() if rank == most and value != "none")
    off = _preferred((value for value, rank in given.items() if rank == least), weakest=True)
    return Switch(name, on[0], off[0]) if on and off else None


def _preferred(values: Iterable[Any], *, weakest: bool = False) -> list[Any]:
    """The value to use, in a list; [] if there is none."""
    distinct = list(values)
    if None in distinct:
        return [None]
    ordered = sorted(distinct, key=_strength)
    return ordered[:1] if weakest else ordered[-1:]


def _strength(value: Any) -> int:
    return LEVELS.index(value) if value in LEVELS else len(LEVELS)


def _by_name(name: str, suffixes: PromptSuffixes, markers: ReasoningMarkers) -> Switch | None:
    """A switch that only instructs the model; its name decides the sense of its values."""
    if not _may_instruct(name) or "effort" in name:
        return None
    values = on_and_off(name)
    if not set(values) <= set(suffixes.effects.values(name)):
        return None
    on, off = reversed(values) if is_negated(name) else values
    return Switch(name, on, off)


def _may_instruct(name: str) -> bool:
    return suggests_reasoning(name) and not is_about_history(name)
