"""``{"name": N, "parameters": {...}}`` without tags: the object itself distinguishes a call from text."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.pattern import parse_pattern
from grammars.tool_calls.syntaxes.json_body import JsonSyntax, json_body
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["BareJson"]


class BareJson(JsonSyntax):
    """The syntax of Llama 3.1.  An answer that begins like a call is a call."""

    id = "bare_json"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        first = parse_pattern(json_body(form).pattern)[0]
        return (form.section_start + form.call_start + (first if isinstance(first, str) else "{"),)
