"""The section of tool calls of one plan: grammar nodes around a syntax's calls, and what opens and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grammars.formats.format import ToolCallFormat
from grammars.markers import Markers
from grammars.tool_calls import syntax
from grammars.tool_calls.base import SchemaNode
from grammars.tools import Tool
from grammars.tree import Node, Rule, alt, repeat, seq

__all__ = ["ToolSection"]


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
        """Texts any of which begins a section."""
        return syntax(self.form.syntax).triggers(self.form, self.tools)

    @property
    def end_marker(self) -> str:
        """The marker after which text is no longer a call; empty where only the end of the turn tells."""
        marker = (self.form.section_end if self.form.section_start else self.form.call_end).strip()
        return marker if any(char not in "]})" for char in marker) else ""

    @property
    def max_calls(self) -> int | None:
        return self.form.max_calls if self.parallel else 1

    def node(self, opened: str = "") -> Node:
        """A whole section; ``opened`` is the part of its beginning that has been written already."""
        first = self._opened(opened)
        calls = self._calls(first)
        most = None if self.max_calls is None else self.max_calls - 1
        more = repeat(seq(self.markers.node(self.form.between), self._calls(self.form)), 0, most)
        end = self.markers.node(self.form.section_end)
        return Rule("calls", seq(self.markers.node(first.section_start), calls, more, end), region="tool_calls")

    def _opened(self, opened: str) -> ToolCallFormat:
        section, call = self.form.section_start, self.form.call_start
        if not (section + call).startswith(opened):
            raise ValueError(f"{opened!r} does not begin a section of calls")
        cut = min(len(opened), len(section))
        return replace(self.form, section_start=section[cut:], call_start=call[len(opened) - cut :])

    def _calls(self, form: ToolCallFormat) -> Node:
        syntax_module = syntax(form.syntax)
        return alt(
            *(
                Rule(f"call_{tool.name}", syntax_module.call(form, tool, self.markers, self.schema))
                for tool in self.tools
            )
        )
