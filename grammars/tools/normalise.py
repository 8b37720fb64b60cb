"""Tools as callers pass them (OpenAI, MCP, Python functions, pydantic models), turned into `Tool` values."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pydantic

from grammars.json_schema.report.misspelt import unlisted_keys
from grammars.tools.custom_tools import custom_input
from grammars.tools.python_tools import function_tool, model_tool
from grammars.values.json_copy import json_copy
from grammars.values.tool import Tool
from special_tokens.errors import ToolError, shown

__all__ = ["MAX_TOOLS", "listed_tools", "normal_tools"]

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
MAX_TOOLS = 1_000


def listed_tools(tools: Any) -> Any:
    """Return the list of tools in the answer of an MCP session (``await session.list_tools()``); others as they are."""
    listed = None if isinstance(tools, Mapping | str | type) else getattr(tools, "tools", None)
    return listed if isinstance(listed, list | tuple) else tools


def normal_tools(tools: Iterable[Any] | None) -> tuple[Tool, ...]:
    """Turn tools into values; raises `ToolError` for a missing or repeated name or an unknown kind of tool."""
    if tools is None:
        return ()
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise ToolError(f"{type(tools).__name__} is not a list of tools", place="tools", expected="a list")
    out: dict[str, Tool] = {}
    for i, tool in enumerate(tools):
        normal = _tool(tool, f"tools[{i}]")
        if normal.name in out:
            raise ToolError(
                f"two tools are called {shown(normal.name)}", place=f"tools[{i}].name", expected="distinct names"
            )
        out[normal.name] = normal
    if len(out) > MAX_TOOLS:
        raise ToolError(f"{len(out)} tools are too many", place="tools", expected=f"at most {MAX_TOOLS}")
    return tuple(out.values())


def _tool(tool: Any, place: str) -> Tool:
    if isinstance(tool, Tool):
        return _checked(tool, place)
    if isinstance(tool, type) and issubclass(tool, pydantic.BaseModel):
        return _checked(model_tool(tool), place)
    if isinstance(tool, Mapping):
        return _mapping(tool, place)
    schema = getattr(tool, "inputSchema", None) or getattr(tool, "input_schema", None)
    if schema is not None and hasattr(tool, "name"):  # an MCP tool record
        return _build(tool.name, getattr(tool, "description", ""), schema, None, place)
    if isinstance(tool, functools.partial):
        return _function(_without_given(tool))
    if isinstance(tool, Callable):  # type: ignore[arg-type]
        return _function(tool)
    raise ToolError(
        f"cannot read a tool from {type(tool).__name__}",
        place=place,
        expected="an OpenAI tool, a Python function, a pydantic model or an MCP tool",
    )


def _without_given(given: functools.partial[Any]) -> Callable[..., Any]:
    """The function of a partial, without the parameters that it gives: a model neither sees nor changes those."""

    @functools.wraps(given.func)
    def function(*args: Any, **kwargs: Any) -> Any:
        return given(*args, **kwargs)

    signature = inspect.signature(given)
    left = [parameter for name, parameter in signature.parameters.items() if name not in given.keywords]
    function.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return function


def _function(function: Callable[..., Any]) -> Tool:
    try:
        inspect.signature(function)
    except ValueError:  # some functions written in C have no signature
        name = getattr(function, "__name__", type(function).__name__)
        raise ToolError(
            "the function's parameters are unknown", place=f"tools.{name}", hint="wrap it in a def"
        ) from None
    return function_tool(function)


def _mapping(tool: Mapping[str, Any], place: str) -> Tool:
    kind = tool.get("type", "function")
    _check_keys(tool, place)
    for key in ("inputSchema", "input_schema"):
        if key in tool:
            return _build(tool.get("name"), tool.get("description"), tool[key], None, place)
    if kind == "custom":
        return _custom(tool, place)
    if kind not in ("function", "object") and "function" not in tool:
        raise ToolError(f"unknown type {shown(kind)}", place=f"{place}.type", expected="function or custom")
    function = tool.get("function", tool)
    if not isinstance(function, Mapping):
        raise ToolError(f"{shown(function)} is not a function", place=f"{place}.function", expected="an object")
    if function is not tool:
        _check_keys(function, f"{place}.function")
    parameters = function.get("parameters")
    return _build(function.get("name"), function.get("description"), parameters, function.get("strict"), place)


def _custom(tool: Mapping[str, Any], place: str) -> Tool:
    """Read OpenAI's custom tool, which is nested in chat completions and flat in the Responses API."""
    body = tool.get("custom", tool)
    if not isinstance(body, Mapping):
        raise ToolError(f"{shown(body)} is not a custom tool", place=f"{place}.custom", expected="an object")
    if body is not tool:
        _check_keys(body, f"{place}.custom")
    form = body.get("format", {"type": "text"})
    if not isinstance(form, Mapping) or form.get("type") not in ("text", "grammar"):
        raise ToolError(f"cannot read {shown(form)}", place=f"{place}.format", expected="a text or a grammar format")
    _check_keys(form, f"{place}.format")
    grammar = None
    if form["type"] == "grammar":
        inner = form.get("grammar", form)
        if not isinstance(inner, Mapping) or inner.get("syntax") not in ("lark", "regex"):
            syntax = inner.get("syntax") if isinstance(inner, Mapping) else inner
            raise ToolError(f"unknown syntax {shown(syntax)}", place=f"{place}.format.syntax", expected="lark or regex")
        grammar = (inner["syntax"], inner.get("definition"))
    name, description = body.get("name"), str(body.get("description") or "")
    custom = Tool(name, description, dict(_NO_PARAMETERS), kind="custom", grammar=grammar)  # type: ignore[arg-type]
    return _checked(custom, place)


