"""The reasoning block of one plan: its grammar by entry, its budget, and its chat-template arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from grammars.plan.plan import Pieces, ReasoningPlan
from grammars.reasoning.levels import LEVELS, NATIVE_BUDGETS, normal_effort
from grammars.reasoning.template import SHIPPED, Template, custom_template, shipped_template
from grammars.regular.syntax.write import ANY_TEXT
from grammars.text_grammars.lark.convert import Schemas
from grammars.tool_calls.pattern import parse_pattern
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, Sub, Text, Until, opt, seq
from grammars.values.format import Format, ReasoningFormat
from special_tokens.errors import RequestError, shown

__all__ = ["ReasoningPart", "framing", "reasoning_part"]

ReasoningMode = Literal["absent", "optional", "required", "none"]


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """The reasoning of a request, ready for composition.

    ``block`` writes the whole block, ``continuation`` the same after an opening marker that the prompt wrote already,
    ``open`` the beginning of a block that a tool call may end.  ``lead`` is the white space between the end marker
    and the answer, ``after_start`` that after the opening marker where a template has its own.  ``budget`` counts
    tokens strictly between the markers; None: no limit of its own.
    """

    mode: ReasoningMode = "absent"
    block: Node | None = None
    continuation: Node | None = None
    open: Node | None = None
    lead: str = ""
    after_start: str | None = None
    budget: int | None = None
    plan: ReasoningPlan = ReasoningPlan()
    template_kwargs: tuple[tuple[str, Any], ...] = ()
    notes: tuple[str, ...] = field(default=())


def framing(marker: str) -> tuple[str, str, str]:
    """Return a marker in three parts: white space before it, the text to search for, white space after it."""
    bare = marker.strip()
    start = marker.index(bare)
    return marker[:start], bare, marker[start + len(bare) :]


def reasoning_part(
    effort: str | None, *, preset: str, thinking: bool | None, format: Format, markers: Markers
) -> ReasoningPart:
    """Return the part for one request.  ``thinking`` is the caller's explicit switch and wins over ``effort``.

    Raises `RequestError` for an unknown effort or preset, and `GrammarError` for a custom template that is refused.
    """
    level = normal_effort(effort)
    custom = level is not None and level.startswith("custom:")
    if preset not in ("native", "structured"):
        raise RequestError(f"unknown preset {shown(preset)}", place="reasoning_preset", expected="native or structured")
    form = format.reasoning
    if form is None:
        if custom:
            _custom(level or "", None, "", format)  # still checked
        return _without_markers(level, preset)
    if thinking is False or (level == "none" and thinking is not True):
        return _off(form, level, preset, markers)
    if custom or level == "chain_of_thought" or (preset == "structured" and level in SHIPPED):
        return _templated(form, level or "", preset, format, markers)
    if level in (None, "none"):
        if thinking is None and not form.default_on:
            return ReasoningPart("absent", plan=_plan(form, level, preset, False, markers))
        mode: ReasoningMode = "required" if thinking else "optional"
        return _native(form, mode, None, level, preset, markers, explicit=thinking is True)
    return _native(form, "required", NATIVE_BUDGETS[level], level, preset, markers, explicit=True)


def _without_markers(level: str | None, preset: str) -> ReasoningPart:
    if level is None and preset == "native":
        return _NOTHING
    notes: tuple[str, ...] = ()
    if level not in (None, "none"):
        notes = (
            f"reasoning_effort={shown(level)} has no effect: this model has no reasoning markers "
            "(a family file with plain_markers opts in to <think> as text)",
        )
    return ReasoningPart(plan=ReasoningPlan(level, preset, False), notes=notes)


_NOTHING = ReasoningPart()


def _templated(form: ReasoningFormat, level: str, preset: str, format: Format, markers: Markers) -> ReasoningPart:
    """A block whose inside is a template, limited by the template and not by a token budget."""
    before_start, start, after_start = framing(form.start)
    before_end, end, lead = framing(form.end)
    end_text = None if isinstance(markers.pieces(end)[0], int) else end
    if end_text is not None:
        before_end = before_end or "\n"  # text could otherwise run on into the marker's characters
    if level.startswith("custom:"):
        template = _custom(level, end_text, before_end, format)
    else:
        template = shipped_template(level, end_text=end_text, before_end=before_end)
    after_start = after_start if template.after_start is None else template.after_start
    before_end = before_end if template.before_end is None else template.before_end
    inside = seq(Sub("reasoning", template.body), before_end, markers.node(end))
    return ReasoningPart(
        "required",
        block=Rule("reasoning", seq(before_start, markers.node(start), after_start, inside), region="reasoning"),
        continuation=Rule("thinking", seq(opt(after_start), inside), region="reasoning"),
        lead=lead if template.lead is None else template.lead,
        after_start=after_start,
        plan=_plan(form, level, preset, True, markers),
        template_kwargs=_switched_on(form, "high" if level == "chain_of_thought" else level),
    )


def _custom(level: str, end_text: str | None, before_end: str, format: Format) -> Template:
    text = level.removeprefix("custom:")
    schemas = Schemas(format.spelling, "warn")
    return custom_template(text, end_text=end_text, before_end=before_end, schemas=schemas)


def _switched_on(form: ReasoningFormat, level: str | None) -> tuple[tuple[str, Any], ...]:
    kwargs: list[tuple[str, Any]] = []
    if form.switch and form.switch.on is not None:
        kwargs.append((form.switch.name, form.switch.on))
    if form.effort_switch and level in NATIVE_BUDGETS:
        kwargs.append((form.effort_switch.name, _nearest(level or "", form.effort_switch.values)))
    return tuple(kwargs)


def _off(form: ReasoningFormat, level: str | None, preset: str, markers: Markers) -> ReasoningPart:
    switch = ((form.switch.name, form.switch.off),) if form.switch and form.switch.off is not None else ()
    return ReasoningPart(
        "none",
        block=Rule("no_reasoning", markers.node(form.empty), region="reasoning") if form.empty else None,
        continuation=markers.node(form.end),
        budget=0,
        plan=_plan(form, level, preset, False, markers),
        template_kwargs=switch,
    )


def _native(
    form: ReasoningFormat,
    mode: ReasoningMode,
    budget: int | None,
    level: str | None,
    preset: str,
    markers: Markers,
    *,
    explicit: bool,
) -> ReasoningPart:
    before_start, start, _ = framing(form.start)
    _, end, lead = framing(form.end)
    if isinstance(markers.pieces(end)[0], int):
        inner = seq(markers.any_text(), markers.node(end))
    else:
        inner = Until("thought", ANY_TEXT, Text(end))
    body = Rule("thinking", inner, region="reasoning")
    return ReasoningPart(
        mode,
        block=Rule("reasoning", seq(before_start, markers.node(start), body), region="reasoning"),
        continuation=body,
        open=seq(before_start, markers.node(start), markers.any_text()) if form.ends_by_call else None,
        lead=lead,
        budget=budget,
        plan=_plan(form, level, preset, True, markers),
        template_kwargs=_switched_on(form, level) if explicit else (),
    )


def _plan(form: ReasoningFormat, level: str | None, preset: str, applied: bool, markers: Markers) -> ReasoningPlan:
    start: Pieces = markers.pieces(framing(form.start)[1])
    opened_by = tuple(markers.pieces(part) for part in parse_pattern(form.opened_by) if isinstance(part, str))
    return ReasoningPlan(level, preset, applied, start, markers.pieces(framing(form.end)[1]), opened_by)


def _nearest(level: str, values: tuple[str, ...]) -> str:
    """The legal value nearest to ``level``: itself, else the next stronger, else the strongest.

    Values that are no levels, weakest first, are spread evenly from low to high, if there are no others.
    """
    wanted = LEVELS.index(level)
    known = [value for value in values if value in LEVELS]
    if known:
        return next((value for value in known if LEVELS.index(value) >= wanted), known[-1])
    low, high = LEVELS.index("low"), LEVELS.index("high")
    share = (min(max(wanted, low), high) - low) / (high - low)
    return values[math.ceil(share * (len(values) - 1))]
