"""The ways in which models write tool calls, one module each, found by id."""

from __future__ import annotations

from collections.abc import Mapping

from grammars.tool_calls.bare_json import BareJson
from grammars.tool_calls.base import ToolSyntax
from grammars.tool_calls.gemma import Gemma
from grammars.tool_calls.harmony import Harmony
from grammars.tool_calls.invoke import Invoke
from grammars.tool_calls.json_array import JsonArray
from grammars.tool_calls.json_in_tags import JsonInTags
from grammars.tool_calls.key_tags import KeyTags
from grammars.tool_calls.name_then_json import NameThenJson
from grammars.tool_calls.pythonic import Pythonic
from grammars.tool_calls.xml_equals import XmlEquals
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
    """The syntax called ``id``; raises `ModelError` naming the known ones."""
    found = SYNTAXES.get(id)
    if found is None:
        raise ModelError(
            f"there is no tool-call syntax {id!r}", place="tool_calls.syntax", expected=", ".join(SYNTAXES)
        )
    return found
