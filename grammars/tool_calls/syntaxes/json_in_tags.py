"""``TAG {"name": N, "arguments": {...}} END``: one JSON object a call, between tags."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.values.format import ToolCallFormat
from grammars.tool_calls.syntaxes.json_body import JsonSyntax
from grammars.tool_calls.section import opening_marker
from grammars.values.tool import Tool

__all__ = ["JsonInTags"]


class JsonInTags(JsonSyntax):
    """Qwen, Hermes and many more.  The tag opens the section wherever it stands."""

    id = "json_in_tags"

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (opening_marker(form),)
