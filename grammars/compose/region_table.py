"""The table of regions of one plan: which marker leads from which region to which, and the framing next to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grammars.compose.tool_section import ToolSection
from grammars.plan.plan import Exit, Plan, QuoteSpan, Region, RegionName
from grammars.reasoning.part import framing
from grammars.tool_calls.syntaxes.harmony import Harmony
from grammars.tool_calls.syntaxes.json_body import JsonSyntax
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.values.format import Format, ToolCallFormat

__all__ = ["AFTER_REASONING", "BEFORE_REASONING", "REASONING", "plan_without_masks", "region_table"]

_MESSAGE = "<|message|>"
#: The numbers of the regions.  ``BEFORE_REASONING`` is the answer itself where nothing is reasoned; ``FRAMED`` is the
#: answer inside its own frame (harmony's final channel), ``LEAD`` text before calls inside its own (its preamble).
BEFORE_REASONING, REASONING, AFTER_REASONING, CALLS, AFTER_CALLS, FRAMED, LEAD = range(7)


def region_table(
    format: Format, markers: Markers, section: ToolSection | None, *, reasons: bool, name: RegionName
) -> tuple[Region, ...]:
    """Return the regions by number; ``name`` is the answer's region, ``reasons`` whether a block may come first."""
    form = format.reasoning if reasons else None
    into_calls = _into_calls(section, markers) if section is not None else _unasked(format, markers)
    into_frames = tuple(_into_frames(format, markers))
    into_reasoning: tuple[Exit, ...] = ()
    out_of_reasoning: tuple[Exit, ...] = ()
    if form is not None:
        into_reasoning = (_exit(form.start, REASONING, markers),)
        out_of_reasoning = (_exit(form.end, AFTER_REASONING, markers),)
        is_token = isinstance(out_of_reasoning[0].trigger[0], int)
        if is_token and form.empty.strip() == form.end.strip():  # the end marker alone means: no reasoning
            into_reasoning += out_of_reasoning
        if form.ends_by_call:
            out_of_reasoning += into_calls
    again = into_reasoning[:1] if into_frames else ()  # where text is framed, reasoning may occur more than once
    closed = _closed(format, markers)
    table = (
        Region(name, into_reasoning + into_frames + into_calls + closed),
        Region(RegionName.REASONING, out_of_reasoning),
        Region(name, again + into_frames + into_calls + closed),
        _calls(section, markers),
        Region(RegionName.CONTENT, into_frames + _into_calls(section, markers, again=True) + closed),
    )
    return (*table, *_frames(format, markers, name, section)) if into_frames else table


def plan_without_masks(plan: Plan, markers: Markers) -> Plan:
    """Return the plan that reads what no mask guided: in it more texts open calls, which masks let through as text."""
    form = plan.format.tool_calls
    module = syntax(form.syntax) if form is not None else None
    if form is None or not isinstance(module, Harmony | JsonSyntax):
        return plan
    triggers = [markers.pieces(text) for text in module.other_triggers(form, plan.tools)]
    regions = list(plan.regions)
    for number, region in enumerate(regions[:FRAMED]):
        into_calls = next((way for way in region.exits if way.to == CALLS), None)
        if into_calls is not None:
            others = (replace(into_calls, trigger=trigger) for trigger in triggers)
            regions[number] = replace(region, exits=(*region.exits, *others))
    return replace(plan, regions=tuple(regions))


def _exit(marker: str, to: int, markers: Markers) -> Exit:
    before, bare, after = framing(marker)
    return Exit(markers.pieces(bare), to, before, after)


def _into_calls(section: ToolSection | None, markers: Markers, *, again: bool = False) -> tuple[Exit, ...]:
    """The exits into calls, with the white space in front of them; ``again``: after a first call."""
    if section is None:
        return ()
    form = section.form
    gap = (form.between or form.gap) if again and not form.section_start else (form.gap or form.gap_without_text)
    gap = gap if not gap.strip() else ""
    first = section.opens_at_start and not again
    return tuple(Exit(markers.pieces(text), CALLS, before=gap, at_start=first) for text in section.triggers)


def _unasked(format: Format, markers: Markers) -> tuple[Exit, ...]:
    """The exits into calls that no one asked for, where text has a frame of its own: their header is not text."""
    form = format.tool_calls
    if form is None or not format.content.start:
        return ()
    return tuple(Exit(markers.pieces(text), CALLS) for text in syntax(form.syntax).triggers(form, ()))


def _calls(section: ToolSection | None, markers: Markers) -> Region:
    if section is None:
        return Region(RegionName.TOOL_CALLS)
    out: tuple[Exit, ...] = ()
    if section.end_marker:
        out = (Exit(markers.pieces(section.end_marker), AFTER_CALLS, after=_after_calls(section.form)),)
    quotes = tuple(
        QuoteSpan(markers.pieces(quote.open), markers.pieces(quote.close), quote.escape, quote.is_inner)
        for quote in syntax(section.form.syntax).quotes(section.form)
    )
    return Region(RegionName.TOOL_CALLS, out, quotes)


def _after_calls(form: ToolCallFormat) -> str:
    """The white space that belongs to the marker that closes calls."""
    closing = form.section_end if form.section_start else form.call_end
    blank = form.section_end if not form.section_end.strip() and not form.section_start else ""
    return closing[len(closing.rstrip()) :] + blank


def _closed(format: Format, markers: Markers) -> tuple[Exit, ...]:
    """The exit out of a frame that the prompt has opened, or that text in front of calls leaves half closed."""
    content = format.content
    if not content.start:
        return (Exit(markers.pieces(content.end), AFTER_CALLS),) if content.end else ()
    closing = content.end.removeprefix(content.lead_end)
    is_half = content.lead_start == content.start and bool(content.lead_end) and 0 < len(closing) < len(content.end)
    return (Exit(markers.pieces(closing), AFTER_CALLS),) if is_half else ()


def _into_frames(format: Format, markers: Markers) -> Iterable[Exit]:
    content = format.content
    if content.start:
        yield Exit(markers.pieces(content.start), FRAMED)
    if content.start.endswith(_MESSAGE):  # harmony: models name the type of a response without masks
        head = content.start.removesuffix(_MESSAGE)
        for kind in (" json", "<|constrain|>json", " <|constrain|>json"):
            yield Exit(markers.pieces(head + kind + _MESSAGE), FRAMED)
    if content.lead_start and content.lead_start != content.start:
        yield Exit(markers.pieces(content.lead_start), LEAD)


def _frames(format: Format, markers: Markers, name: RegionName, section: ToolSection | None) -> tuple[Region, ...]:
    content = format.content
    out = [Exit(markers.pieces(text), CALLS) for text in (section.triggers_after_text if section else ())]
    if content.end:
        out.append(Exit(markers.pieces(content.end), AFTER_CALLS))
    closing = (Exit(markers.pieces(content.lead_end), AFTER_REASONING),) if content.lead_end else ()
    if content.lead_start == content.start:
        out += closing
    return Region(name, tuple(out)), Region(RegionName.CONTENT, closing)
