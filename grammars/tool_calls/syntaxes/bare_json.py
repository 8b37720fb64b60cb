"""``{"name": N, "parameters": {...}}`` without tags: the object itself distinguishes a call from text."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.syntaxes.json_body import JsonSyntax, name_openings
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["BareJson"]


class BareJson(JsonSyntax):
    """The syntax of Llama 3.1.  An answer that begins like a call of one of the tools is a call."""

    id = "bare_json"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return name_openings(form, tools)
