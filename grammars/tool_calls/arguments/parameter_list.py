"""Syntaxes that write arguments one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grammars.tool_calls.arguments.argument_patterns import ArgumentPatterns
from grammars.tool_calls.arguments.nested_values import NestedValues
from grammars.tool_calls.arguments.parameter import Parameter, Signature, arrange, signature
from grammars.tool_calls.arguments.parameter_reader import ParameterReader
from grammars.tool_calls.arguments.raw_text import bare
from grammars.tool_calls.arguments.schema_types import type_of
from grammars.tool_calls.arguments.values import (
    DelimitedValues,
    JsonValues,
    LiteralWords,
    RawValues,
    ValueCoding,
    one_of,
)
from grammars.tool_calls.names import check_name, first_word, hole_nodes, hole_texts
from grammars.tool_calls.pattern import Hole, fill
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import Reader
from grammars.tool_calls.section import opening_marker, wrapped
from grammars.tool_calls.value_table import ValueTable, filled, lead_texts, until
from grammars.tools.parameters import arguments_object
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, Text, seq
from grammars.tree.nodes import Pattern as Regex
from grammars.values.format import ToolCallFormat
from grammars.values.report import ReportRow
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep

__all__ = ["ParameterList"]


_NUMBER = frozenset({"number"})
#: The allowed keys of arguments that the tool does not name.
_FREE_KEY = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"


# The options of a format with such a syntax:
#   call: the inside of one call, a pattern with $name and $parameters (also $id, $index)
#   parameter: one argument, a pattern with $key and $value; $key may come again after the value (</$key>); $is_string
#       and $type are flags for the value's type (types maps JSON types to words: string=str number=float, and
#       integer=int if integers have a word of their own)
#   separator: the text between two arguments
#   order: schema (default) or sorted
#   strings: json if strings are written as JSON, in quotes; otherwise they are raw text
#   quote, quote_end: the delimiters around raw strings (other values have none); with plain_strings, strings without
#       the delimiters' first character may stand without them
#   items: the key of a list's items where objects and lists are written as arguments are, as elements in elements
#   words: the family's spelling of true, false and null if it differs from JSON's
#   index_base: the $index of the first call
class ParameterList:
    """A syntax that writes arguments one by one, with its default patterns; a subclass sets another value coding."""

    def __init__(self, id: str, call_pattern: str, parameter_pattern: str) -> None:
        self.id = id
        self.call_pattern = call_pattern
        self.parameter_pattern = parameter_pattern

    def patterns(self, form: ToolCallFormat) -> ArgumentPatterns:
        return ArgumentPatterns.of(form, self.call_pattern, self.parameter_pattern)

    def coding(self, form: ToolCallFormat) -> ValueCoding:
        words = LiteralWords(form.option("words", ""))
        if form.option("quote_end") is not None:
            quotes = str(form.option("quote")), str(form.option("quote_end"))
            return DelimitedValues(words, form.spelling, *quotes, may_be_plain=bool(form.option("plain_strings")))
        if form.option("items") is not None:
            return NestedValues(words, form.spelling, self.patterns(form), str(form.option("items")))
        kind = JsonValues if form.option("strings") == "json" else RawValues
        return kind(words, form.spelling)

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        patterns = self.patterns(form)
        opening, end = patterns.opening, patterns.end
        whole = (Quote(first_word(opening), bare(end)),) if opening.strip() and end else ()
        closing = form.option("quote_end")
        return whole if closing is None else (*whole, Quote(form.option("quote"), closing, is_inner=bool(whole)))

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (opening_marker(form),)

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        if form.option("quote_end") is not None or form.option("items") is not None:
            return ()  # delimited text may contain the text that ends a value, and elements are not JSON
        patterns, table = self.patterns(form), ValueTable(markers)
        for tool in tools:
            inside = table.add()
            keys = self._add_steps(form, patterns, tool, table, inside)
            end = patterns.tail_of(tool.name) + form.call_end
            if keys is None or not end.strip():
                return ()
            lead, values = until(patterns.call, "parameters"), {"name": tool.name}
            followers = ("",) if isinstance(lead[-1], str) else (patterns.opening, end)
            for text, to in zip(followers, (inside if len(followers) == 1 else keys, 0), strict=False):
                name = lead_texts(markers, (*lead, text), values)
                if not name:
                    return ()
                table.chain(0, name, to)
            table.way(inside, end, 0)
        return table.build()

    def _add_steps(
        self, form: ToolCallFormat, patterns: ArgumentPatterns, tool: Tool, table: ValueTable, inside: int
    ) -> int | None:
        """Add the steps of a call's arguments and return the step in which their keys are read.

        None if some values cannot be distinguished from the text around them.
        """
        taken, markers, coding = signature(tool), table.markers, self.coding(form)
        extra = taken.extra if not patterns.closing else None
        lead = until(patterns.parameter, "value")
        # Unnamed keys end with the same text as named ones, so keys are read in a step of their own.
        keys = inside if extra is None else table.add()
        if extra is not None:
            if not patterns.opening.strip():
                return None
            table.way(inside, patterns.opening, keys)
        for parameter in (*taken.parameters, *(() if extra is None else (extra,))):
            end = patterns.end_of(parameter.key)
            parts = lead if not parameter.is_extra else lead[lead.index(Hole("key")) + 1 :]
            for flag, kept in self._flags(patterns, parameter):
                trigger = filled(markers, parts, {"key": parameter.key, patterns.flag: flag})
                if not trigger or (coding.is_raw(kept) and not end):
                    return None
                value = table.raw(bare(end), inside) if coding.is_raw(kept) else table.value(kept.place, inside)
                table.way(keys, trigger, value)
        return keys

    def text_ends(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        """The texts that end values which are text without JSON's quotes, or begin where no table tells."""
        patterns, coding, quote = self.patterns(form), self.coding(form), form.option("quote_end")
        taken = (signature(tool) for tool in tools)
        extra = not patterns.closing  # an end that repeats the key is not a constant text
        parameters = (
            p for function in taken for p in (*function.parameters, function.extra if extra else None) if p is not None
        )
        ends = dict.fromkeys(patterns.end_of(p.key) for p in parameters if coding.is_raw(p) or quote is not None)
        return tuple(ends) if quote is None else (str(quote), *ends)

    # -- writing

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        patterns = self.patterns(form)
        check_name(tool.name, patterns.call, patterns.name_ends(form), place=f"tools.{tool.name}")
        arguments = self._arguments(form, patterns, tool, markers, schema)
        values = hole_nodes(form, tool.name) | {"parameters": Rule(f"arguments_{tool.name}", arguments)}
        parts = [values[part.name] if isinstance(part, Hole) else markers.node(part) for part in patterns.call]
        end = form.call_end
        # The lexer takes the longest lexeme: where the end begins with the separator, both begin with the same one.
        if patterns.separator and patterns.call[-1] == Hole("parameters") and end.startswith(patterns.separator):
            parts.append(markers.node(patterns.separator))
            end = end.removeprefix(patterns.separator)
        return seq(markers.node(form.call_start), *parts, markers.node(end))

    def unwritable(self, form: ToolCallFormat, tool: Tool, markers: Markers) -> tuple[ReportRow, ...]:
        patterns, coding = self.patterns(form), self.coding(form)
        rows = (coding.unwritable(p, patterns.end_of(p.key), markers) for p in signature(tool).parameters)
        return tuple(row for of_function in rows for row in of_function)

    def _arguments(
        self, form: ToolCallFormat, patterns: ArgumentPatterns, tool: Tool, markers: Markers, schema: SchemaNode
    ) -> Node:
        taken = signature(tool)
        named = [(p.key, p.required, self._parameter(form, patterns, p, markers, schema)) for p in taken.parameters]
        extra = None
        if taken.extra is not None and not patterns.closing:  # a grammar cannot repeat an unknown key after its value
            extra = self._parameter(form, patterns, taken.extra, markers, schema)
        return arrange(named, extra, markers.node(patterns.separator), str(form.option("order", "schema")))

    def _parameter(
        self,
        form: ToolCallFormat,
        patterns: ArgumentPatterns,
        parameter: Parameter,
        markers: Markers,
        schema: SchemaNode,
    ) -> Node:
        if not parameter.is_extra:
            check_name(parameter.key, patterns.parameter, place=parameter.place, hole="key")
        options = []
        end = patterns.end_of(parameter.key)
        for flag, kept in self._flags(patterns, parameter):
            value = self.coding(form).node(kept, end, markers, schema)
            holes: dict[str, Node] = {
                "key": Regex(_FREE_KEY) if parameter.is_extra else Text(parameter.key),
                "value": value,
                patterns.flag or "-": Text(flag),
            }
            pattern = patterns.parameter[:-1] if patterns.end else patterns.parameter
            options.append(seq(*(holes[p.name] if isinstance(p, Hole) else markers.node(p) for p in pattern)))
        return Rule(f"argument_{parameter.key}", one_of(options, parameter))

    def _flags(self, patterns: ArgumentPatterns, parameter: Parameter) -> list[tuple[str, Parameter]]:
        """Pairs of a type flag's text and the parameter restricted to the types with this flag."""
        if not patterns.flag:
            return [("", parameter)]
        groups: dict[str, set[str]] = {}
        for name in sorted(parameter.types, key=lambda t: (t != "string", t)):
            groups.setdefault(patterns.flag_text(name), set()).add(name)
        out = [(flag, parameter.only(frozenset(names))) for flag, names in groups.items()]
        if not patterns.whole_flag or "number" not in parameter.types:
            return out
        whole = (patterns.whole_flag, parameter.only(_NUMBER).whole())
        return [whole, *((flag, kept) for flag, kept in out if not (parameter.is_whole and kept.types == _NUMBER))]

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        texts = []
        for i, call in enumerate(calls):
            patterns = self.patterns(form)
            check_name(call.name, patterns.call, patterns.name_ends(form), place=f"tool_calls[{i}].name")
            parameters = self._rendered(form, patterns, arguments_object(call), signature(tools.get(call.name)))
            values = hole_texts(form, call.name, i, call.id) | {"parameters": parameters}
            texts.append(fill(patterns.call, values))
        return wrapped(form, texts)

    def _rendered(
        self, form: ToolCallFormat, patterns: ArgumentPatterns, arguments: Mapping[str, Any], taken: Signature
    ) -> str:
        keys = taken.in_order(arguments)
        if form.option("order") == "sorted":
            keys.sort()
        out = []
        for key in keys:
            parameter = taken.get(key)
            check_name(key, patterns.parameter, place=parameter.place or f"arguments.{key}", hole="key")
            value = arguments[key]
            if patterns.flag:
                parameter = parameter.only(frozenset({type_of(value)}))
            holes = {
                "key": key,
                "value": self.coding(form).render(value, parameter, patterns.end_of(key)),
                patterns.flag or "-": patterns.flag_of(value),
            }
            out.append(fill((*patterns.parameter, *patterns.closing), holes))
        return patterns.separator.join(out)

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> Reader:
        return ParameterReader(form, tools, markers, self.patterns(form), self.coding(form))
