"""The key and the value of each argument in tags of their own; strings raw, other values as JSON."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["KeyTags"]


class KeyTags(ParameterList):
    """GLM, Kimi K3, and whatever else writes arguments between markers."""

    id = "key_tags"
    call_pattern = "$name\n$parameters"
    parameter_pattern = "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n"
