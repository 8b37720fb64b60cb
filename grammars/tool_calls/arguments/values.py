"""Codings of a single argument's value: its grammar, its rendering, its parser.

The grammar of a value includes the text that ends it, because raw text depends on what ends it.  All codings emit JSON
text when they read, however the model spelled the value.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Protocol

from grammars.regular.terms import ALL, MAX_CODE_POINT, NONE, Regular, chars, inter, matches, neg, rep, words
from grammars.tool_calls.arguments.parameter import Parameter
from grammars.tool_calls.arguments.raw_text import bare, contains_end, is_writable, text_until, without_end
from grammars.tool_calls.arguments.schema_types import type_of
from grammars.tool_calls.json_reader import is_inside_string, read_value, stream_value
from grammars.tool_calls.protocol import SchemaNode
from grammars.tool_calls.reader import OutputEnded, ReadStep, UnexpectedText
from grammars.tool_calls.section import SectionReader
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, alt, seq
from grammars.values.report import Outcome, ReportRow
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from special_tokens.errors import SchemaError, ToolError, shown

__all__ = [
    "DelimitedValues",
    "JsonValues",
    "LiteralWords",
    "RawValues",
    "ValueCoding",
    "ended_string",
    "json_scalar",
    "json_string",
    "json_text",
    "read_text",
]

_STRING = frozenset({"string"})


class ValueCoding(Protocol):
    """Writes and reads single values."""

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        """The grammar of a value and of ``end``, the literal text after it."""

    def is_raw(self, parameter: Parameter) -> bool:
        """Whether the value may be raw text up to its end; otherwise it is one JSON value."""

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        """Report rows for values of the parameter that this coding cannot write although it can write others."""

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        """The value as text, without ``end``; raises `ToolError` if this coding cannot write it."""

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        """Read a value and ``end`` (marked text) and emit the value as JSON text."""


def ended_string(parameter: Parameter, end: str, markers: Markers) -> Node:
    """The parameter's strings as raw text, then ``end``; raises `ToolError` if every one contains ``end``."""
    if not is_writable(parameter.strings, end, markers):
        marker = shown(bare(end))
        raise ToolError(
            f"every string that the schema allows contains {marker}, which ends a value in this model's format",
            place=parameter.place,
            expected="a string that can be written",
        )
    return text_until(parameter.strings, end, markers)


def unwritable_strings(parameter: Parameter, end: str, markers: Markers, among: Regular = ALL) -> tuple[ReportRow, ...]:
    """Report rows for listed strings ``among`` the schema's that contain ``end`` and so cannot be raw text."""
    language = parameter.strings
    parts = language.args if language.op == "alt" else (language,)
    listed = [inter(part, among).args for part in parts if part.op == "words"]
    kept = without_end(words(word for part in listed for word in part), end, markers)
    unwritable = sorted({word for part in listed for word in part} - (kept.args if kept.op == "words" else {""}))
    named, marker = ", ".join(map(repr, unwritable[:3])), shown(bare(end))
    reason = f"{named} cannot be written: {marker} ends a value in this model's format"
    return (ReportRow(parameter.place, "enum", Outcome.NARROWED, reason),) if unwritable else ()


class LiteralWords:
    """A family's words for true, false and null (``True False None``), allowed in addition to JSON's."""

    def __init__(self, spelled: str = "") -> None:
        words = spelled.split() or ["true", "false", "null"]
        self.by_value: Mapping[bool | None, str] = dict(zip((True, False, None), words, strict=True))

    def options(self, parameter: Parameter) -> list[Node | str]:
        """The family's words that the parameter allows and that differ from JSON's."""
        free = not (isinstance(parameter.schema, Mapping) and {"enum", "const", "$ref"} & parameter.schema.keys())
        out: list[Node | str] = []
        if free and "boolean" in parameter.types:
            out += [self.by_value[value] for value in (True, False) if self.by_value[value] != json.dumps(value)]
        if free and "null" in parameter.types and self.by_value[None] != "null":
            out.append(self.by_value[None])
        return out


class JsonValues:
    """All values as JSON, strings in quotes."""

    def __init__(self, words: LiteralWords, spelling: Spelling = DEFAULT_SPELLING) -> None:
        self.words = words
        self.spelling = spelling

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        value = schema(parameter.whole_schema, parameter.place)
        return seq(alt(value, *self.words.options(parameter)), markers.node(end))

    def is_raw(self, parameter: Parameter) -> bool:
        return False

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        return ()

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        return json_scalar(value, parameter, self.spelling)

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        yield from reader.space()
        first = yield from reader.peek()
        if first == '"':
            yield from stream_value(reader, reader.arguments)
        elif first in "{[":
            reader.arguments(json_text((yield from read_value(reader)), parameter))
        elif end.strip():
            yield from _read_whole(reader, parameter, end)
            return
        else:
            reader.arguments(json_text((yield from _read_word(reader)), parameter))
        yield from reader.literal(end)


