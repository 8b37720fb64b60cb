"""Infer from renderings how a model's reasoning is marked, switched and prefilled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units
from grammars.formats.probe.turns import Turn
from grammars.formats.reasoning.header import THINKING, assistant_header
from grammars.formats.reasoning.marker_evidence import has_thinking_markers, marker_candidates, rendered_reasoning
from grammars.formats.reasoning.prompt_suffixes import PromptSuffixes, ReasoningMarkers
from grammars.formats.reasoning.switch_values import is_hinted, read_switch
from grammars.formats.reasoning.switches import effort_switch, try_switches
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
    hinted = is_hinted(suffixes) or has_thinking_markers(template)
    for markers in marker_candidates(rendered, suffixes, turn, units, template, hinted=hinted):
        yield _reading(markers, suffixes, renderings, plain, template)
    content_start = _content_start(turn, header, "", units)
    yield ReasoningReading(None, header, content_start, opening=_opening(turn, header, ""))


def _reading(
    markers: ReasoningMarkers, suffixes: PromptSuffixes, renderings: Renderings, plain: Probe, template: str
) -> ReasoningReading:
    """The reading of a reasoning block with these markers."""
    units, turn, header = suffixes.units, suffixes.turn, suffixes.header
    switch = read_switch(suffixes, markers)
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
