"""The parser of calls whose arguments are written one by one; it emits the arguments as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping

from grammars.tool_calls.arguments.argument_patterns import ArgumentPatterns
from grammars.tool_calls.arguments.parameter import Parameter, signature
from grammars.tool_calls.arguments.values import ValueCoding
from grammars.tool_calls.names import first_word
from grammars.tool_calls.pattern import Hole
from grammars.tool_calls.reader import ReadStep
from grammars.tool_calls.section import SectionReader
from grammars.tree.markers import Markers
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["ParameterReader"]


class ParameterReader(SectionReader):
    """Parser of a section of such calls."""

    def __init__(
        self,
        form: ToolCallFormat,
        tools: Mapping[str, Tool],
        markers: Markers,
        patterns: ArgumentPatterns,
        coding: ValueCoding,
    ) -> None:
        super().__init__(form, tools, markers)
        self._patterns = patterns
        self._coding = coding
        self._call = self.marked(patterns.call)
        self._parameter = self.marked(patterns.parameter)
        self._separator = markers.marked(patterns.separator)
        self._opening = markers.marked(patterns.opening)
        self._tail = markers.marked(patterns.tail)
        self._signature = signature(None)

    def call(self) -> ReadStep:
        values: dict[str, str] = {}
        for i, part in enumerate(self._call):
            if not isinstance(part, Hole):
                yield from self.literal(part)
            elif part.name == "parameters":
                name = self.begin_call(values)
                self._signature = signature(self.tools.get(name))
                self._tail = self.markers.marked(self._patterns.tail_of(name))
                yield from self._arguments()
                break
            elif part.name == "index":
                values["index"] = yield from self.index()
            else:
                values[part.name] = yield from self._hole_of_call(i)
                self.name = values.get("name", "").strip()
        self.end_call()

    def _hole_of_call(self, i: int) -> Generator[None, None, str]:
        follower = self._call[i + 1]
        if isinstance(follower, str) and follower.strip():
            return (yield from self.hole(follower))
        ends = [first_word(text) for text in (self._opening, self._tail or self.call_end) if text]
        text, end = yield from self.until(*ends, *([follower] if isinstance(follower, str) and follower else []))
        self.back(len(end))
        return text

    def _arguments(self) -> ReadStep:
        number = 0
        while not (yield from self._is_over()):
            if number and self._separator.strip():
                yield from self.literal(self._separator)
            yield from self._argument("{" if number == 0 else ", ")
            number += 1
        self.arguments("}" if number else "{}")

    def _is_over(self) -> Generator[None, None, bool]:
        if self._tail.strip():
            return (yield from self.try_literal(self._tail))
        yield from self.space()
        return (yield from self.starts(first_word(self.call_end)))

    def _argument(self, lead: str) -> ReadStep:
        flag, key, parameter = "", "", self._signature.get("")
        for i, part in enumerate(self._parameter):
            if not isinstance(part, Hole):
                if self._parameter[i + 1 : i + 2] == (Hole("value"),):
                    yield from self._framing(part)
                elif part is not self._parameter[-1]:
                    yield from self.literal(part)
            elif part.name == "value":
                yield from self._coding.read(self, self._typed(parameter, flag), self._end_of(key))
            else:
                text = yield from self.hole(str(self._parameter[i + 1]))
                if part.name == "key":
                    key = text.strip()
                    parameter = self._signature.get(key)
                    self.arguments(f"{lead}{json.dumps(key, ensure_ascii=False)}: ")
                else:
                    flag = text.strip()

    def _end_of(self, key: str) -> str:
        """Return what ends a value: a token alone, whatever white space follows it, else text with its white space."""
        end = self.markers.marked(self._patterns.end_of(key))
        core = end.rstrip()
        return core if "\ud800" <= core[-1:] <= "\udfff" else end

    def _framing(self, text: str) -> ReadStep:
        """Read the literal before a value and, after it, only the white space that the format itself writes."""
        core = text.rstrip()
        yield from self.literal(core)
        if len(core) < len(text):
            yield from self.exactly(text[len(core) :])

    def _typed(self, parameter: Parameter, flag: str) -> Parameter:
        if not self._patterns.flag:
            return parameter
        if self._patterns.flag == "is_string" and flag == self._patterns.flag_text("string"):
            return parameter.only(frozenset({"string"}))
        named = {name for name in _JSON_TYPES if self._patterns.flag_text(name) == flag}
        named |= {"number"} if flag == self._patterns.whole_flag else set()
        return parameter.only(frozenset(named)) if named else parameter


_JSON_TYPES = ("string", "number", "boolean", "null", "object", "array")
