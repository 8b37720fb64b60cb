"""``[n(k="v", j=2), m()]``: calls in Python syntax.

Strings are written with JSON's escapes, which Python shares, in the family's quotes (option ``quote``) or in double
quotes; other values as JSON, or with Python's words for true, false and null (option ``words``).  The parser reads all
of these, and strings of templates that escape nothing: a string ends at the quote that the next argument or the end of
the call follows.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Generator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from grammars.regular.syntax.write import raw_node
from grammars.regular.terms import ALL
from grammars.tool_calls.arguments.parameter import Parameter, signature
from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.arguments.values import JsonValues, LiteralWords, ValueCoding, json_string, json_text
from grammars.tool_calls.pattern import fill, pattern_text
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import ReadStep
from grammars.tool_calls.section import SectionReader, opening_marker
from grammars.tool_calls.value_table import until
from grammars.tools.parameters import arguments_object
from grammars.tree.markers import Markers
from grammars.tree.nodes import And, Lexeme, Node, Pattern, alt, seq
from grammars.values.format import ToolCallFormat
from grammars.values.spelling import Spelling
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep
from special_tokens.errors import ToolError, shown

__all__ = ["Pythonic"]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
#: What opens a string, with the prefix of a raw one or three quotes, and every prefix of it.
_OPENING = re.compile(r"([rRuU]?)(\"{3}|'{3}|[\"'])")
_OPENING_BEGINS = re.compile(r"[rRuU]?(?:\"{1,2}|'{1,2})?")
#: Between two strings that Python joins.
_JOINT = re.compile(r"\s+([\"'])")
#: The text after an argument's value, and every prefix of it.
_FOLLOWS = re.compile(r"\s*(?:,\s*[^\W\d]\w*\s*=|\))")
_FOLLOWS_BEGINS = re.compile(r"\s*(?:,\s*(?:[^\W\d]\w*\s*)?)?")
_ESCAPE = re.compile(
    r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])"
)
#: The beginning of an escape; also a high surrogate, since a low one may follow.
_ESCAPE_BEGINS = re.compile(
    r"\\(x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(\\(u[0-9a-fA-F]{0,3})?)?)?"
)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


class Pythonic(ParameterList):
    """The syntax of Llama 4, LFM2, OLMo 3 and ToolACE."""

    def coding(self, form: ToolCallFormat) -> ValueCoding:
        return _PythonValues(LiteralWords(form.option("words", "")), form.spelling, str(form.option("quote", '"')))

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        return (Quote('"', '"', "\\"), Quote("'", "'", "\\"))

    def text_ends(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ('"', "'")

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        return super().value_table(form, tools, markers) if form.option("quote", '"') == '"' else ()

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        marker = opening_marker(form)
        if marker.strip("[( \n"):
            return (marker,)
        opening = pattern_text(until(self.patterns(form).call, "parameters"))
        names = (fill(opening, {"name": tool.name, "id": "", "index": ""}) for tool in tools)
        return tuple(form.section_start + form.call_start + name for name in names)

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        _check_identifier(tool.name, f"tools.{tool.name}")
        for parameter in signature(tool).parameters:
            _check_identifier(parameter.key, f"tools.{tool.name}.{parameter.key}")
        return super().call(form, tool, markers, schema)

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        for i, call in enumerate(calls):
            for name in (call.name, *arguments_object(call)):
                _check_identifier(name, f"tool_calls[{i}].{name}")
        return super().render(form, calls, tools)


def _check_identifier(name: str, place: str) -> None:
    """Raise `ToolError` if ``name`` is not a valid Python name of a function or an argument."""
    if not _NAME.fullmatch(name) or any(map(iskeyword, name.split("."))):
        raise ToolError(
            f"{shown(name)} is not a Python name", place=place, expected="an identifier that is not a keyword"
        )


class _PythonValues(JsonValues):
    def __init__(self, words: LiteralWords, spelling: Spelling, quote: str) -> None:
        super().__init__(words, spelling)
        self.quote = quote

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        value = schema(parameter.whole_schema, parameter.place)
        return seq(alt(value, *self._quoted(parameter), *self.words.options(parameter)), markers.node(end))

    def _quoted(self, parameter: Parameter) -> list[Node]:
        """Strings in the family's quotes: all if the schema does not restrict them, else those without escapes."""
        if self.quote == '"' or "string" not in parameter.types:
            return []
        return [Lexeme("quoted", _in_quotes(parameter, self.quote))]

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        if isinstance(value, str) and not re.search(rf"[{self.quote}\\\x00-\x1f]", value):
            return self.quote + value + self.quote
        return super().render(value, parameter, end)  # like Python: double quotes for strings that need escapes

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        yield from reader.space()
        first = yield from reader.peek()
        while not reader.is_final and _OPENING_BEGINS.fullmatch(reader.ahead()):
            yield from reader.more()
        opening = _OPENING.match(reader.ahead())
        if opening is not None and (opening[1] or len(opening[2]) == 3):
            yield from _read_literal(reader, parameter, opening[1], opening[2])
        elif first in "'\"":
            yield from _read_string(reader, parameter, first)
        else:
            text = yield from _read_bare(reader)
            reader.arguments(json_text(text, parameter))


