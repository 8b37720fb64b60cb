"""The table of all tool-call syntaxes by id."""

from __future__ import annotations

from collections.abc import Mapping

from grammars.tool_calls.protocol import ToolSyntax
from grammars.tool_calls.syntaxes.bare_json import BareJson
from grammars.tool_calls.syntaxes.gemma import Gemma
from grammars.tool_calls.syntaxes.harmony import Harmony
from grammars.tool_calls.syntaxes.invoke import Invoke
from grammars.tool_calls.syntaxes.json_array import JsonArray
from grammars.tool_calls.syntaxes.json_in_tags import JsonInTags
from grammars.tool_calls.syntaxes.key_tags import KeyTags
from grammars.tool_calls.syntaxes.name_then_json import NameThenJson
from grammars.tool_calls.syntaxes.pythonic import Pythonic
from grammars.tool_calls.syntaxes.xml_equals import XmlEquals
from special_tokens.errors import ModelError

__all__ = ["SYNTAXES", "syntax"]

#: All syntaxes by id.
SYNTAXES: Mapping[str, ToolSyntax] = {
    module.id: module
    for module in (
        JsonInTags(),
        BareJson(),
        JsonArray(),
        NameThenJson(),
        XmlEquals(),
        Invoke(),
        KeyTags(),
        Pythonic(),
        Gemma(),
        Harmony(),
    )
}


def syntax(id: str) -> ToolSyntax:
    """The syntax with this id; raises `ModelError` naming the known ids."""
    tool_syntax = SYNTAXES.get(id)
    if tool_syntax is None:
        raise ModelError(
            f"there is no tool-call syntax {id!r}", place="tool_calls.syntax", expected=", ".join(SYNTAXES)
        )
    return tool_syntax
