"""Syntaxes in which a call is one JSON object with the name and the arguments.

The objects stand between tags (Qwen, Hermes), in one array (Mistral, Command R), or alone (Llama 3.1).  Options:

* ``body``: the object as a pattern, ``{"name": "$name", "arguments": $arguments}``; holes ``$name``, ``$arguments``,
  ``$id`` and ``$index``;
* or, if the object is spelled in the usual way, only ``name_key`` and ``args_key``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from grammars.tool_calls.json_reader import read_key, read_value, stream_value
from grammars.tool_calls.names import hole_nodes, hole_texts
from grammars.tool_calls.pattern import Hole, escape_literal, fill, parse_pattern
from grammars.tool_calls.protocol import Quote, SchemaNode
from grammars.tool_calls.reader import Reader, ReadStep, UnexpectedText
from grammars.tool_calls.section import SectionReader, opening_marker, wrapped
from grammars.tool_calls.value_table import lead_texts, until, whole_arguments
from grammars.tools.parameters import arguments_schema, arguments_text, ordered, pointer
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, Rule, alt, seq
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep
from special_tokens.errors import ModelError

__all__ = ["JsonSyntax"]

#: The frame of calls that Phi writes, though its template shows none.
_LIST_START, _LIST_END = "<|tool_call|>[", "]<|/tool_call|>"
#: Strings of JSON, in which end markers are ordinary text.
_JSON_QUOTES = (Quote('"', '"', "\\"),)


@dataclass(frozen=True, slots=True)
class _JsonBody:
    """The object of a call: its pattern, and the places of its holes as paths of keys.

    ``name`` is None if the name is the key of the arguments; then ``arguments`` ends with "".
    """

    pattern: str
    name: tuple[str, ...] | None
    arguments: tuple[str, ...]
    id: tuple[str, ...] | None = None

    def is_inside(self, path: tuple[str, ...]) -> bool:
        """Whether some hole lies deeper than ``path``."""
        places = [place for place in (self.name, self.arguments, self.id) if place is not None]
        return any(len(place) > len(path) and place[: len(path)] == path for place in places)


def _json_body(form: ToolCallFormat) -> _JsonBody:
    """The body of a format; raises `ModelError` if its pattern is not a JSON object with both holes."""
    pattern = form.option("body")
    if pattern is None:
        name, arguments = (
            escape_literal(json.dumps(form.option(key, default), ensure_ascii=False))
            for key, default in (("name_key", "name"), ("args_key", "arguments"))
        )
        pattern = f'{{{name}: "$name", {arguments}: $arguments}}'
    return _read_pattern(str(pattern))


@lru_cache(maxsize=256)
def _read_pattern(pattern: str) -> _JsonBody:
    marks = {"name": "\ue000", "arguments": '"\ue001"', "id": "\ue002", "index": "\ue003"}
    try:
        paths = dict(_paths(_loaded(pattern, marks), ()))
    except (ValueError, KeyError) as error:
        raise ModelError(f"the body is not a JSON object with holes: {error}", place=pattern) from None
    if "\ue001" not in paths or "\ue000" not in paths:
        raise ModelError("the body lacks $name or $arguments", place=pattern)
    name: tuple[str, ...] | None = paths["\ue000"]
    if name is not None and name and name[-1] == "\ue000":
        name = None
    arguments = tuple("" if key == "\ue000" else key for key in paths["\ue001"])
    return _JsonBody(pattern, name, arguments, paths.get("\ue002", paths.get("\ue003")))


#: Placeholder for a call's index that the object holds as a number.
_NUMBER = 7_000_001


def _loaded(pattern: str, marks: Mapping[str, str]) -> Any:
    try:
        return json.loads(fill(pattern, marks))
    except ValueError:
        return json.loads(fill(pattern, {**marks, "index": str(_NUMBER)}))


def _paths(value: Any, path: tuple[str, ...]) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Pairs of mark and path; the path of a mark that is a key ends with that key."""
    if not isinstance(value, dict):
        mark = next((mark for mark in ("\ue002", "\ue003") if isinstance(value, str) and mark in value), value)
        return [(mark, path)] if isinstance(mark, str) else []
    out = [(key, (*path, key)) for key in value if key == "\ue000"]
    for key, inner in value.items():
        out += _paths(inner, (*path, key))
    return out


