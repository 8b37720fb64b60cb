"""``{"name": N, "parameters": {...}}`` without any tag: the object itself is what tells a call from text."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.values.format import ToolCallFormat
from grammars.tool_calls.syntaxes.json_body import JsonSyntax, json_body
from grammars.tool_calls.pattern import parse_pattern
from grammars.values.tool import Tool

__all__ = ["BareJson"]


class BareJson(JsonSyntax):
    """Llama 3.1.  An answer that begins as a call does is a call."""

    id = "bare_json"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        first = parse_pattern(json_body(form).pattern)[0]
        return (form.section_start + form.call_start + (first if isinstance(first, str) else "{"),)
