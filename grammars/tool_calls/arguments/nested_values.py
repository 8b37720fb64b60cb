"""Objects and lists as elements, as arguments themselves are written: ``<opts><unit>C</unit></opts>``.

The JSON schema compiler cannot write elements, so the grammar of a value is built here from its schema.  Elements say
objects whose keys are all known, lists whose items are all alike, and either of them or null.  Any other object or list
(free keys, unions, further keywords) is written as JSON in the place of its elements.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from grammars.tool_calls.arguments.argument_patterns import ArgumentPatterns
from grammars.tool_calls.arguments.parameter import Parameter, arrange
from grammars.tool_calls.arguments.schema_types import resolve, types
from grammars.tool_calls.arguments.values import LiteralWords, RawValues, json_string
from grammars.tool_calls.names import check_name
from grammars.tool_calls.pattern import Hole
from grammars.tool_calls.protocol import SchemaNode
from grammars.tool_calls.reader import ReadStep
from grammars.tool_calls.section import SectionReader
from grammars.tree.markers import Markers
from grammars.tree.nodes import EMPTY, Group, Node, Ref, RuleDef, Text, alt, repeat, seq
from grammars.values.report import ReportRow
from grammars.values.spelling import Spelling
from special_tokens.errors import ModelError

__all__ = ["NestedValues"]

_CONTAINERS = frozenset({"object", "array"})
#: The keywords that elements say, and those that say nothing of a value.
_SAID = {
    "object": {"type", "properties", "required", "additionalProperties"},
    "array": {"type", "items", "minItems", "maxItems"},
}
_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "$comment", "$defs", "definitions"}


class _Elements(NamedTuple):
    """The elements of an object, or the one of a list with the least and most number of items."""

    is_list: bool
    children: tuple[Parameter, ...]
    least: int = 0
    most: int | None = None


class NestedValues(RawValues):
    """Objects and lists as elements, ``item`` being the key of a list's; all other values as `RawValues`."""

    def __init__(self, words: LiteralWords, spelling: Spelling, patterns: ArgumentPatterns, item: str) -> None:
        super().__init__(words, spelling)
        self.item = item
        self.patterns = patterns
        parts = [part for part in patterns.parameter if isinstance(part, str)]
        if patterns.parameter[1::2] != (Hole("key"), Hole("value")) or not patterns.closing or patterns.separator:
            raise ModelError("nested values need one tag before a value and one after it", place="tool_calls.options")
        self.opening, self.middle = parts

    def is_raw(self, parameter: Parameter) -> bool:
        return bool(parameter.types & (_CONTAINERS | {"string"}))

    # -- writing

    def node(self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode) -> Node:
        rules: dict[str, RuleDef] = {}
        value = self._value(parameter, end, markers, schema, rules)
        return Group("value", value, rules) if rules else value

    def _value(
        self, parameter: Parameter, end: str, markers: Markers, schema: SchemaNode, rules: dict[str, RuleDef]
    ) -> Node:
        if self._elements(parameter) is None:
            return super().node(parameter, end, markers, schema)
        text = json.dumps(parameter.schema, sort_keys=True, default=str)
        body: Node
        if '"$ref"' in text:  # it may be written in several places, and within itself
            name = "elements_" + hashlib.sha256(text.encode()).hexdigest()[:12]
            if name not in rules:
                rules[name] = RuleDef(EMPTY)
                rules[name] = RuleDef(self._body(parameter, markers, schema, rules))
            body = Ref(name)
        else:
            body = self._body(parameter, markers, schema, rules)
        null = parameter.types - _CONTAINERS
        words = [*null, *self.words.options(parameter.only(null))] if null else []
        return seq(alt(body, *words), markers.node(end))

    def _body(self, parameter: Parameter, markers: Markers, schema: SchemaNode, rules: dict[str, RuleDef]) -> Node:
        elements = self._elements(parameter)
        assert elements is not None
        written = []
        for child in elements.children:
            check_name(child.key, self.patterns.parameter, place=child.place, hole="key")
            value = self._value(child, self.patterns.end_of(child.key), markers, schema, rules)
            lead = markers.node(self.opening), Text(child.key), markers.node(self.middle)
            written.append((child.key, child.required, seq(*lead, value)))
        if elements.is_list:
            return repeat(written[0][2], elements.least, elements.most)
        return arrange(written, None, EMPTY, "schema")

    def unwritable(self, parameter: Parameter, end: str, markers: Markers) -> tuple[ReportRow, ...]:
        return tuple(self._rows(parameter, end, markers, set()))

    def _rows(self, parameter: Parameter, end: str, markers: Markers, seen: set[int]) -> Iterator[ReportRow]:
        elements = self._elements(parameter)
        if elements is None:
            yield from super().unwritable(parameter, end, markers)
        elif id(parameter.schema) not in seen:
            seen.add(id(parameter.schema))
            for child in elements.children:
                yield from self._rows(child, self.patterns.end_of(child.key), markers, seen)

    def render(self, value: Any, parameter: Parameter, end: str) -> str:
        elements = self._elements(parameter)
        if elements is None or not isinstance(value, Mapping | list | tuple):
            return super().render(value, parameter, end)
        pairs = value.items() if isinstance(value, Mapping) else ((self.item, item) for item in value)
        children = {child.key: child for child in elements.children}
        out = ""
        for key, inner in pairs:
            child, closing = children.get(key, Parameter(key, True, {})), self.patterns.end_of(key)
            out += f"{self.opening}{key}{self.middle}{self.render(inner, child, closing)}{closing}"
        return out

    # -- reading

    def read(self, reader: SectionReader, parameter: Parameter, end: str) -> ReadStep:
        is_text, opening = "string" in parameter.types, reader.markers.marked(self.opening)
        comes = reader.exactly if is_text else reader.try_literal  # white space may be part of a text
        if not parameter.types & _CONTAINERS:
            yield from super().read(reader, parameter, end)
        elif (yield from comes(end)):
            reader.arguments('""' if is_text else "{}" if "object" in parameter.types else "[]")
        elif (yield from comes(opening)):
            yield from self._read_elements(reader, parameter, end, opening)
        else:
            yield from super().read(reader, parameter, end)

    def _read_elements(self, reader: SectionReader, parameter: Parameter, end: str, opening: str) -> ReadStep:
        """Read elements, of which the first is open, and the end of their value."""
        kinds, lead = parameter.types & _CONTAINERS, ""
        while not lead or not (yield from reader.try_literal(end)):
            if lead:
                yield from reader.literal(opening)
            key, _ = yield from reader.until(reader.markers.marked(self.middle))
            if not lead:  # the key tells what the schema does not
                is_list = key == self.item if len(kinds) > 1 else "array" in kinds
                parameter = _option(parameter, "array" if is_list else "object")
                lead = "[" if is_list else "{"
                reader.arguments(lead)
            else:
                reader.arguments(", ")
            reader.arguments("" if is_list else f"{json_string(key)}: ")
            yield from self.read(
                reader, _member(parameter, None if is_list else key), reader.markers.marked(self.patterns.end_of(key))
            )
        reader.arguments("]" if is_list else "}")

    # -- schemas

    def _elements(self, parameter: Parameter) -> _Elements | None:
        """The elements in which values of the parameter are written; None if they are not written as elements."""
        kinds = parameter.types & _CONTAINERS
        if len(kinds) != 1 or parameter.types - kinds - {"null"}:
            return None
        (kind,) = kinds
        inside = _option(parameter, kind)
        schema = inside.schema
        if not isinstance(schema, Mapping) or schema.keys() - _SAID[kind] - _ANNOTATIONS:
            return None
        if kind == "array":
            item = replace(_member(inside, None), key=self.item)
            limits = int(schema.get("minItems", 0)), schema.get("maxItems")
            return _Elements(True, (item,), *limits) if "items" in schema else None
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        if not properties or required - set(properties) or schema.get("additionalProperties", False) is not False:
            return None
        children = (replace(_member(inside, key), key=key, required=key in required) for key in properties)
        return _Elements(False, tuple(children))


def _option(parameter: Parameter, kind: str) -> Parameter:
    """The parameter with its references followed and the only option of its unions that allows values of ``kind``."""
    schema = resolve(parameter.schema, parameter.root)
    while isinstance(schema, Mapping):
        union = next((key for key in ("anyOf", "oneOf") if key in schema), "")
        some = [option for option in schema.get(union, ()) if kind in types(option, parameter.root)]
        others = {key: value for key, value in schema.items() if key != union}
        inner = resolve(some[0], parameter.root) if len(some) == 1 else None
        if not isinstance(inner, Mapping) or others.keys() & inner.keys() - _ANNOTATIONS:
            break
        schema = {**others, **inner}
    return replace(parameter, schema=schema)


def _member(parameter: Parameter, key: str | None) -> Parameter:
    """A property, or without a key an item, of what the parameter's schema describes; any value if it is silent."""
    schema = parameter.schema if isinstance(parameter.schema, Mapping) else {}
    if key is None:
        return parameter.inside(schema.get("items", True), "items")
    inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", True))
    return parameter.inside(True if inner is False else inner, "properties", key)
