"""Tools as callers bring them, and what the caller allows of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

from grammars.json_schema.python_types import schema_of_function
from grammars.tools import Tool
from special_tokens.errors import ToolError

__all__ = ["Choice", "normal_choice", "normal_tools"]

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Choice:
    """What ``tool_choice`` allows: no call, maybe a call, or nothing but calls, and of which tools."""

    mode: Literal["none", "auto", "required"]
    tools: tuple[Tool, ...] = ()
    named: bool = False


def normal_tools(tools: Iterable[Any] | None) -> tuple[Tool, ...]:
    """The tools as values; raises `ToolError` for one without a name, twice the same name, or of no known kind."""
    if tools is None:
        return ()
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise ToolError(f"{type(tools).__name__} is not a list of tools", place="tools", expected="a list")
    out: list[Tool] = []
    for i, tool in enumerate(tools):
        normal = _tool(tool, f"tools[{i}]")
        if any(normal.name == other.name for other in out):
            raise ToolError(
                f"two tools are called {normal.name!r}", place=f"tools[{i}].name", expected="distinct names"
            )
        out.append(normal)
    return tuple(out)


def normal_choice(tool_choice: Any, tools: Sequence[Tool]) -> Choice:
    """``none``, ``auto``, ``required`` or one tool by name (OpenAI's object, or just the name)."""
    if tool_choice is None:
        return Choice("auto" if tools else "none", tuple(tools))
    if tool_choice == "none":
        return Choice("none")
    if tool_choice in ("auto", "required"):
        if not tools:
            raise ToolError(f"{tool_choice!r} without tools", place="tool_choice", hint="pass tools")
        return Choice(tool_choice, tuple(tools))
    name = tool_choice
    if isinstance(tool_choice, Mapping):
        inner = tool_choice.get(str(tool_choice.get("type", "")), tool_choice)
        name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise ToolError(
            f"cannot read {tool_choice!r}", place="tool_choice", expected="none, auto, required or a tool by name"
        )
    named = tuple(tool for tool in tools if tool.name == name)
    if not named:
        known = ", ".join(tool.name for tool in tools) or "none"
        raise ToolError(f"there is no tool {name!r}", place="tool_choice", expected=f"one of: {known}")
    return Choice("required", named, named=True)


def _tool(tool: Any, place: str) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, type) and issubclass(tool, pydantic.BaseModel):
        return Tool(tool.__name__, (tool.__doc__ or "").strip(), tool.model_json_schema())
    if isinstance(tool, Mapping):
        return _mapping(tool, place)
    if hasattr(tool, "inputSchema") and hasattr(tool, "name"):  # an MCP tool record
        return _build(tool.name, getattr(tool, "description", ""), tool.inputSchema, None, place)
    if isinstance(tool, Callable):  # type: ignore[arg-type]
        name, description, schema = schema_of_function(tool)
        return Tool(name, description, schema)
    raise ToolError(
        f"cannot read a tool from {type(tool).__name__}",
        place=place,
        expected="an OpenAI tool, a Python function, a pydantic model or an MCP tool",
    )


def _mapping(tool: Mapping[str, Any], place: str) -> Tool:
    kind = tool.get("type", "function")
    if "inputSchema" in tool:
        return _build(tool.get("name"), tool.get("description"), tool["inputSchema"], None, place)
    if kind not in ("function", "object") and "function" not in tool:
        raise ToolError(f"unknown type {kind!r}", place=f"{place}.type", expected="function")
    function = tool.get("function", tool)
    if not isinstance(function, Mapping):
        raise ToolError("function is not an object", place=f"{place}.function")
    parameters = function.get("parameters")
    return _build(function.get("name"), function.get("description"), parameters, function.get("strict"), place)


def _build(name: Any, description: Any, parameters: Any, strict: Any, place: str) -> Tool:
    if not isinstance(name, str) or not name.strip():
        raise ToolError("the tool has no name", place=f"{place}.name", expected="a name")
    if re.search(r"[\x00-\x1f\x7f]", name):
        raise ToolError(f"name {name!r} holds a control character", place=f"{place}.name")
    if parameters is None:
        parameters = _NO_PARAMETERS
    if not isinstance(parameters, Mapping):
        raise ToolError("parameters are not a JSON schema", place=f"{place}.parameters", expected="an object")
    return Tool(name, str(description or ""), dict(parameters), strict if isinstance(strict, bool) else None)
