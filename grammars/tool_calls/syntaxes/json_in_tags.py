"""``TAG {"name": N, "arguments": {...}} END``: one JSON object per call, between tags."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.section import opening_marker
from grammars.tool_calls.syntaxes.json_body import JsonSyntax
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["JsonInTags"]


class JsonInTags(JsonSyntax):
    """The syntax of Qwen, Hermes and many others.  The tag opens the section wherever it occurs."""

    id = "json_in_tags"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (opening_marker(form),)