def _name_openings(form: ToolCallFormat, body: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    """The texts that open a section without a marker: the ``body`` up to the end of each tool's name.

    Where the object does not begin with the name, all that is before its first hole.
    """
    lead, first, *after = (*parse_pattern(body), "")
    opening = form.section_start + form.call_start + (lead if isinstance(lead, str) else "")
    if first != Hole("name"):
        return (opening or "{",)
    end = str(after[0])[:1]
    return tuple(dict.fromkeys(f"{opening}{_quoted(tool.name)}{end}" for tool in tools))


class JsonSyntax:
    """A syntax whose calls are JSON objects; a tag opens a section, else the first object up to a tool's name does."""

    def __init__(self, id: str) -> None:
        self.id = id

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        return _JSON_QUOTES

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        marker = opening_marker(form)
        if marker.strip(" \t\r\n[{"):
            return (marker,)
        return tuple(text for body in self.bodies(form) for text in _name_openings(form, body, tools))

    def other_triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        """The texts that open an object alone without blanks or with one after its brace, where no mask guided."""
        if form.section_start + form.call_start:
            return ()
        lead = _json_body(form).pattern.partition("$arguments")[0].rstrip()
        leads = [re.sub(r'(?<=[":,]) ', "", lead), "{ " + lead.removeprefix("{")]
        leads += [_LIST_START + lead] * (form.max_calls is None)
        return tuple(fill(text, {"name": _quoted(tool.name)}) for tool in tools for text in leads)

    def bodies(self, form: ToolCallFormat) -> tuple[str, ...]:
        """The patterns of objects that are calls; calls are rendered by the first one.

        An object alone may also begin with a type, as Llama writes it and as tools are shown to it.
        """
        body = _json_body(form).pattern
        if form.section_start + form.call_start or '"type"' in body:
            return (body,)
        return (body, '{"type": "function", ' + body.removeprefix("{"))

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        arguments = schema(ordered(form, arguments_schema(tool)), pointer(tool))
        values = hole_nodes(form, _quoted(tool.name)) | {"arguments": Rule(f"arguments_{tool.name}", arguments)}
        objects = (
            seq(*(values[part.name] if isinstance(part, Hole) else markers.node(part) for part in parse_pattern(body)))
            for body in self.bodies(form)
        )
        return seq(markers.node(form.call_start), alt(*objects), markers.node(form.call_end))

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        leads = (
            (pointer(tool), lead_texts(markers, until(parse_pattern(body), "arguments"), {"name": _quoted(tool.name)}))
            for tool in tools
            for body in self.bodies(form)
        )
        return whole_arguments(markers, leads)

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        body, texts = _json_body(form).pattern, []
        for i, call in enumerate(calls):
            inside = {"name": _quoted(call.name), "arguments": arguments_text(call, form.spelling)}
            texts.append(fill(body, hole_texts(form, call.name, i, call.id) | inside))
        return wrapped(form, texts)

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> Reader:
        return _JsonReader(form, tools, markers)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)[1:-1]


#: Models write their arguments under either key, whatever the template asks for.
_USUAL_KEYS = ("arguments", "parameters")


class _JsonReader(SectionReader):
    """Parser for members in any order with any white space; arguments before the name are held back until it.

    Arguments are read under the format's own key and under `_USUAL_KEYS`.
    """

    body_start = "{"

    def __init__(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> None:
        super().__init__(form, tools, markers)
        self._body = _json_body(form)
        self._name: str | None = None
        self._id = ""
        self._begun = False
        self._held: list[str] = []
        self._has_arguments = False

    def section(self) -> ReadStep:
        is_list = not self.section_start + self.call_start and (
            yield from self.try_literal(self.markers.marked(_LIST_START))
        )
        yield from super().section()
        if is_list:
            for text in _LIST_END[:1], _LIST_END[1:]:
                yield from self.try_literal(self.markers.marked(text))
            self.keep()

    def call(self) -> ReadStep:
        self._name, self._id, self._begun, self._held, self._has_arguments = None, "", False, [], False
        yield from self._object(())
        self._begin(whole=True)
        if not self._has_arguments:
            self.arguments("{}")
        self.end_call()

    def _object(self, path: tuple[str, ...]) -> ReadStep:
        yield from self.literal("{")
        more = not (yield from self.try_literal("}"))
        while more:
            key = yield from read_key(self)
            yield from self.literal(":")
            yield from self._member((*path, key))
            more = not (yield from self.try_literal("}"))
            if more:
                yield from self.literal(",")

    def _member(self, path: tuple[str, ...]) -> ReadStep:
        body = self._body
        if body.name is None and path[:-1] == body.arguments[:-1] and self._name is None:
            self._name = path[-1]
            yield from self._arguments()
        elif path == body.name:
            self._name = self.name = yield from read_key(self)
            self._begin()
        elif path == body.arguments:
            yield from self._arguments()
        elif path == body.id:
            self._id = (yield from read_value(self)).strip('"')
            self._begin()
        elif body.is_inside(path):
            yield from self._object(path)
        elif path[:-1] == body.arguments[:-1] and path[-1] in _USUAL_KEYS and not self._has_arguments:
            yield from self.space()
            if (yield from self.peek()) == "{":
                yield from self._arguments()
            else:
                yield from read_value(self)
        else:
            yield from read_value(self)

    def _arguments(self) -> ReadStep:
        self._has_arguments = True
        self._begin()
        yield from self.space()
        if (yield from self.peek()) == '"':  # some models write the object inside a string
            self._argument_text((yield from self._unwrapped()))
        else:
            yield from stream_value(self, self._argument_text)

    def _unwrapped(self) -> Generator[None, None, str]:
        text = yield from read_value(self)
        try:
            inner = json.loads(text, strict=False)
            return inner if isinstance(json.loads(inner), dict) else text
        except ValueError:
            return text

    def _argument_text(self, text: str) -> None:
        if self._begun:
            self.arguments(text)
        else:
            self._held.append(text)

    def _begin(self, *, whole: bool = False) -> None:
        """Emit the start of the call as soon as its name and its id, if it has an id, are known."""
        if self._begun:
            return
        if self._name is None:
            if whole:
                raise UnexpectedText
            return
        if self._body.id is not None and not self._id and not whole:
            return
        self._begun = True
        self.start_call(self._name, self._id)
        for text in self._held:
            self.arguments(text)
