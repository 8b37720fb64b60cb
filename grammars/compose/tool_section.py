"""The section of tool calls of one plan: its grammar, the texts that open it and the marker that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.pattern import Hole, parse_pattern
from grammars.tool_calls.protocol import SchemaNode
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, alt, repeat, seq
from grammars.values.format import Format, ToolCallFormat
from grammars.values.report import ReportRow
from grammars.values.tool import Tool
from special_tokens.errors import ModelError, shown

__all__ = ["ToolSection", "with_text_after_calls"]

_LEAVE_OUT = "leave text_after_calls out"


def with_text_after_calls(format: Format, allowed: bool | None) -> Format:
    """Return the format in which text may follow calls, or may not; None leaves the family's own habit.

    Raises `ModelError` for a model whose calls nothing but the end of the turn ends, or whose text has a frame.
    """
    if allowed is None:
        return format
    form, place = format.tool_calls, "text_after_calls"
    if not isinstance(allowed, bool):
        raise ModelError(f"{shown(allowed)} is not a switch", place=place, expected="true, false or nothing")
    if form is None:
        raise ModelError("the tool-call format of this model is not known", place=place, hint=_LEAVE_OUT)
    if allowed and (format.content.start or not _end_marker(form)):
        raise ModelError("this model ends its turn after a call", place=place, expected="false", hint=_LEAVE_OUT)
    return replace(format, tool_calls=replace(form, text_after=allowed))


@dataclass(frozen=True)
class ToolSection:
    """The calls that one plan allows.  ``parallel=False`` limits a turn to one call."""

    form: ToolCallFormat
    tools: Sequence[Tool]
    markers: Markers
    schema: SchemaNode
    parallel: bool = True

    @property
    def triggers(self) -> tuple[str, ...]:
        """The texts that may begin a section."""
        return syntax(self.form.syntax).triggers(self.form, self.tools)

    @property
    def triggers_after_text(self) -> tuple[str, ...]:
        """The texts that end an answer and begin a section, where only a mark between both shows that one begins."""
        is_mark = self.form.gap.strip() and not self.form.section_start + self.form.call_start
        return tuple(self.form.gap + text for text in self.triggers) if is_mark else ()

    @property
    def opens_at_start(self) -> bool:
        """Whether calls open with characters, and only at the start of an answer: later these characters are text."""
        plain = all(isinstance(piece, str) for trigger in self.triggers for piece in self.markers.pieces(trigger))
        return plain and (not self.form.text_before or bool(self.triggers_after_text))

    def rows(self, tool: Tool) -> tuple[ReportRow, ...]:
        """Rows for argument values that this call syntax cannot write, and for keywords that it does not enforce."""
        module = syntax(self.form.syntax)
        return module.unwritable(self.form, tool, self.markers) if isinstance(module, ParameterList) else ()

    @property
    def end_marker(self) -> str:
        """The marker that ends the section; empty where only the end of the turn does."""
        return _end_marker(self.form)

    @property
    def max_calls(self) -> int | None:
        return self.form.max_calls if self.parallel else 1

    @cached_property
    def node(self) -> Node:
        """A whole section."""
        calls = alt(*(self._call(tool) for tool in self.tools))
        most = None if self.max_calls is None else self.max_calls - 1
        more = repeat(seq(self.markers.node(self.form.between), calls), 0, most)
        start, end = self.markers.node(self.form.section_start), self.markers.node(self.form.section_end)
        return Rule("calls", seq(start, calls, more, end), region="tool_calls")

    def _call(self, tool: Tool) -> Node:
        node = syntax(self.form.syntax).call(self.form, tool, self.markers, self.schema)
        return Rule(f"call_{tool.name}", node)


def _end_marker(form: ToolCallFormat) -> str:
    if not form.section_start and _ends_by_number(form):
        return ""
    marker = (form.section_end if form.section_start else form.call_end).strip()
    return marker if any(char not in "]})" for char in marker) else ""


def _ends_by_number(form: ToolCallFormat) -> bool:
    """Whether the text that closes a call contains its number (``</call_1>``), and so is different each time."""
    pattern = parse_pattern(str(form.option("call", "")))
    return Hole("arguments") in pattern and Hole("index") in pattern[pattern.index(Hole("arguments")) :]
