"""From a request's parts to its plan: reasoning, then tool calls, content or the response format, then an end.

Every part is a node, so operator precedence cannot cross part borders, and the renderer keeps rule names apart.  Each
place where the turn may end is followed by a sentinel (see `grammars.plan.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, get_args

from grammars.compose.answer import Answer
from grammars.compose.region_table import AFTER_REASONING, BEFORE_REASONING, REASONING, region_table
from grammars.compose.response import ResponsePart, response_part
from grammars.compose.tool_section import ToolSection
from grammars.json_schema.build import Policy, build, strict_error
from grammars.json_schema.document.closed_objects import close_objects
from grammars.json_schema.report.misspelt import unlisted_rows
from grammars.limits.deadline import deadline
from grammars.plan.plan import (
    SENTINELS,
    Budget,
    End,
    Entry,
    Exit,
    Plan,
    Region,
    RegionName,
    Stops,
)
from grammars.reasoning.levels import effort_note
from grammars.reasoning.part import ReasoningPart, reasoning_part
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tools.custom_tools import carries_lark, custom_input_node
from grammars.tools.normalise import listed_tools, normal_tools
from grammars.tools.parameters import arguments_schema, pointer
from grammars.tools.tool_choice import ToolChoice, normal_choice
from grammars.tree.markers import Markers
from grammars.tree.nodes import EMPTY, Node, Rule, alt, seq, token
from grammars.tree.render import render
from grammars.tree.rendered import Rendered
from grammars.values.format import Format
from grammars.values.report import ReportRow, SchemaReport
from grammars.values.tool import Tool
from grammars.values.watchers import CallStep, Watcher
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError, SchemaError, ToolError, shown

__all__ = ["Parts", "compose"]


_POLICIES: Final = get_args(Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a request, as `guided.Guide.plan` takes them."""

    response_format: Any = None
    response_place: str = "response_format"  #: where the request has it, for errors
    tools: Iterable[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None  #: None: several calls under ``auto`` alone
    reasoning_effort: str | None = None
    reasoning_preset: str = "native"
    thinking: bool | None = None
    stop: Stops = Stops()
    max_tokens: int | None = None
    schema_policy: Policy = "warn"
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise `RequestError` for settings of the wrong type: a misspelt one must not count as its default."""
        object.__setattr__(self, "tools", listed_tools(self.tools))
        if not isinstance(self.parallel_tool_calls, bool | None):
            self._refuse("parallel_tool_calls", "true, false or nothing")
        if self.thinking is not None and not isinstance(self.thinking, bool):
            self._refuse("thinking", "true, false or nothing")
        if self.schema_policy not in _POLICIES:
            self._refuse("schema_policy", " or ".join(_POLICIES))
        if not isinstance(self.stop, Stops):
            self._refuse("stop", "guided.Stops([...])")
        if self.max_tokens is not None and not _is_count(self.max_tokens):
            self._refuse("max_tokens", "an integer of 1 or more", "out of range")

    def _refuse(self, name: str, right: str, why: str = "not possible") -> NoReturn:
        raise RequestError(f"{shown(getattr(self, name))} is {why}", place=name, expected=right)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def compose(parts: Parts, *, tokens: SpecialTokens, format: Format) -> Plan:
    """Return the plan for these parts under one vocabulary and format.

    Raises `RequestError` (or a subclass) for a request that cannot be honoured, or not composed before its deadline
    (`grammars.limits.deadline`).
    """
    with deadline():
        return _composed(parts, tokens, format)


def _composed(parts: Parts, tokens: SpecialTokens, format: Format) -> Plan:
    markers = Markers(tokens)
    tools = normal_tools(parts.tools)
    choice = normal_choice(parts.tool_choice, tools)
    response = response_part(
        parts.response_format,
        spelling=format.spelling,
        policy=parts.schema_policy,
        markers=markers,
        place=parts.response_place,
    )
    if choice.mode == "required":
        response = None  # only calls are allowed, but a broken format is still reported
    reasoning = reasoning_part(
        parts.reasoning_effort,
        preset=parts.reasoning_preset,
        thinking=parts.thinking,
        format=format,
        markers=markers,
    )
    return _Composer(parts, tokens, format, markers, choice, response, reasoning, tools).plan()


def _with_frames(regions: tuple[Region, ...], part: ReasoningPart) -> tuple[Region, ...]:
    """The table for a reasoning template that has white space of its own next to the markers."""
    if part.after_start is None:
        return regions

    def framed(way: Exit) -> Exit:
        after = {REASONING: part.after_start, AFTER_REASONING: part.lead}.get(way.to)
        return way if after is None else replace(way, after=after)

    return tuple(replace(region, exits=tuple(map(framed, region.exits))) for region in regions)


@dataclass
class _Composer:
    parts: Parts
    tokens: SpecialTokens
    format: Format
    markers: Markers
    choice: ToolChoice
    response: ResponsePart | None
    reasoning: ReasoningPart
    tools: Sequence[Any]
    ends: dict[RegionName, End] = field(default_factory=dict)
    separators: set[int] = field(default_factory=set)  #: ends of text, unless a call follows
    tool_rows: dict[ReportRow, None] = field(default_factory=dict)
    written_lark: set[str] = field(default_factory=set)
    call_values: tuple[CallStep, ...] = ()
    watchers: dict[str, tuple[Watcher, ...]] = field(default_factory=dict)  #: of tools' arguments, by place

    def plan(self) -> Plan:
        section = self._section()
        grammar, entries = self._grammar(section)
        if section is not None:
            self._check_custom()
        reasoning = self.reasoning
        budgets: tuple[Budget, ...] = ()
        effort: tuple[str, ...] = ()
        if reasoning.mode in ("required", "optional") and reasoning.budget is not None:
            budgets = (Budget(1, reasoning.budget, reasoning.plan.end),)
            if reasoning.plan.effort is not None and self.parts.max_tokens is not None:
                effort = effort_note(reasoning.plan.effort, reasoning.budget, self.parts.max_tokens)
        return Plan(
            fingerprint=self.tokens.fingerprint,
            vocab_size=self.tokens.vocab_size,
            format=self.format,
            grammar=grammar,
            entries=entries,
            regions=self._regions(section),
            ends=tuple(self.ends.values()),
            budgets=budgets,
            reasoning=reasoning.plan,
            response=self.response.plan if self.response else None,
            tools=tuple(self.choice.tools),
            tool_choice="named" if self.choice.named else self.choice.mode,
            tool_report=SchemaReport(tuple(self.tool_rows)),
            stops=self.parts.stop,
            watchers=self.response.watchers if self.response else (),
            call_values=self._watched_steps(),
            template_kwargs=reasoning.template_kwargs,
            max_tokens=self.parts.max_tokens,
            ignored=self.parts.ignored,
            notes=(*reasoning.notes, *effort, *self._schema_notes()),
            anchors=self._anchors(),
            python_type=self.response.python_type if self.response else None,
        )

    def _schema_notes(self) -> tuple[str, ...]:
        rows = self.response.plan.report.rows if self.response else ()
        report = SchemaReport((*rows, *self.tool_rows))
        return (*report.unknown_formats, *report.misspelt)

    def _anchors(self) -> tuple[tuple[str, int], ...]:
        form = self.format.tool_calls
        if form is None or self.choice.mode == "none":
            return ()
        pairs = ((anchor.closes, self.tokens.id_of(anchor.token)) for anchor in form.anchors)
        return tuple((tag, token_id) for tag, token_id in pairs if token_id is not None)

    # -- the grammar

    def _regions(self, section: ToolSection | None) -> tuple[Region, ...]:
        regions = region_table(
            self.format,
            self.markers,
            section,
            reasons=self.reasoning.mode != "absent",
            name=RegionName.CONTENT if self.response is None else RegionName.RESPONSE,
        )
        return _with_frames(regions, self.reasoning)

    def _section(self) -> ToolSection | None:
        if self.choice.mode == "none":
            return None
        form = self.format.tool_calls
        if form is None:
            raise ToolError(
                "the tool-call format of this model is not known",
                place="tools",
                hint="pass a format with tool_calls, or a model whose chat template renders them",
            )
        self.call_values = syntax(form.syntax).value_table(form, self.choice.tools, self.markers)
        parallel = self.parts.parallel_tool_calls
        if parallel is None:  # a model that must call would write the same call again and again
            parallel = self.choice.mode == "auto"
        section = ToolSection(form, self.choice.tools, self.markers, self._arguments_schema, parallel)
        for tool in self.choice.tools:
            self._add_rows(tool, section)
        return section

    def _add_rows(self, tool: Tool, section: ToolSection) -> None:
        """Add what the Python type of a tool and the call syntax say of it."""
        tool_rows = SchemaReport((*tool.rows, *unlisted_rows(tool.parameters))).below(pointer(tool))
        report = SchemaReport((*section.rows(tool), *tool_rows.rows))
        if report.relaxed and (tool.strict or self.parts.schema_policy == "strict"):
            raise strict_error(report)
        self.tool_rows |= dict.fromkeys(report.rows)

    def _arguments_schema(self, schema: Any, place: str) -> Node:
        """Return the node of a tool's arguments, or of one; ``place`` is its pointer, ``/tools/NAME/...``."""
        if carries_lark(schema):
            self.written_lark.add(place)
            return custom_input_node(schema, self.format.spelling_of_calls.key_separator)
        strict = any(tool.strict and place.startswith(pointer(tool)) for tool in self.choice.tools)
        policy: Policy = "strict" if strict else self.parts.schema_policy
        try:
            watch = any(step.place == place for step in self.call_values)
            built = build(
                close_objects(schema),
                spelling=self.format.spelling_of_calls,
                policy=policy,
                watch=watch,
                of_python=True,
            )
        except SchemaError as error:  # of several tools the caller must know which
            where = place + error.pointer
            raise SchemaError(
                error.message,
                pointer=where,
                keyword=error.keyword,
                place=where,
                expected=error.expected,
                hint=error.hint,
                report=error.report and error.report.below(place),
            ) from None
        if built.watchers:
            self.watchers[place] = built.watchers
        self.tool_rows |= dict.fromkeys(built.report.below(place).rows)
        return built.node

    def _watched_steps(self) -> tuple[CallStep, ...]:
        """The table of the values in calls, with their watchers; () where there are none."""
        if not self.watchers:
            return ()
        return tuple(replace(step, watchers=self.watchers.get(step.place, ())) for step in self.call_values)

    def _check_custom(self) -> None:
        """Raise for a recursive grammar that the call syntax cannot write: it would be ignored otherwise."""
        for tool in self.choice.tools:
            if (
                tool.kind == "custom"
                and carries_lark(arguments_schema(tool))
                and pointer(tool) not in self.written_lark
            ):
                raise ToolError(
                    "this model writes arguments outside JSON, which cannot carry a recursive grammar",
                    place=f"tools.{tool.name}.format",
                    hint="use a regex or a grammar without recursion",
                )

    def _grammar(self, section: ToolSection | None) -> tuple[Rendered, tuple[Entry, ...]]:
        part = self.reasoning
        writer = self._answer(section)
        form = self.format.reasoning
        opening, closed = self.format.content.opening, form.closed_lead if form is not None else ""
        if part.mode == "absent":
            first = closed or opening
            return render({"fresh": writer.node(first)}), (Entry("fresh", BEFORE_REASONING, first),)
        answer = reasoned = Rule("answer", writer.node(opening))
        if part.mode in ("required", "optional"):
            reasoned = Rule("answer", writer.node(part.lead, after_reasoning=True))
        fresh, inside = seq(part.block or EMPTY, reasoned), seq(part.continuation or EMPTY, reasoned)
        if section is not None and part.open is not None:
            calls = writer.calls()
            fresh, inside = alt(fresh, seq(part.open, calls)), alt(inside, seq(self.markers.any_text(), calls))
        if part.mode == "optional":
            fresh = alt(fresh, answer)
        entries = (
            Entry("fresh", BEFORE_REASONING, opening),
            Entry("inside", REASONING),
            Entry("after", AFTER_REASONING, closed),
        )
        after = Rule("answer", writer.node(closed))
        return render({"fresh": fresh, "inside": inside, "after": after}), entries

    def _answer(self, section: ToolSection | None) -> Answer:
        openings = {self.markers.pieces(trigger)[0] for trigger in section.triggers} if section else set()
        ends = set(self._end_ids(RegionName.CONTENT))
        opening_ends = {i for i in ends if i in openings}
        must_call = self.choice.mode == "required"
        if self.response is None and not must_call and opening_ends < ends:
            self.separators = opening_ends - self._asked_ends()
        return Answer(
            self.format.content,
            self.markers,
            section,
            self.response,
            self._end,
            must_call=must_call,
            ends_by_trigger=bool(opening_ends),
            separators=tuple(sorted(self.separators)),
        )

    # -- ends

    def _end(self, region: RegionName) -> Node:
        if region not in self.ends:
            sentinel = self.tokens.vocab_size + len(self.ends)
            assert len(self.ends) < SENTINELS
            self.ends[region] = End(sentinel, region, self._end_ids(region))
        return token(self.ends[region].sentinel, f"end of {region}")

    def _end_ids(self, region: RegionName) -> tuple[int, ...]:
        named = self.format.ends
        not_ends = {self.tokens.id_of(text) for text in named.not_ends}
        of_calls = {self.tokens.id_of(text) for text in named.calls} - {None}
        of_content = {self.tokens.id_of(text) for text in named.content} - {None}
        if region is RegionName.TOOL_CALLS and of_calls:
            ids = of_calls
        else:
            ids = (set(self.tokens.end_ids) | of_content) - (of_calls - of_content)
        if region is RegionName.CONTENT:
            ids = ids - self.separators
        return tuple(sorted({i for i in ids - not_ends if i is not None} | self._asked_ends()))

    def _asked_ends(self) -> set[int]:
        """The caller's own ends (`add_end`), and special tokens that the request stops at."""
        return {end.id for end in self.tokens.ends if "request" in end.sources} | self._stop_tokens()

    def _stop_tokens(self) -> set[int]:
        """Special tokens that the request stops at: free text cannot contain them, so they are end tokens."""
        stops = self.parts.stop
        named = {*stops.ids, *(self.tokens.id_of(text) for text in stops.strings)}
        return {i for i in named if i in self.tokens.marker_ids}
