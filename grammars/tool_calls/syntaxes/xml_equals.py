"""``<function=n>`` and ``<parameter=k>`` tags around raw text: strings without quotes, other values as JSON."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["XmlEquals"]


class XmlEquals(ParameterList):
    """The syntax of Qwen-Coder, Nemotron, Step and Seed.  The tags include one line break on each side of a value."""

    id = "xml_equals"
    call_pattern = "$name>\n$parameters</function>"
    parameter_pattern = "<parameter=$key>\n$value\n</parameter>\n"
