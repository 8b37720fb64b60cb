"""How a model's reasoning is framed, switched and prefilled, read off renderings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.values.format import ReasoningFormat, Switch
from grammars.formats.framings import framings, sights, speaks_of_thinking_in_markers
from grammars.formats.reasoning.header import THOUGHT, assistant_header
from grammars.formats.probe.renderings import Asking, Renderings
from grammars.formats.reasoning.switch_values import is_hinted, read_switch
from grammars.formats.reasoning.switches import effort_switch, try_switches
from grammars.formats.reasoning.prompt_suffixes import Framing, Tails
from grammars.formats.probe.turns import Turn
from grammars.formats.probe.text_units import Units

__all__ = ["ReasoningReading", "read_reasoning"]


@dataclass(frozen=True, slots=True)
class ReasoningReading:
    """A reasoning format, what shows it, what the assistant's header is, and how content begins behind reasoning.

    ``given_as`` says how messages carry reasoning so that the template renders it: the field's name, ``parts``, or ""
    where it never does; ``opening`` is white space that every answer begins with, ``block`` the empty
    block in front of an answer without reasoning.  ``evidence`` says how the framing is known, ``fields`` the same
    of single fields.
    """

    format: ReasoningFormat | None
    header: str
    content_start: str = ""
    given_as: str = ""
    evidence: str = ""
    opening: str = ""
    block: str = ""
    fields: tuple[tuple[str, str], ...] = ()


def read_reasoning(
    renderings: Renderings, plain: Asking, calling: Asking | None, turn: Turn | None, units: Units, template: str
) -> Iterator[ReasoningReading]:
    """The readings of a template's reasoning, the best evidence first; the last one has no format."""
    effects = try_switches(renderings, plain, template)
    found = list(sights(renderings, plain, calling, effects, template))
    header = assistant_header(turn, effects, [sight.lead for sight in found], units)
    tails = Tails(header, effects, turn, units)
    hinted = is_hinted(tails) or speaks_of_thinking_in_markers(template)
    for framing in framings(found, tails, turn, units, template, hinted=hinted):
        yield _reading(framing, tails, renderings, plain, template)
    content_start = _content_start(turn, header, "", units)
    yield ReasoningReading(None, header, content_start, opening=_opening(turn, header, ""))


def _reading(framing: Framing, tails: Tails, renderings: Renderings, plain: Asking, template: str) -> ReasoningReading:
    """Everything about a block that is framed like this."""
    units, turn, header = tails.units, tails.turn, tails.header
    switch = read_switch(tails, framing)
    on = {switch.name: switch.on} if switch and switch.on is not None else {}
    effort = effort_switch(renderings, plain, template, units, on, switch.off if switch else None)
    off_tail = tails.of(switch.name, switch.off) if switch else ""
    block = tails.empty(framing)
    empty = off_tail if tails.state(off_tail, framing) == "closed" else block
    if not empty and tails.default and (units.markers(framing.start) or tails.opened_by(framing)):
        empty = framing.start + framing.end  # the prompt opens the block, so it has to be closed at once
    content_start = framing.content_start or _content_start(turn, header, empty, units)
    made = ReasoningFormat(
        start=framing.start,
        end=framing.end,
        empty=empty,
        default_on=_default_on(switch, tails, bool(empty), framing),
        can_be_off=bool(switch or empty) or not content_start,
        switch=switch,
        effort_switch=effort,
        prompt_on=tails.of(switch.name, switch.on) if switch else tails.default,
        prompt_off=off_tail,
        closed_lead=block[len(off_tail) :] if off_tail and block.startswith(off_tail) else "",
        opened_by=tails.opened_by(framing),
    )
    opening = _opening(turn, header, block)
    fields = tuple(_fields(made, framing, bool(block)).items())
    return ReasoningReading(made, header, content_start, framing.given_as, framing.evidence, opening, block, fields)


def _fields(form: ReasoningFormat, framing: Framing, has_block: bool) -> dict[str, str]:
    """How each field is known, where that is not simply how the framing is."""
    prompt, answer = "rendering of the prompt", "rendering of an answer without reasoning"
    shown = framing.shown_by or framing.evidence
    found = {"start": shown, "end": shown, "default_on": prompt, "prompt_on": prompt, "opened_by": prompt}
    found["empty"] = found["can_be_off"] = answer if has_block or not form.empty else prompt
    found["switch"] = found["effort_switch"] = f"{prompt} with every argument tried"
    found["prompt_off"], found["closed_lead"] = prompt, answer
    if form.switch is not None:
        on, off = (_given(form.switch.name, value) for value in (form.switch.on, form.switch.off))
        found |= {"prompt_on": f"{prompt} {on}", "prompt_off": f"{prompt} {off}"}
        found["switch"] = found["can_be_off"] = f"{prompt} {on} and {off.removeprefix('with ')}"
        if form.empty == form.prompt_off:
            found["empty"] = found["prompt_off"]
    if form.effort_switch is not None:
        levels = ", ".join(form.effort_switch.values)
        found["effort_switch"] = f"{prompt} {_given(form.effort_switch.name, levels)}"
    return found


def _given(name: str, value: object) -> str:
    return f"without {name}" if value is None else f"with {name}={value}"


def _default_on(switch: Switch | None, tails: Tails, has_empty: bool, framing: Framing) -> bool:
    """Does the model reason when nobody asks?  What the prompt opens or closes decides, then the switch."""
    default = tails.state(tails.default, framing)
    if default != "fresh":
        return default == "open"
    if switch is not None:
        return switch.on not in tails.effects.of(switch.name)
    return has_empty or framing.given_as != ""


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
