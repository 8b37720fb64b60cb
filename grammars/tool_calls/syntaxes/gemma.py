"""``call:n{k:<|"|>v<|"|>,j:2}``: bare keys, sorted at every depth; raw strings between delimiters.

The JSON schema compiler cannot write such strings, so the grammar of a value is built here from its schema: objects,
arrays, references, unions, and patterns and lengths of strings.  Options: those of `parameter_list` and ``quote``, the
delimiter of strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grammars.tool_calls.arguments.parameter import Parameter, arrange
from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.arguments.schema_types import ALL_TYPES, resolve, type_of
from grammars.tool_calls.arguments.values import (
    LiteralWords,
    ValueCoding,
    ended_string,
    json_scalar,
    json_string,
    json_text,
    one_of,
    read_text,
)
from grammars.tool_calls.json_reader import read_key, read_value
from grammars.tool_calls.names import check_name
from grammars.tool_calls.pattern import CallPattern, Hole
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import ReadStep
from grammars.tool_calls.section import SectionReader
from grammars.tree.markers import Markers
from grammars.tree.nodes import EMPTY, Group, Node, Ref, RuleDef, Text, alt, opt, repeat, seq
from grammars.tree.nodes import Pattern as Regex
from grammars.values.format import ToolCallFormat
from grammars.values.report import Outcome, ReportRow
from grammars.values.tool import Tool
from grammars.values.watchers import CallStep
from special_tokens.errors import ToolError, shown

__all__ = ["Gemma"]

_QUOTE = '<|"|>'
_KEY: CallPattern = (Hole("key"), ":")
_FREE_KEY = Regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
#: Keywords of objects and arrays that are not read when a value's grammar is built.
_UNREAD = ("allOf", "if", "not", "prefixItems", "contains", "uniqueItems", "minProperties", "maxProperties",
           "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
           "unevaluatedProperties", "unevaluatedItems")  # fmt: skip


class Gemma(ParameterList):
    """The syntax of Gemma 4."""

    def coding(self, form: ToolCallFormat) -> ValueCoding:
        return _GemmaValues(LiteralWords(form.option("words", "")), str(form.option("quote", _QUOTE)))

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        return ()  # the values are not JSON

    def text_ends(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (str(form.option("quote", _QUOTE)),)

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        quote = str(form.option("quote", _QUOTE))
        return (Quote(quote, quote),)


class _GemmaValues:
    def __init__(self, words: LiteralWords, quote: str) -> None:
        self.words = words
        self.quote = quote

    def is_raw(self, parameter: Parameter) -> bool:
        return True

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        return tuple(dict.fromkeys(_relaxed(parameter, set())))  # a listed value that cannot be written is an error

    # -- writing

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        builder = _Builder(self, markers, schema)
        value = builder.value(parameter)
        whole = Group("value", value, builder.rules) if builder.rules else value
        return seq(whole, markers.node(end))

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        match value:
            case str():
                if self.quote in value:
                    raise ToolError(f"the text contains {shown(self.quote)}, which ends a string",
                                    place=parameter.place, expected="a text without it")  # fmt: skip
                return self.quote + value + self.quote
            case Mapping():
                for key in value:
                    check_name(key, _KEY, place=f"{parameter.place}/{key}", hole="key")
                pairs = (f"{k}:{self.render(value[k], parameter.inside(True, k), '')}" for k in sorted(value))
                return "{" + ",".join(pairs) + "}"
            case list() | tuple():
                return "[" + ",".join(self.render(item, parameter, "") for item in value) + "]"
        return json_scalar(value, parameter)

    # -- reading

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        quote = reader.markers.marked(self.quote)
        yield from reader.space()
        if (yield from reader.exactly(quote)):
            yield from read_text(reader, quote)
        elif (yield from reader.exactly("{")):
            yield from self._read_members(reader, "{", "}", end)
        elif (yield from reader.exactly("[")):
            yield from self._read_members(reader, "[", "]", end)
        elif (yield from reader.starts('"')):  # JSON, as models write it without masks
            reader.arguments((yield from read_value(reader)))
        else:
            text, ender = yield from reader.until(",", "}", "]")
            reader.back(len(ender))
            reader.arguments(json_text(text.strip(), parameter))

    def _read_members(self, reader: SectionReader, opening: str, closing: str, end: str) -> ReadStep:
        """Read what follows the first bracket of an object or a list."""
        reader.arguments(opening)
        lead = ""
        while not (yield from reader.try_literal(closing)):
            if lead:
                yield from reader.literal(",")
            if opening == "{":
                yield from reader.space()
                if (yield from reader.starts('"')):
                    key = yield from read_key(reader)
                    yield from reader.literal(":")
                else:
                    key, _ = yield from reader.until(":")
                lead += json_string(key.strip()) + ": "
            reader.arguments(lead)
            yield from self.read(reader, _ANY, end)
            lead = ", "
        reader.arguments(closing)


_ANY = Parameter("", True, {})


def _relaxed(parameter: Parameter, seen: set[int]) -> Iterator[ReportRow]:
    """Yield rows for the keywords of objects and arrays that `_Builder` does not read."""
    schema = resolve(parameter.schema, parameter.root)
    if not isinstance(schema, Mapping) or id(parameter.schema) in seen or "const" in schema or "enum" in schema:
        return
    seen.add(id(parameter.schema))
    for key in _UNREAD if parameter.types & {"object", "array"} else ():
        if key in schema:
            reason = "values in this model's call syntax are written without it"
            yield ReportRow(parameter.place, key, Outcome.RELAXED, reason)
    inner: Mapping[str, Any] = schema.get("properties", {})
    for key, value in inner.items():
        yield from _relaxed(parameter.inside(value, "properties", key), seen)
    for key in ("additionalProperties", "items"):
        yield from _relaxed(parameter.inside(schema.get(key, True), key), seen)
    for key in ("anyOf", "oneOf"):
        for i, option in enumerate(schema.get(key, ())):
            yield from _relaxed(parameter.inside(option, key, str(i)), seen)


class _Builder:
    """Builds the grammar of one value; ``rules`` collects the rules of referenced schemas."""

    def __init__(self, coding: _GemmaValues, markers: Markers, schema: SchemaNode) -> None:
        self.coding = coding
        self.markers = markers
        self.schema = schema
        self.rules: dict[str, RuleDef] = {}
        self._names: dict[str, str] = {}

    def value(self, parameter: Parameter) -> Node:
        schema = parameter.schema
        if isinstance(schema, Mapping) and "$ref" in schema:
            return self._shared(str(schema["$ref"]), parameter)
        if schema is True or schema == {}:
            return self._shared("any", parameter)
        return self._direct(parameter)

    def _shared(self, ref: str, parameter: Parameter) -> Node:
        """A reference to a rule for the schema called ``ref``, which may refer to itself."""
        if ref not in self._names:
            name = self._names[ref] = f"value_{len(self._names)}"
            self.rules[name] = RuleDef(EMPTY)
            inside = parameter.inside(resolve(parameter.schema, parameter.root))
            self.rules[name] = RuleDef(self._direct(inside))
        return Ref(self._names[ref])

    def _direct(self, parameter: Parameter) -> Node:
        schema = parameter.schema if isinstance(parameter.schema, Mapping) else {}
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if listed is not None:
            kept = [value for value in listed if type_of(value) in parameter.types]
            return one_of((self._constant(self.coding.render(value, parameter, "")) for value in kept), parameter)
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                some = (inside for inside in map(parameter.inside, schema[key]) if inside.types)
                return one_of(map(self.value, some), parameter)
        types = sorted(parameter.types & ALL_TYPES)
        return one_of((self._of_type(name, parameter, schema) for name in types), parameter)

    def _constant(self, text: str) -> Node:
        """The node of a rendered value; only its delimiters may become marker tokens, the rest is the client's text."""
        parts: list[Node] = []
        for piece in text.split(self.coding.quote):
            parts += [self.markers.node(self.coding.quote), Text(piece)]
        return seq(*parts[1:])

    def _of_type(self, name: str, parameter: Parameter, schema: Mapping[str, Any]) -> Node:
        match name:
            case "string":
                quote = self.coding.quote
                return seq(self.markers.node(quote), ended_string(parameter, quote, self.markers))
            case "object":
                return seq("{", self._members(parameter, schema), "}")
            case "array":
                return seq("[", self._items(parameter, schema), "]")
        kept = parameter.only(frozenset({name}))
        return alt(self.schema(kept.whole_schema, parameter.place), *self.coding.words.options(kept))

    def _members(self, parameter: Parameter, schema: Mapping[str, Any]) -> Node:
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = set(schema.get("required", ()))
        named = [
            (key, key in required, seq(self._key(key, parameter), self.value(parameter.inside(inner, key))))
            for key, inner in properties.items()
        ]
        open_to = schema.get("additionalProperties", True)
        extra = None
        if open_to is not False:
            extra = seq(_FREE_KEY, ":", self.value(parameter.inside(open_to)))
        return arrange(named, extra, self.markers.node(","), "sorted")

    def _key(self, key: str, parameter: Parameter) -> Node:
        check_name(key, _KEY, place=f"{parameter.place}/{key}", hole="key")
        return seq(key, ":")

    def _items(self, parameter: Parameter, schema: Mapping[str, Any]) -> Node:
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        items = True if "prefixItems" in schema else schema.get("items", True)  # the former are not enforced
        if most == 0 or (items is False and not least):
            return EMPTY
        item = self.value(parameter.inside(items, "items"))
        more = repeat(seq(",", item), max(least - 1, 0), None if most is None else int(most) - 1)
        return seq(item, more) if least else opt(item, more)
