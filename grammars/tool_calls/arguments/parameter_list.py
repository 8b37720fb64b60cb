"""Calls whose arguments are written one by one: the frame of every such syntax.

Options read here:

* ``call``: the inside of one call as a pattern with ``$name`` and ``$parameters`` (also ``$id``, ``$index``);
* ``parameter``: one argument as a pattern with ``$key`` and ``$value``, ``$key`` also behind it (``</$key>``);
  ``$is_string`` and ``$type`` are flags that tell the value's type (``types`` maps JSON types to the family's words:
  ``string=str number=float``, and ``integer=int`` where whole numbers have a word of their own);
* ``separator``: between two arguments;
* ``order``: ``schema`` (default), ``sorted`` or ``any``;
* ``strings``: ``json`` where strings are written as JSON, in quotes; else they are raw text;
* ``quote`` and ``quote_end``: what stands around raw strings, and around no other values;
* ``words``: the family's spelling of true, false and null, where it is not JSON's;
* ``index_base``: what the first call's ``$index`` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grammars.call_steps import CallStep
from grammars.values.format import ToolCallFormat
from grammars.values.report import ReportRow
from grammars.tree.markers import Markers
from grammars.tool_calls.arguments.argument_order import arrange
from grammars.tool_calls.protocol import CallsParser, Quote, SchemaNode
from grammars.tool_calls.arguments.argument_patterns import Frame
from grammars.tool_calls.ids import id_pattern, make_id
from grammars.tool_calls.names import check_name, first_word
from grammars.tool_calls.arguments.parameter import Parameter, Signature, signature
from grammars.tool_calls.arguments.parameter_reader import ParameterReader
from grammars.tools.parameters import arguments_object
from grammars.tool_calls.pattern import Hole
from grammars.tool_calls.arguments.schema_types import type_of
from grammars.tool_calls.section import opening_marker, wrapped
from grammars.tool_calls.value_table import CallSteps, filled, lead_texts, until
from grammars.tool_calls.arguments.values import DelimitedValues, JsonValues, RawValues, ValueCoding, Words
from grammars.values.tool import Call, Tool
from grammars.tree.nodes import Node, Rule, Text, alt, seq
from grammars.tree.nodes import Pattern as Regex

__all__ = ["ParameterList"]


_NUMBER = frozenset({"number"})
#: Keys of arguments that a tool takes without naming them.
_FREE_KEY = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"


class ParameterList:
    """A syntax that writes arguments one by one; a family's syntax names its patterns and its value coding."""

    id = ""
    call_pattern = "$name\n$parameters"
    parameter_pattern = "$key=$value"

    def frame(self, form: ToolCallFormat) -> Frame:
        return Frame.of(form, self.call_pattern, self.parameter_pattern)

    def coding(self, form: ToolCallFormat) -> ValueCoding:
        words = Words(form.option("words", ""))
        if form.option("quote_end") is not None:
            return DelimitedValues(words, form.spelling, str(form.option("quote")), str(form.option("quote_end")))
        kind = JsonValues if form.option("strings") == "json" else RawValues
        return kind(words, form.spelling)

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        frame = self.frame(form)
        return (Quote(first_word(frame.opening), frame.end),) if frame.opening.strip() and frame.end else ()

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (opening_marker(form),)

    def steps(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        if form.option("quote_end") is not None:
            return ()  # delimited text may hold what ends a value
        frame, table = self.frame(form), CallSteps(markers)
        for tool in tools:
            inside = table.add()
            keys = self._find(form, frame, tool, table, inside)
            end = frame.tail_of(tool.name) + form.call_end
            if keys is None or not end.strip():
                return ()
            lead, known = until(frame.call, "parameters"), {"name": tool.name}
            behind = ("",) if isinstance(lead[-1], str) else (frame.opening, end)
            for text, to in zip(behind, (inside if len(behind) == 1 else keys, 0), strict=False):
                name = lead_texts(markers, (*lead, text), known)
                if not name:
                    return ()
                table.chain(0, name, to)
            table.way(inside, end, 0)
        return table.steps()

    def _find(self, form: ToolCallFormat, frame: Frame, tool: Tool, table: CallSteps, inside: int) -> int | None:
        """Adds the steps of a call's arguments; the step where their keys are read.

        None where their values cannot be told from the text around.
        """
        taken, markers, coding = signature(tool), table.markers, self.coding(form)
        extra = taken.extra if not frame.closing else None
        lead = until(frame.parameter, "value")
        # A key that the tool does not name ends like any other, so keys are read in a step of their own.
        keys = inside if extra is None else table.add()
        if extra is not None:
            if not frame.opening.strip():
                return None
            table.way(inside, frame.opening, keys)
        for parameter in (*taken.parameters, *(() if extra is None else (extra,))):
            end = frame.end_of(parameter.key)
            parts = lead if not parameter.is_extra else lead[lead.index(Hole("key")) + 1 :]
            for flag, kept in self._flags(frame, parameter):
                trigger = filled(markers, parts, {"key": parameter.key, frame.flag: flag})
                if not trigger or (coding.is_raw(kept) and not end):
                    return None
                value = table.raw(end, inside) if coding.is_raw(kept) else table.value(kept.place, inside)
                table.way(keys, trigger, value)
        return keys

    # -- writing

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        frame = self.frame(form)
        check_name(tool.name, frame.call, frame.name_ends(form), place=f"tools.{tool.name}")
        values: dict[str, Node] = {
            "name": Text(tool.name),
            "parameters": Rule(f"arguments_{tool.name}", self._arguments(form, frame, tool, markers, schema)),
            "id": Regex(id_pattern(form.id_style)),
            "index": Regex(id_pattern("index")),
        }
        parts = (values[part.name] if isinstance(part, Hole) else markers.node(part) for part in frame.call)
        return seq(markers.node(form.call_start), *parts, markers.node(form.call_end))

    def lost(self, form: ToolCallFormat, tool: Tool, markers: Markers) -> tuple[ReportRow, ...]:
        frame, coding = self.frame(form), self.coding(form)
        rows = (coding.lost(p, frame.end_of(p.key), markers) for p in signature(tool).parameters)
        return tuple(row for found in rows for row in found)

    def _arguments(self, form: ToolCallFormat, frame: Frame, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        taken = signature(tool)
        named = [(p.key, p.required, self._parameter(form, frame, p, markers, schema)) for p in taken.parameters]
        extra = None
        if taken.extra is not None and not frame.closing:  # no grammar repeats a key that it does not know
            extra = self._parameter(form, frame, taken.extra, markers, schema)
        return arrange(named, extra, markers.node(frame.separator), str(form.option("order", "schema")))

    def _parameter(
        self, form: ToolCallFormat, frame: Frame, parameter: Parameter, markers: Markers, schema: SchemaNode
    ) -> Node:
        if not parameter.is_extra:
            check_name(parameter.key, frame.parameter, place=parameter.place, hole="key")
        options = []
        end = frame.end_of(parameter.key)
        for flag, kept in self._flags(frame, parameter):
            value = self.coding(form).node(kept, end, markers, schema)
            holes: dict[str, Node] = {
                "key": Regex(_FREE_KEY) if parameter.is_extra else Text(parameter.key),
                "value": value,
                frame.flag or "-": Text(flag),
            }
            pattern = frame.parameter[:-1] if frame.end else frame.parameter
            options.append(seq(*(holes[p.name] if isinstance(p, Hole) else markers.node(p) for p in pattern)))
        return Rule(f"argument_{parameter.key}", alt(*options))

    def _flags(self, frame: Frame, parameter: Parameter) -> list[tuple[str, Parameter]]:
        """Pairs of what the type flag says and the parameter kept to those types."""
        if not frame.flag:
            return [("", parameter)]
        groups: dict[str, set[str]] = {}
        for name in sorted(parameter.types, key=lambda t: (t != "string", t)):
            groups.setdefault(frame.flag_text(name), set()).add(name)
        out = [(flag, parameter.only(frozenset(names))) for flag, names in groups.items()]
        if not frame.whole_flag or "number" not in parameter.types:
            return out
        whole = (frame.whole_flag, parameter.only(_NUMBER).whole())
        return [whole, *((flag, kept) for flag, kept in out if not (parameter.is_whole and kept.types == _NUMBER))]

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        texts = []
        for i, call in enumerate(calls):
            frame = self.frame(form)
            check_name(call.name, frame.call, frame.name_ends(form), place=f"tool_calls[{i}].name")
            parameters = self._rendered(form, frame, arguments_object(call), signature(tools.get(call.name)))
            values = {
                "name": call.name,
                "parameters": parameters,
                "id": make_id(form.id_style, call.name, i, call.id),
                "index": str(i + int(form.option("index_base", 0))),
            }
            texts.append("".join(values[p.name] if isinstance(p, Hole) else p for p in frame.call))
        return wrapped(form, texts, calls)

    def _rendered(self, form: ToolCallFormat, frame: Frame, arguments: Mapping[str, Any], taken: Signature) -> str:
        keys = taken.in_order(arguments)
        if form.option("order") == "sorted":
            keys.sort()
        out = []
        for key in keys:
            parameter = taken.get(key)
            check_name(key, frame.parameter, place=parameter.place or f"arguments.{key}", hole="key")
            value = arguments[key]
            if frame.flag:
                parameter = parameter.only(frozenset({type_of(value)}))
            holes = {
                "key": key,
                "value": self.coding(form).render(value, parameter, frame.end_of(key)),
                frame.flag or "-": frame.flag_of(value),
            }
            parts = (*frame.parameter, *frame.closing)
            out.append("".join(holes[p.name] if isinstance(p, Hole) else p for p in parts))
        return frame.separator.join(out)

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> CallsParser:
        return ParameterReader(form, tools, markers, self.frame(form), self.coding(form))
