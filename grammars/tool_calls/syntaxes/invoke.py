"""``<invoke name="n">`` and ``<parameter name="k">`` tags around raw text, some with a flag for the value's type."""

from __future__ import annotations

from grammars.tool_calls.arguments.parameter_list import ParameterList

__all__ = ["Invoke"]


class Invoke(ParameterList):
    """MiniMax, newer DeepSeek and Cohere.  With a flag in the tag even a union of types has one spelling."""

    id = "invoke"
    call_pattern = '<invoke name="$name">\n$parameters</invoke>\n'
    parameter_pattern = '<parameter name="$key">$value</parameter>\n'
