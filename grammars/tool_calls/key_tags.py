"""The key and the value of each argument in tags of their own; strings raw, other values as JSON."""

from __future__ import annotations

from grammars.formats.format import ToolCallFormat
from grammars.tool_calls.parameter_list import ParameterList
from grammars.tool_calls.values import JsonValues, RawValues, ValueCoding, Words

__all__ = ["KeyTags"]


class KeyTags(ParameterList):
    """GLM, Kimi K3, and whatever else writes arguments between markers.  The option ``strings`` may be ``json``."""

    id = "key_tags"
    call_pattern = "$name\n$parameters"
    parameter_pattern = "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n"

    def coding(self, form: ToolCallFormat) -> ValueCoding:
        words = Words(form.option("words", ""))
        return JsonValues(words) if form.option("strings") == "json" else RawValues(words)
