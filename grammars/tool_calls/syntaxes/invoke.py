"""``<invoke name="n">`` and ``<parameter name="k">`` tags around raw text; some families add a type flag."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["Invoke"]


class Invoke(ParameterList):
    """The syntax of MiniMax, newer DeepSeek and Cohere.  A type flag makes even a union of types unambiguous."""

    id = "invoke"
    call_pattern = '<invoke name="$name">\n$parameters</invoke>\n'
    parameter_pattern = '<parameter name="$key">$value</parameter>\n'