def _build(name: Any, description: Any, parameters: Any, strict: Any, place: str) -> Tool:
    if parameters is None:
        parameters = _NO_PARAMETERS
    if not isinstance(parameters, Mapping):
        raise ToolError("parameters are not a JSON schema", place=f"{place}.parameters", expected="an object")
    if strict is not None and not isinstance(strict, bool):
        raise ToolError(f"{shown(strict)} is not true or false", place=f"{place}.strict")
    try:
        schema = json_copy(parameters)
    except RecursionError:
        raise ToolError("nested too deeply", place=f"{place}.parameters", expected="fewer levels") from None
    return _checked(Tool(name, str(description or ""), schema, strict), place)


#: Keys of tools that are read, and other keys that real clients send, which do not affect the arguments.
_READ_KEYS = (
    "type", "function", "custom", "name", "description", "parameters", "strict", "inputSchema", "input_schema",
    "format", "grammar", "syntax", "definition",
)  # fmt: skip
_IGNORED_KEYS = frozenset(
    ("outputSchema", "output_schema", "returns", "response", "title", "annotations", "meta", "_meta", "icons", "id",
     "cache_control", "defer_loading", "input_examples", "examples", "allowed_callers", "namespace", "version",
     "eager_input_streaming", "display_name", "displayName", "metadata", "tags", "required", "return", "types")
)  # fmt: skip


def _check_keys(body: Mapping[str, Any], place: str) -> None:
    """Refuse keys that look like a misspelled known key: a tool without its schema would accept any arguments."""
    for key in body:
        if not isinstance(key, str):
            raise ToolError(f"the key {shown(key)} is not a string", place=place, expected="JSON")
        if key in _READ_KEYS or key in _IGNORED_KEYS:
            continue
        near = difflib.get_close_matches(key, _READ_KEYS, 1, cutoff=0.75)
        if near and near[0] not in body:
            raise ToolError(f"unknown key {shown(key)}", place=place, hint=f"is it {shown(near[0])}?")


def _check_parameters(schema: Mapping[str, Any], place: str) -> None:
    """Check the types of those parts of a schema that are read outside the schema compiler."""
    kind = schema.get("type", "object")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" not in [name for name in kinds if isinstance(name, str)]:
        raise ToolError(f"the arguments are {shown(kind)}", place=f"{place}.type", expected="object")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise ToolError("properties are not an object", place=f"{place}.properties", expected="name -> schema")
    for name, inner in properties.items():
        if not isinstance(name, str) or not isinstance(inner, Mapping | bool):
            raise ToolError(f"{shown(inner)} is not a schema", place=f"{place}.properties.{name}", expected="an object")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ToolError(
            f"{shown(required)} is not a list of names", place=f"{place}.required", expected="a list of names"
        )
    lost = unlisted_keys(schema) if schema.get("additionalProperties") is False else ()
    if lost:
        raise ToolError(
            f"{shown(lost[0])} is not among the properties, and additionalProperties is false",
            place=f"{place}.required",
            expected=", ".join(map(repr, properties)) or "no names",
        )


def _checked(tool: Tool, place: str) -> Tool:
    name = tool.name
    if not isinstance(name, str) or not name.strip():
        raise ToolError("the tool has no name", place=f"{place}.name", expected="a name")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name):
        raise ToolError(
            f"name {shown(name)} contains a control character", place=f"{place}.name", expected="printable text"
        )
    if tool.kind == "custom":
        custom_input(tool.grammar, f"{place}.format")
    else:
        _check_parameters(tool.parameters, f"{place}.parameters")
    return tool