def _in_quotes(parameter: Parameter, quote: str) -> Node:
    if parameter.strings == ALL:
        return Pattern(rf"{quote}(?:[^{quote}\\\x00-\x1f]|\\(?:[{quote}\\nrtbf]|u[0-9a-fA-F]{{4}}))*{quote}")
    plain = Pattern(rf"[^{quote}\\\x00-\x1f]*")
    return seq(quote, And((raw_node(parameter.strings), plain)), quote)


def _read_literal(reader: SectionReader, parameter: Parameter, prefix: str, quote: str) -> ReadStep:
    """Read a raw string, or one in three quotes; emit it as a string if the schema allows one, else as its value."""
    reader.take(len(prefix + quote))
    closing = re.compile(rf"(?s)((?:[^\\]|\\.)*?){quote}")
    while (closing_match := closing.match(reader.ahead())) is None:
        yield from reader.more()
    reader.take(closing_match.end())
    try:
        value = str(ast.literal_eval(prefix + quote + closing_match[1] + quote))
    except (ValueError, SyntaxError):
        value = closing_match[1]
    reader.arguments(json_string(value) if "string" in parameter.types else json_text(value, parameter))


def _read_string(reader: SectionReader, parameter: Parameter, quote: str) -> ReadStep:
    """Read a quoted string; emit it as a string if the schema allows one, else as the value that it spells."""
    reader.take(1)
    streams = "string" in parameter.types
    if streams:
        reader.arguments('"')
    whole = ""
    while quote:
        piece, quote = yield from _string_piece(reader, quote)
        whole += piece
        if streams:
            reader.arguments(json.dumps(piece, ensure_ascii=False)[1:-1])
    reader.arguments('"' if streams else json_text(whole, parameter))


def _string_piece(reader: SectionReader, quote: str) -> Generator[None, None, tuple[str, str]]:
    """Read a piece of a string; return it unescaped, and the quote that ends what follows: "" at the end."""
    while True:
        text = reader.ahead()
        match = re.search(rf"[\\{quote}]", text)
        end = match.start() if match else len(text)
        if end:
            return reader.take(end), quote
        if not text:
            yield from reader.more()
        elif text[0] == "\\":
            escape = _ESCAPE.match(text)
            if escape and (reader.is_final or not _ESCAPE_BEGINS.fullmatch(text)):
                return _unescaped(reader.take(escape.end())[1:]), quote
            yield from reader.more()
        else:
            closes = yield from _is_followed(reader, 1)
            joint = None if closes else _JOINT.match(reader.ahead(), 1)
            reader.take(joint.end() if joint else 1)
            return ("", joint[1]) if joint else ("", "") if closes else (quote, quote)


def _is_followed(reader: SectionReader, skip: int) -> Generator[None, None, bool]:
    """Whether the next argument or the end of the call follows ``skip`` characters ahead; reads nothing."""
    while True:
        after = reader.ahead()[skip:]
        if _FOLLOWS.match(after):
            return True
        if reader.is_final or not _FOLLOWS_BEGINS.fullmatch(after):
            return False
        yield from reader.more()


def _unescaped(escape: str) -> str:
    if escape[0] not in "ux" or len(escape) == 1:
        return _NAMED.get(escape, escape)
    if len(escape) > 5:  # a pair of surrogates
        return json.loads(f'"\\{escape}"')  # type: ignore[no-any-return]
    char = chr(int(escape[1:], 16))
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char


def _read_bare(reader: SectionReader) -> Generator[None, None, str]:
    """Read an unquoted value up to the comma or parenthesis that ends it.

    Quotes count only inside brackets: a string that a template wrote without quotes may contain any.
    """
    text, depth, quote = "", 0, ""
    while True:
        char = yield from reader.peek()
        if quote:
            if char == "\\":
                yield from reader.need(2)
                text += reader.take(1)
            elif char == quote:
                quote = ""
        elif char in "'\"" and depth:
            quote = char
        elif depth == 0 and char in ",)" and (yield from _is_followed(reader, 0)):
            return text.strip()
        elif depth or not text.strip():
            depth = max(depth + (char in "[{(") - (char in "]})"), 0)
        text += reader.take(1)
