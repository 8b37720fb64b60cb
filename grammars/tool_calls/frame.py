"""The two patterns of a syntax that writes arguments one by one: the call's and the argument's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammars.formats.format import ToolCallFormat
from grammars.tool_calls.pattern import Hole, Pattern, parse_pattern
from special_tokens.errors import ModelError

__all__ = ["Frame"]


@dataclass(frozen=True)
class Frame:
    """The two patterns of a format, taken apart."""

    call: Pattern
    parameter: Pattern
    separator: str
    end: str  #: the literal behind a value; empty where none is
    types: Mapping[str, str]

    @classmethod
    def of(cls, form: ToolCallFormat, call: str, parameter: str) -> Frame:
        """The frame of a format, with these patterns where it names none."""
        call_pattern = parse_pattern(form.option("call", call))
        pattern = parse_pattern(form.option("parameter", parameter))
        if Hole("parameters") not in call_pattern or Hole("key") not in pattern or Hole("value") not in pattern:
            raise ModelError("the patterns lack $parameters, $key or $value", place="tool_calls.options")
        last = pattern[-1]
        pairs = str(form.option("types", "")).split()
        types = dict(pair.split("=", 1) for pair in pairs)
        return cls(call_pattern, pattern, form.option("separator", ""), last if isinstance(last, str) else "", types)

    @property
    def flag(self) -> str:
        """The hole that tells a value's type, or ""."""
        return next((p.name for p in self.parameter if isinstance(p, Hole) and p.name in ("is_string", "type")), "")

    def flag_text(self, type_name: str) -> str:
        """What the flag says for a JSON type."""
        default = ("true" if type_name == "string" else "false") if self.flag == "is_string" else type_name
        return self.types.get(type_name, default)

    @property
    def tail(self) -> str:
        """The literal behind the last parameter."""
        last = self.call[-1]
        return last if isinstance(last, str) and self.call[-2:-1] == (Hole("parameters"),) else ""

    @property
    def opening(self) -> str:
        """The literal in front of a parameter's key; empty where none is."""
        first = self.parameter[0]
        return first if isinstance(first, str) else ""

    def name_ends(self, form: ToolCallFormat) -> tuple[str, ...]:
        """What may follow the name where the call's pattern has the parameters right behind it."""
        return (self.opening, self.tail or form.call_end)
