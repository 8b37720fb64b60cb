"""The patterns of a syntax that writes arguments one by one: that of a call and that of an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grammars.tool_calls.arguments.schema_types import type_of
from grammars.tool_calls.pattern import CallPattern, Hole, fill, parse_pattern
from grammars.values.format import ToolCallFormat
from special_tokens.errors import ModelError

__all__ = ["ArgumentPatterns"]


@dataclass(frozen=True)
class ArgumentPatterns:
    """The two patterns of a format, split into their parts."""

    call: CallPattern
    parameter: CallPattern  #: up to the value, and the literal after it if there is only one
    separator: str
    end: str  #: the literal after a value; "" if there is none or if it repeats the key (``</$key>``)
    types: Mapping[str, str]
    closing: CallPattern = ()  #: the parts after a value if they repeat the key

    @classmethod
    def of(cls, form: ToolCallFormat, call: str, parameter: str) -> ArgumentPatterns:
        """The patterns in the options of ``form``; ``call`` and ``parameter`` are the defaults."""
        call_pattern = parse_pattern(form.option("call", call))
        pattern = parse_pattern(form.option("parameter", parameter))
        if Hole("parameters") not in call_pattern or Hole("key") not in pattern or Hole("value") not in pattern:
            raise ModelError("the patterns lack $parameters, $key or $value", place="tool_calls.options")
        after = pattern[pattern.index(Hole("value")) + 1 :]
        last = after[0] if len(after) == 1 else ""
        pairs = str(form.option("types", "")).split()
        types = dict(pair.split("=", 1) for pair in pairs)
        closing: CallPattern = after if Hole("key") in after else ()
        if after and not closing and not isinstance(last, str):
            raise ModelError("only text and $key may follow $value", place="tool_calls.options")
        pattern = pattern[: len(pattern) - len(closing)]
        separator = str(form.option("separator", ""))
        return cls(call_pattern, pattern, separator, last if isinstance(last, str) else "", types, closing)

    def end_of(self, key: str) -> str:
        """The text after the value of argument ``key``."""
        if not self.closing:
            return self.end
        return fill(self.closing, {"key": key})

    @property
    def flag(self) -> str:
        """The name of the hole for the type flag of a value, or ""."""
        return next((p.name for p in self.parameter if isinstance(p, Hole) and p.name in ("is_string", "type")), "")

    def flag_text(self, type_name: str) -> str:
        """The text of the type flag for a JSON type."""
        default = ("true" if type_name == "string" else "false") if self.flag == "is_string" else type_name
        return self.types.get(type_name, default)

    @property
    def whole_flag(self) -> str:
        """The text of the type flag for integers if it differs from that for numbers, else ""."""
        flag = self.types.get("integer", "") if self.flag == "type" else ""
        return "" if flag == self.flag_text("number") else flag

    def flag_of(self, value: Any) -> str:
        """The text of the type flag for a value."""
        if self.whole_flag and isinstance(value, int) and not isinstance(value, bool):
            return self.whole_flag
        return self.flag_text(type_of(value))

    @property
    def tail(self) -> str:
        """The literal after the last argument, or ""."""
        after = self.call[self.call.index(Hole("parameters")) + 1 :]
        return after[0] if after and isinstance(after[0], str) else ""

    def tail_of(self, name: str) -> str:
        """All text after the last argument of a call of ``name``; some families repeat the name (``</$name>``)."""
        after = self.call[self.call.index(Hole("parameters")) + 1 :]
        return "".join(name if isinstance(part, Hole) else part for part in after)

    @property
    def opening(self) -> str:
        """The literal before an argument's key, or ""."""
        first = self.parameter[0]
        return first if isinstance(first, str) else ""

    def name_ends(self, form: ToolCallFormat) -> tuple[str, ...]:
        """The texts that may follow the name if the arguments follow it directly."""
        return (self.opening, self.tail or form.call_end)
