"""Separate tags around the key and the value of each argument; strings raw, other values as JSON."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["KeyTags"]


class KeyTags(ParameterList):
    """The syntax of GLM, Kimi K3 and others that write arguments between markers."""

    id = "key_tags"
    call_pattern = "$name\n$parameters"
    parameter_pattern = "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n"
