"""One request to one plan: reasoning, then tool calls or content or the response format, then an end.

Every part is a node of its own, so precedence cannot leak between parts, and the renderer keeps their rule names
apart.  Each place where the turn may end is followed by a sentinel (see `grammars.plan`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from grammars.formats.format import Format
from grammars.json_schema import Policy, build
from grammars.json_schema.closed import closed
from grammars.markers import Markers
from grammars.plan import (
    SENTINELS,
    Budget,
    End,
    Entry,
    Exit,
    Plan,
    QuoteSpan,
    Region,
    RegionName,
    Stops,
)
from grammars.reasoning.part import ANY_TEXT, ReasoningPart, framing, reasoning_part
from grammars.render import Rendered, render
from grammars.response import ResponsePart, response_part
from grammars.tool_calls import syntax
from grammars.tool_section import ToolSection
from grammars.tool_sources import Choice, normal_choice, normal_tools
from grammars.tree import (
    EMPTY,
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Rule,
    RuleDef,
    Text,
    Until,
    alt,
    seq,
    token,
)
from special_tokens import SpecialTokens
from special_tokens.errors import ToolError

__all__ = ["Parts", "compose"]

_NOT_BLANK = Pattern(r"(?s:\s*\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a request, as `guided.Guide.plan` takes them."""

    response_format: Any = None
    tools: Iterable[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool = True
    reasoning_effort: str | None = None
    reasoning_preset: str = "native"
    thinking: bool | None = None
    stop: Stops = Stops()
    max_tokens: int | None = None
    schema_policy: Policy = "warn"
    ignored: tuple[str, ...] = ()


def compose(parts: Parts, *, tokens: SpecialTokens, format: Format) -> Plan:
    """The plan for these parts under one vocabulary and format.

    Raises `RequestError` (or its subclasses) for a request that cannot be honoured as it stands.
    """
    markers = Markers(tokens)
    tools = normal_tools(parts.tools)
    choice = normal_choice(parts.tool_choice, tools)
    response = None
    if choice.mode != "required":
        response = response_part(parts.response_format, spelling=format.spelling, policy=parts.schema_policy)
    elif parts.response_format is not None:
        response_part(parts.response_format, spelling=format.spelling, policy=parts.schema_policy)  # still checked
    reasoning = reasoning_part(
        parts.reasoning_effort,
        preset=parts.reasoning_preset,
        thinking=parts.thinking,
        format=format,
        markers=markers,
    )
    return _Composer(parts, tokens, format, markers, choice, response, reasoning, tools).plan()


@dataclass
class _Composer:
    parts: Parts
    tokens: SpecialTokens
    format: Format
    markers: Markers
    choice: Choice
    response: ResponsePart | None
    reasoning: ReasoningPart
    tools: Sequence[Any]
    ends: dict[RegionName, End] = field(default_factory=dict)

    def plan(self) -> Plan:
        section = self._section()
        grammar, entries = self._grammar(section)
        regions = self._regions(section)
        reasoning = self.reasoning
        budgets: tuple[Budget, ...] = ()
        if reasoning.mode in ("required", "optional") and reasoning.budget is not None:
            budgets = (Budget(1, reasoning.budget, reasoning.plan.end),)
        return Plan(
            fingerprint=self.tokens.fingerprint,
            vocab_size=self.tokens.vocab_size,
            format=self.format,
            grammar=grammar,
            entries=entries,
            regions=regions,
            ends=tuple(self.ends.values()),
            budgets=budgets,
            reasoning=reasoning.plan,
            response=self.response.plan if self.response else None,
            tools=tuple(self.choice.tools),
            tool_choice="named" if self.choice.named else self.choice.mode,
            stops=self.parts.stop,
            template_kwargs=reasoning.template_kwargs,
            max_tokens=self.parts.max_tokens,
            ignored=self.parts.ignored,
            notes=reasoning.notes,
            python_type=self.response.python_type if self.response else None,
        )

    # -- the grammar

    def _section(self) -> ToolSection | None:
        if self.choice.mode == "none":
            return None
        form = self.format.tool_calls
        if form is None:
            raise ToolError(
                "no way of writing tool calls is known for this model",
                place="tools",
                hint="pass a format with tool_calls, or a model whose chat template renders them",
            )
        return ToolSection(
            form, self.choice.tools, self.markers, self._arguments_schema, self.parts.parallel_tool_calls
        )

    def _arguments_schema(self, schema: Any, place: str) -> Node:
        return build(closed(schema), spelling=self.format.spelling, policy=self.parts.schema_policy).node

    def _grammar(self, section: ToolSection | None) -> tuple[Rendered, tuple[Entry, ...]]:
        part = self.reasoning
        answer = Rule("answer", self._answer(section, after_reasoning=False))
        if part.mode == "absent":
            return render({"fresh": answer}), (Entry("fresh", 0),)
        reasoned = answer
        if part.mode in ("required", "optional"):
            reasoned = Rule("answer", self._answer(section, after_reasoning=True))
        block = part.block or EMPTY
        fresh = alt(seq(block, reasoned), answer) if part.mode == "optional" else seq(block, reasoned)
        starts = {"fresh": fresh, "inside": seq(part.rest or EMPTY, reasoned), "after": answer}
        entries = (Entry("fresh", 0), Entry("inside", 1), Entry("after", 2))
        return render(starts), entries

    def _answer(self, section: ToolSection | None, *, after_reasoning: bool) -> Node:
        lead = self.reasoning.lead if after_reasoning else ""
        options: list[Node] = []
        if self.response is not None and self.choice.mode != "required":
            node = Rule("response", self.response.node, region="response")
            start = self.markers.node(self.format.content.start)
            options.append(seq(lead, start, node, self._content_end(RegionName.RESPONSE)))
        if section is not None and (self.response is not None or self.choice.mode == "required"):
            gap = self.markers.node(section.form.gap_without_text)
            options.append(seq(lead, gap, section.node(), self._end(RegionName.TOOL_CALLS)))
        elif section is not None:
            options.append(self._text_or_calls(section, after_reasoning))
        elif self.response is None:
            options.append(self._text(after_reasoning))
        return alt(*options)

    def _text(self, required: bool) -> Node:
        text = _NOT_BLANK if required else ANY_TEXT
        start = self.markers.node(self.format.content.start)
        return seq(start, Rule("content", text, region="content"), self._content_end())

    def _text_or_calls(self, section: ToolSection, required: bool) -> Node:
        """Free text that a trigger may end, calls, and where the format has it text again."""
        literal = [t for t in section.triggers if not isinstance(self.markers.pieces(t)[0], int)]
        whole: Node = _NOT_BLANK if required else ANY_TEXT
        if literal:
            whole = Lexeme("content", And((whole, Not(_containing(literal, anywhere=section.form.text_before)))))
        text = Rule("content", whole, region="content")
        options = [seq(self.markers.node(self.format.content.start), text, self._content_end())]
        options += [seq(lead, after) for lead, after in self._ways_into(section)]
        return alt(*options)

    def _ways_into(self, section: ToolSection) -> Iterable[tuple[Node, Node]]:
        """Pairs of text before calls and the calls."""
        if not section.form.text_before:
            yield self.markers.node(section.form.gap_without_text), self._calls_then_end(section, "")
            return
        literal: list[str] = []
        tokens = False
        for trigger in section.triggers:
            if isinstance(self.markers.pieces(trigger)[0], int):
                tokens = True
            else:
                literal.append(trigger)
        if tokens:
            yield Rule("lead", ANY_TEXT, region="content"), self._calls_then_end(section, "")
        for trigger in literal:
            yield Until("lead", ANY_TEXT, Text(trigger)), self._calls_then_end(section, trigger)

    def _calls_then_end(self, section: ToolSection, opened: str) -> Node:
        end = self._end(RegionName.TOOL_CALLS)
        calls = section.node(opened)
        if not section.form.text_after or section.max_calls == 1:
            return seq(calls, end)
        if any(not isinstance(self.markers.pieces(t)[0], int) for t in section.triggers):
            return seq(calls, end)  # text that excludes a textual trigger is written by `_ways_into` only
        text = Rule("content", ANY_TEXT, region="content")
        more = alt(end, seq(text, alt(self._end(RegionName.CONTENT), seq(section.node(), Ref("more")))))
        return seq(calls, Group("after", Ref("more"), {"more": RuleDef(more)}))

    # -- ends

    def _content_end(self, region: RegionName = RegionName.CONTENT) -> Node:
        return seq(self.markers.node(self.format.content.end), self._end(region))

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
        return tuple(sorted({i for i in ids - not_ends if i is not None} | self._stop_tokens()))

    def _stop_tokens(self) -> set[int]:
        """Special tokens that the request stops at: free text has none of them, so they are ends of their own."""
        stops = self.parts.stop
        named = {*stops.ids, *(self.tokens.id_of(text) for text in stops.strings)}
        return {i for i in named if i in self.tokens.marker_ids}

    # -- the table of regions

    def _regions(self, section: ToolSection | None) -> tuple[Region, ...]:
        """0: before reasoning, or the answer itself; 1: reasoning; 2: the answer after it; 3: calls; 4: after calls."""
        name = RegionName.CONTENT if self.response is None else RegionName.RESPONSE
        into_calls, calls = self._region_of_calls(section)
        into_reasoning: tuple[Exit, ...] = ()
        reasoning = Region(RegionName.REASONING)
        form = self.format.reasoning
        if form is not None and self.reasoning.mode != "absent":
            before, start, after = framing(form.start)
            into_reasoning = (Exit(self.markers.pieces(start), 1, before, after),)
            before, end, after = framing(form.end)
            reasoning = Region(RegionName.REASONING, (Exit(self.markers.pieces(end), 2, before, after),))
        opening = Region(name, into_reasoning + into_calls)
        return (opening, reasoning, Region(name, into_calls), calls, Region(RegionName.CONTENT, into_calls))

    def _region_of_calls(self, section: ToolSection | None) -> tuple[tuple[Exit, ...], Region]:
        """What leads into calls, and the region of calls itself."""
        if section is None:
            return (), Region(RegionName.TOOL_CALLS)
        gap = section.form.gap or section.form.gap_without_text
        into = tuple(Exit(self.markers.pieces(trigger), 3, before=gap) for trigger in section.triggers)
        out = (Exit(self.markers.pieces(section.end_marker), 4),) if section.end_marker else ()
        quotes = tuple(
            QuoteSpan(self.markers.pieces(q.open), self.markers.pieces(q.close), q.escape)
            for q in syntax(section.form.syntax).quotes(section.form)
        )
        return into, Region(RegionName.TOOL_CALLS, out, quotes)


def _containing(texts: Sequence[str], *, anywhere: bool) -> Node:
    """Text that contains one of ``texts``, or begins with one."""
    options = "|".join(map(re.escape, texts))
    return Pattern(f"(?s:.*)(?:{options})(?s:.*)" if anywhere else f"(?:{options})(?s:.*)")