class RawValues(JsonValues):
    """Strings as raw text, all other values as JSON; the schema alone decides which of them a text is.

    If a schema allows strings and other types, text that is valid JSON of another allowed type is read as that type.
    """

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        if parameter.types <= _STRING or ("string" in parameter.types and parameter.strings == ALL):
            return ended_string(parameter, end, markers)  # raw text can also spell every other value
        written = self._others(parameter, end, markers, schema)
        if "string" not in parameter.types or not is_writable(parameter.strings, end, markers):
            return written
        return alt(text_until(parameter.strings, end, markers), written)

    def _others(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        """The grammar of all values but strings, and of ``end``."""
        value = schema(parameter.only(parameter.types - _STRING).whole_schema, parameter.place)
        return seq(alt(value, *self.words.options(parameter)), markers.node(end))

    def is_raw(self, parameter: Parameter) -> bool:
        return "string" in parameter.types

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        return unwritable_strings(parameter, end, markers) if "string" in parameter.types else ()

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        if not isinstance(value, str):
            return json_scalar(value, parameter, self.spelling)
        if contains_end(value, end):
            raise ToolError(f"the text contains {bare(end)!r}, which ends a value in this model's format",
                            place=parameter.place, expected="a text without it")  # fmt: skip
        return value

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        if not parameter.types <= _STRING:
            yield from _read_whole(reader, parameter, end)
            return
        yield from read_text(reader, end)


def one_of(options: Iterable[Node], parameter: Parameter) -> Node:
    """Return a choice of the options for a parameter's value; raises `SchemaError` without an option."""
    distinct = tuple(options)
    if not distinct:
        raise SchemaError("unsatisfiable: no value satisfies it", place=parameter.place, hint="allow some value")
    return alt(*distinct)


class DelimitedValues(RawValues):
    """Strings as raw text between two delimiters (``<![CDATA[`` and ``]]>``), all other values as JSON.

    ``may_be_plain``: strings without the delimiters' first character may also stand without them.
    """

    def __init__(
        self, words: LiteralWords, spelling: Spelling, opening: str, closing: str, *, may_be_plain: bool = False
    ) -> None:
        super().__init__(words, spelling)
        self.opening = opening
        self.closing = closing
        first = ord(opening[0])
        others = rep(chars(((0, first - 1), (first + 1, MAX_CODE_POINT))), 0, None)
        self.plain = others if may_be_plain else NONE

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        options: list[Node] = []
        plain = inter(parameter.strings, self.plain) if "string" in parameter.types else NONE
        if plain != NONE and is_writable(plain, end, markers):
            options.append(text_until(plain, end, markers))
        if parameter.types - _STRING and not (options and plain == self.plain):  # which can spell every other value
            options.append(self._others(parameter, end, markers, schema))
        if "string" in parameter.types and (not options or is_writable(parameter.strings, self.closing, markers)):
            text = ended_string(parameter, self.closing, markers)
            options.append(seq(markers.node(self.opening), text, markers.node(end)))
        return one_of(options, parameter)

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        return unwritable_strings(parameter, self.closing, markers, neg(self.plain))

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        if isinstance(value, str) and matches(self.plain, value) and not contains_end(value, end):
            return value
        written = super().render(value, parameter, self.closing)
        return self.opening + written + self.closing if isinstance(value, str) else written

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        if (yield from reader.try_literal(reader.markers.marked(self.opening))):
            closing = reader.markers.marked(self.closing)
            is_text = "string" in parameter.types  # without masks other values stand there as well
            yield from read_text(reader, closing) if is_text else _read_whole(reader, parameter, closing)
            yield from reader.literal(end)
        elif self.plain == NONE:
            yield from JsonValues(self.words).read(reader, parameter, end)
        else:
            yield from super().read(reader, parameter, end)


def read_text(reader: SectionReader, end: str) -> ReadStep:
    """Read text up to and including ``end`` and emit it as a JSON string while it arrives."""
    reader.arguments('"')
    delimiter = ""
    while not delimiter:
        text, delimiter = yield from reader.pieces_until(*_ends(end))
        reader.arguments(json_string(text)[1:-1])
    reader.arguments('"')


def _ends(end: str) -> tuple[str, ...]:
    """The texts that end a value: the marker, with the white space that the format writes before it or without."""
    return (end.rstrip(), bare(end)) if end.strip() else (end,)


def _read_whole(reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
    try:
        text, delimiter = yield from reader.until(*_ends(end))
    except OutputEnded:
        reader.arguments(reader.take(len(reader.ahead())))  # cut off: emit the text unchanged
        raise
    is_json = "string" not in parameter.types or parameter.strings != ALL
    while is_json and is_inside_string(text) and _literal(text.strip()) is _NO_VALUE:
        text += delimiter
        try:  # a string in JSON may contain the end
            more, delimiter = yield from reader.until(*_ends(end))
        except OutputEnded:
            break
        text += more
    reader.arguments(json_text(text, parameter))


def _read_word(reader: SectionReader) -> Generator[None, None, str]:
    """Read a number or a word; raises `UnexpectedText` if there is none."""
    text = ""
    while reader.ahead() or not reader.is_final:
        char = yield from reader.peek()
        if not (char.isalnum() or char in "+-."):
            break
        text += reader.take(1)
    if not text:
        raise UnexpectedText
    return text


def json_string(text: str) -> str:
    """``text`` as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def json_scalar(value: Any, parameter: Parameter, spelling: Spelling = DEFAULT_SPELLING) -> str:
    """A value as JSON text; raises `ToolError` if it is not a JSON value."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=spelling.separators)
    except (TypeError, ValueError) as error:
        raise ToolError(str(error), place=parameter.place, expected="a JSON value") from None


def json_text(text: str, parameter: Parameter) -> str:
    """A value's text as JSON, interpreted by the types that its schema allows.

    Text that is JSON, or a Python literal, of an allowed type other than string is that value; any other text is a
    string.
    """
    if parameter.types <= _STRING:
        return json_string(text)
    stripped = text.strip()
    value = _loads(stripped)
    if value is not _NO_VALUE and type_of(value) in parameter.types - _STRING:
        return stripped
    value = _literal(stripped)
    if value is not _NO_VALUE and type_of(value) in parameter.types - _STRING:
        return json.dumps(value, ensure_ascii=False)
    return json_string(text)


_NO_VALUE = object()


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: _NO_VALUE)
    except (ValueError, RecursionError):
        return _NO_VALUE


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null"):
        return None
    try:
        value = ast.literal_eval(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _NO_VALUE
    return list(value) if isinstance(value, tuple) else value
