"""``<function=n>`` and ``<parameter=k>`` tags around raw text: strings without quotes, other values as JSON."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["XmlEquals"]


class XmlEquals(ParameterList):
    """Qwen-Coder, Nemotron, Step, Seed.  The line breaks around a value belong to the tags, one on each side."""

    id = "xml_equals"
    call_pattern = "$name>\n$parameters</function>"
    parameter_pattern = "<parameter=$key>\n$value\n</parameter>\n"
