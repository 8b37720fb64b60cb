"""``to=functions.n<|channel|>commentary json<|message|>{...}``: one message per call, addressed to the function.

The grammar accepts every spelling that models write; the rendering uses that of the templates.  The token that ends a
call also ends the turn, so it is one of the format's ends and not part of this grammar.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from grammars.tool_calls.json_reader import stream_value
from grammars.tool_calls.pattern import Hole
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import Reader, ReadStep, UnexpectedText
from grammars.tool_calls.section import SectionReader, wrapped
from grammars.tool_calls.value_table import ValueTable, lead_texts
from grammars.tools.parameters import arguments_schema, arguments_text, pointer
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, Text, alt, seq
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep
from special_tokens.errors import ToolError, shown

__all__ = ["Harmony"]

#: The options of the format: the pieces of a call's header, in the order of templates.  Models write instead
#: ``<|channel|>commentary to=functions.n <|constrain|>json<|message|>``.
_DEFAULTS = {
    "recipient": " to=functions.",
    "channel": "<|channel|>commentary",
    "type": " json",
    "constrained": "<|constrain|>json",
    "message": "<|message|>",
}
_OTHER_CHANNEL = "<|channel|>analysis"  # where models address a function as well, without masks
_MAX_TYPE_WORDS = 2  # words between a recipient and the message


def _pieces(form: ToolCallFormat) -> dict[str, str]:
    return {name: str(form.option(name, default)) for name, default in _DEFAULTS.items()}


class Harmony:
    """The syntax of gpt-oss."""

    id = "harmony"

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        return (Quote('"', '"', "\\"),)

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        piece = _pieces(form)
        return (form.call_start + piece["recipient"], form.call_start + piece["channel"] + piece["recipient"])

    def other_triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        """The texts that open calls as well in answers that no mask guided."""
        return (form.call_start + _OTHER_CHANNEL + _pieces(form)["recipient"],)

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        _check(tool.name, f"tools.{tool.name}")
        piece = {name: markers.node(text) for name, text in _pieces(form).items()}
        recipient = seq(piece["recipient"], Text(tool.name))
        header = alt(seq(recipient, piece["channel"]), seq(piece["channel"], recipient))
        kind = alt(piece["type"], piece["constrained"], seq(" ", piece["constrained"]))
        arguments = Rule(f"arguments_{tool.name}", schema(arguments_schema(tool), pointer(tool)))
        return seq(
            markers.node(form.call_start), header, kind, piece["message"], arguments, markers.node(form.call_end)
        )

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        piece = _pieces(form)
        table = ValueTable(markers)
        for tool in tools:
            header = table.add()
            table.way(header, piece["message"], table.value(pointer(tool), 0))
            for follower in (piece["channel"], piece["type"], piece["constrained"], " " + piece["constrained"]):
                for trigger in lead_texts(markers, (piece["recipient"], Hole("name"), follower), {"name": tool.name}):
                    table.way(0, trigger, header)
        return table.build()

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        piece = _pieces(form)
        texts = []
        for i, call in enumerate(calls):
            _check(call.name, f"tool_calls[{i}].name")
            header = piece["recipient"] + call.name + piece["channel"] + piece["type"]
            texts.append(header + piece["message"] + arguments_text(call, form.spelling))
        return wrapped(form, texts)

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> Reader:
        return _HarmonyReader(form, tools, markers)


def _check(name: str, place: str) -> None:
    if not name or any(char.isspace() or char == "<" for char in name):
        raise ToolError(f"name {shown(name)} is empty or contains what ends a recipient", place=place,
                        expected="a name without white space and <")  # fmt: skip


class _HarmonyReader(SectionReader):
    def __init__(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> None:
        super().__init__(form, tools, markers)
        self._piece = {name: markers.marked(text) for name, text in _pieces(form).items()}
        self._other_channel = markers.marked(_OTHER_CHANNEL)

    def call(self) -> ReadStep:
        name = yield from self._recipient()
        if not (yield from self.try_literal(self._piece["channel"])):
            yield from self.try_literal(self._other_channel)
        name = name or (yield from self._recipient())
        if not name:
            raise UnexpectedText
        self.name = name
        kind, _ = yield from self.until(self._piece["message"])
        if len(kind.split()) > _MAX_TYPE_WORDS:
            raise UnexpectedText
        self.start_call(name)
        yield from stream_value(self, self.arguments)
        self.end_call()

    def _recipient(self) -> Generator[None, None, str]:
        """Read a recipient, which ends at white space or at a marker; return "" if there is none."""
        if not (yield from self.try_literal(self._piece["recipient"])):
            return ""
        name = ""
        while not (char := (yield from self.peek())).isspace() and not "\ud800" <= char <= "\udfff" and char != "<":
            name += self.take(1)
        return name
