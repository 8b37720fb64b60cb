"""``START [{...}, {...}] END``: all calls of a turn in one JSON array."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.section import opening_marker
from grammars.tool_calls.syntaxes.json_body import JsonSyntax, json_body, name_openings
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["JsonArray"]


class JsonArray(JsonSyntax):
    """The syntax of Mistral, Command R, Nemotron and others.

    ``section_start`` ends with the bracket, ``between`` is the comma.  Without a marker, the bracket and the beginning
    of the first object, a tool's name included, together open the section.
    """

    id = "json_array"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        marker = opening_marker(form)
        if marker.strip(" \t\r\n[{"):
            return (marker,)
        return name_openings(form, json_body(form).pattern, tools)
