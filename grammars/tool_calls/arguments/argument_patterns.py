"""The two patterns of a syntax that writes arguments one by one: the call's and the argument's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grammars.values.format import ToolCallFormat
from grammars.tool_calls.pattern import Hole, Pattern, parse_pattern
from grammars.tool_calls.arguments.schema_types import type_of
from special_tokens.errors import ModelError

__all__ = ["Frame"]


@dataclass(frozen=True)
class Frame:
    """The two patterns of a format, taken apart."""

    call: Pattern
    parameter: Pattern  #: up to the value, and the literal behind it where that is one
    separator: str
    end: str  #: the literal behind a value; empty where none is, or where it names the key again (``</$key>``)
    types: Mapping[str, str]
    closing: Pattern = ()  #: what stands behind a value where it names the key again

    @classmethod
    def of(cls, form: ToolCallFormat, call: str, parameter: str) -> Frame:
        """The frame of a format, with these patterns where it names none."""
        call_pattern = parse_pattern(form.option("call", call))
        pattern = parse_pattern(form.option("parameter", parameter))
        if Hole("parameters") not in call_pattern or Hole("key") not in pattern or Hole("value") not in pattern:
            raise ModelError("the patterns lack $parameters, $key or $value", place="tool_calls.options")
        behind = pattern[pattern.index(Hole("value")) + 1 :]
        last = behind[0] if len(behind) == 1 else ""
        pairs = str(form.option("types", "")).split()
        types = dict(pair.split("=", 1) for pair in pairs)
        closing: Pattern = behind if Hole("key") in behind else ()
        if behind and not closing and not isinstance(last, str):
            raise ModelError("behind $value only text and $key may stand", place="tool_calls.options")
        pattern = pattern[: len(pattern) - len(closing)]
        separator = str(form.option("separator", ""))
        return cls(call_pattern, pattern, separator, last if isinstance(last, str) else "", types, closing)

    def end_of(self, key: str) -> str:
        """What stands behind the value of ``key``."""
        if not self.closing:
            return self.end
        return "".join(key if isinstance(part, Hole) else part for part in self.closing)

    @property
    def flag(self) -> str:
        """The hole that tells a value's type, or ""."""
        return next((p.name for p in self.parameter if isinstance(p, Hole) and p.name in ("is_string", "type")), "")

    def flag_text(self, type_name: str) -> str:
        """What the flag says for a JSON type."""
        default = ("true" if type_name == "string" else "false") if self.flag == "is_string" else type_name
        return self.types.get(type_name, default)

    @property
    def whole_flag(self) -> str:
        """What the flag says for whole numbers where it tells them from others; else ""."""
        flag = self.types.get("integer", "") if self.flag == "type" else ""
        return "" if flag == self.flag_text("number") else flag

    def flag_of(self, value: Any) -> str:
        """What the flag says for a value."""
        if self.whole_flag and isinstance(value, int) and not isinstance(value, bool):
            return self.whole_flag
        return self.flag_text(type_of(value))

    @property
    def tail(self) -> str:
        """The literal behind the last parameter."""
        behind = self.call[self.call.index(Hole("parameters")) + 1 :]
        return behind[0] if behind and isinstance(behind[0], str) else ""

    def tail_of(self, name: str) -> str:
        """Everything behind the last parameter; some close a call with its name (``</$name>``)."""
        behind = self.call[self.call.index(Hole("parameters")) + 1 :]
        return "".join(name if isinstance(part, Hole) else part for part in behind)

    @property
    def opening(self) -> str:
        """The literal in front of a parameter's key; empty where none is."""
        first = self.parameter[0]
        return first if isinstance(first, str) else ""

    def name_ends(self, form: ToolCallFormat) -> tuple[str, ...]:
        """What may follow the name where the call's pattern has the parameters right behind it."""
        return (self.opening, self.tail or form.call_end)
