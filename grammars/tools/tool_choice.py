"""OpenAI's ``tool_choice``: which of the tools may be called, and whether one must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grammars.values.tool import Tool
from special_tokens.errors import ToolError, shown

__all__ = ["ToolChoice", "normal_choice"]


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The choice of a request: no calls, or calls of ``tools`` allowed or required; ``named``: of one by its name."""

    mode: Literal["none", "auto", "required"]
    tools: tuple[Tool, ...] = ()
    named: bool = False


def normal_choice(tool_choice: Any, tools: Sequence[Tool]) -> ToolChoice:
    """Read a ``tool_choice`` in any of OpenAI's forms.

    These are ``none``, ``auto``, ``required``; one tool, as an object or by name; ``allowed_tools`` with a mode.
    Raises `ToolError` for any other value and for unknown tools.
    """
    if tool_choice is None:
        return ToolChoice("auto" if tools else "none", tuple(tools))
    if tool_choice == "none":
        return ToolChoice("none")
    if tool_choice in ("auto", "required"):
        if not tools:
            raise ToolError(f"{shown(tool_choice)} without tools", place="tool_choice", hint="pass tools")
        return ToolChoice(tool_choice, tuple(tools))
    if isinstance(tool_choice, Mapping) and tool_choice.get("type") == "allowed_tools":
        return _allowed(tool_choice, tools)
    return ToolChoice("required", (_named(tool_choice, tools, "tool_choice"),), named=True)


def _allowed(tool_choice: Mapping[str, Any], tools: Sequence[Tool]) -> ToolChoice:
    """Chat completions wrap mode and tools in ``allowed_tools``; the Responses API has them next to ``type``."""
    inner = tool_choice.get("allowed_tools", tool_choice)
    place = "tool_choice.allowed_tools"
    if not isinstance(inner, Mapping) or not isinstance(inner.get("tools"), list | tuple) or not inner["tools"]:
        raise ToolError(
            "the list of allowed tools is missing or empty", place=place, expected='{"mode": ..., "tools": [...]}'
        )
    mode = inner.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise ToolError(f"unknown mode {shown(mode)}", place=f"{place}.mode", expected="auto or required")
    chosen = [_named(entry, tools, f"{place}.tools[{i}]") for i, entry in enumerate(inner["tools"])]
    return ToolChoice(mode, tuple(tool for tool in tools if tool in chosen))


def _named(value: Any, tools: Sequence[Tool], place: str) -> Tool:
    name = value
    if isinstance(value, Mapping):
        inner = value.get(str(value.get("type", "")), value)
        name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise ToolError(f"cannot read {shown(value)}", place=place, expected="none, auto, required or a tool by name")
    for tool in tools:
        if tool.name == name:
            return tool
    names = ", ".join(tool.name for tool in tools) or "none"
    words = "none, auto, required or " if place == "tool_choice" else ""
    raise ToolError(f"there is no tool {shown(name)}", place=place, expected=f"{words}one of: {names}")
