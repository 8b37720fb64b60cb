"""``START name SEP {...} END``: the name, a separator, the arguments as one JSON object.

The option ``call`` is the pattern of a call between the markers, for example ``$name[ARGS]$arguments`` or
``functions.$name:$index<|tool_call_argument_begin|>$arguments``; holes ``$name``, ``$arguments``, ``$id`` and
``$index`` (counted from the option ``index_base``, 0 by default).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammars.tool_calls.json_reader import stream_value
from grammars.tool_calls.names import check_name, hole_nodes, hole_texts
from grammars.tool_calls.pattern import CallPattern, Hole, fill, parse_pattern, pattern_text
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import Reader, ReadStep
from grammars.tool_calls.section import SectionReader, opening_marker, wrapped
from grammars.tool_calls.value_table import lead_texts, until, whole_arguments
from grammars.tools.parameters import arguments_schema, arguments_text, ordered, pointer
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, seq
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep

__all__ = ["NameThenJson"]

_DEFAULT = "$name\n$arguments"
_CALL_ID = "[CALL_ID]"  # Mistral's models may write an id after a name, also where their template writes none


class NameThenJson:
    """The syntax of DeepSeek, Kimi, newer Mistral and functionary.

    The opening marker begins a section; without one, each tool's name does.
    """

    id = "name_then_json"

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        return (Quote('"', '"', "\\"),)

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        if (form.section_start + form.call_start).strip():
            return (opening_marker(form),)
        begun = pattern_text(until(parse_pattern(form.option("call", _DEFAULT)), "arguments"))
        return tuple(fill(begun, hole_texts(form, tool.name, 0)) for tool in tools)

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        pattern = parse_pattern(form.option("call", _DEFAULT))
        check_name(tool.name, pattern, ("{",), place=f"tools.{tool.name}")
        arguments = schema(ordered(form, arguments_schema(tool)), pointer(tool))
        values = hole_nodes(form, tool.name) | {"arguments": Rule(f"arguments_{tool.name}", arguments)}
        parts = (values[part.name] if isinstance(part, Hole) else markers.node(part) for part in pattern)
        return seq(markers.node(form.call_start), *parts, markers.node(form.call_end))

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        lead = until(parse_pattern(form.option("call", _DEFAULT)), "arguments")
        return whole_arguments(markers, ((pointer(t), lead_texts(markers, lead, {"name": t.name})) for t in tools))

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        pattern = form.option("call", _DEFAULT)
        texts = []
        for i, call in enumerate(calls):
            check_name(call.name, parse_pattern(pattern), ("{",), place=f"tool_calls[{i}].name")
            values = hole_texts(form, call.name, i, call.id) | {"arguments": arguments_text(call, form.spelling)}
            texts.append(fill(pattern, values))
        return wrapped(form, texts)

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> Reader:
        return _NameReader(form, tools, markers)


def _follower(pattern: CallPattern, at: int) -> str:
    """The text that ends the hole at ``at``: the literal after it, or the bracket that opens the arguments."""
    after = pattern[at + 1] if at + 1 < len(pattern) else ""
    return "{" if after == Hole("arguments") else after if isinstance(after, str) else ""


class _NameReader(SectionReader):
    def __init__(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> None:
        super().__init__(form, tools, markers)
        self._call_id = markers.marked(_CALL_ID)
        self._pattern = self.marked(parse_pattern(form.option("call", _DEFAULT)))

    def call(self) -> ReadStep:
        values: dict[str, str] = {}
        for i, part in enumerate(self._pattern):
            if i == 0 and isinstance(part, str) and part.endswith("."):
                yield from self.try_literal(part)  # a namespace, which models leave out
            elif not isinstance(part, Hole):
                yield from self.literal(part)
            elif part.name == "arguments":
                self.begin_call(values)
                yield from stream_value(self, self.arguments)
            elif part.name == "index":
                values["index"] = yield from self.index()
            else:
                values[part.name] = yield from self.hole(_follower(self._pattern, i))
                if part.name == "name":
                    values["name"], _, values["id"] = values["name"].partition(self._call_id)
                self.name = values.get("name", "").strip()
        self.end_call()
