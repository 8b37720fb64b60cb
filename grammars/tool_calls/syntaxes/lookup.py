"""The table of all tool-call syntaxes by id."""

from __future__ import annotations

from collections.abc import Mapping

from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.protocol import ToolSyntax
from grammars.tool_calls.syntaxes.gemma import Gemma
from grammars.tool_calls.syntaxes.harmony import Harmony
from grammars.tool_calls.syntaxes.json_body import JsonSyntax
from grammars.tool_calls.syntaxes.name_then_json import NameThenJson
from grammars.tool_calls.syntaxes.pythonic import Pythonic
from special_tokens.errors import ModelError

__all__ = ["SYNTAXES", "syntax"]

#: All syntaxes by id.
SYNTAXES: Mapping[str, ToolSyntax] = {
    module.id: module
    for module in (
        JsonSyntax("json_in_tags"),
        JsonSyntax("bare_json"),
        JsonSyntax("json_array"),
        NameThenJson(),
        # Qwen-Coder, Nemotron, Step and Seed; MiniMax, newer DeepSeek and Cohere; GLM and Kimi K3.
        ParameterList("xml_equals", "$name>\n$parameters</function>", "<parameter=$key>\n$value\n</parameter>\n"),
        ParameterList("invoke", '<invoke name="$name">\n$parameters</invoke>\n',
                      '<parameter name="$key">$value</parameter>\n'),
        ParameterList("key_tags", "$name\n$parameters", "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n"),
        Pythonic("pythonic", "$name($parameters)", "$key=$value"),
        Gemma("gemma", "$name{$parameters}", "$key:$value"),
        Harmony(),
    )
}  # fmt: skip


def syntax(id: str) -> ToolSyntax:
    """The syntax with this id; raises `ModelError` naming the known ids."""
    tool_syntax = SYNTAXES.get(id)
    if tool_syntax is None:
        raise ModelError(
            f"there is no tool-call syntax {id!r}", place="tool_calls.syntax", expected=", ".join(SYNTAXES)
        )
    return tool_syntax
