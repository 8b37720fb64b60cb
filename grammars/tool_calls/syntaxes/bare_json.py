"""``{"name": N, "parameters": {...}}`` without tags: the object itself distinguishes a call from text."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.syntaxes.json_body import JsonSyntax, json_body, name_openings
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["BareJson"]


class BareJson(JsonSyntax):
    """The syntax of Llama 3.1.  An answer that begins like a call of one of the tools is a call."""

    id = "bare_json"

    def bodies(self, form: ToolCallFormat) -> tuple[str, ...]:
        """The object of the template, and with a type in front, as Llama writes it and as tools are shown to it."""
        body = json_body(form).pattern
        return (body,) if '"type"' in body else (body, '{"type": "function", ' + body.removeprefix("{"))

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return tuple(text for body in self.bodies(form) for text in name_openings(form, body, tools))
