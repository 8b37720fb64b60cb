"""The schema of a tool's arguments, and the arguments of a call as an object or as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grammars.json_schema.report.misspelt import OTHERS_OF_PROPERTIES, unlisted_keys
from grammars.tools.custom_tools import custom_input
from grammars.values.format import ToolCallFormat
from grammars.values.json_pointer import pointer_of
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from grammars.values.tool import Call, Tool
from special_tokens.errors import ToolError

__all__ = ["CUSTOM_INPUT", "arguments_object", "arguments_schema", "arguments_text", "ordered", "pointer"]

#: The name of a custom tool's one parameter in tool-call syntaxes, whose arguments are objects.
CUSTOM_INPUT = "input"


def arguments_schema(tool: Tool) -> Mapping[str, Any]:
    """The schema of the arguments object; closed unless the tool's schema says otherwise.

    JSON Schema alone would allow arguments that the tool does not list; such a call would be wrong.  A tool without
    ``properties`` accepts any arguments; a required key that these lack may have any value.
    """
    if tool.kind == "custom":
        text = custom_input(tool.grammar, f"tools.{tool.name}.format")
        return _closed({"properties": {CUSTOM_INPUT: text}, "required": [CUSTOM_INPUT]})
    return _closed(tool.parameters)


def ordered(form: ToolCallFormat, schema: Any) -> Any:
    """The schema with its properties, at every depth, in the order in which the format writes keys."""
    return _sorted(schema) if form.option("order") == "sorted" else schema


def _sorted(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_sorted(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {key: _sorted(value) if key in _SCHEMAS else value for key, value in schema.items()}
    for key in ("properties", *_DEFINITIONS):
        if isinstance(schema.get(key), Mapping):
            out[key] = {name: _sorted(schema[key][name]) for name in sorted(schema[key])}
    return out


#: Keywords whose value is a schema or a list of schemas, and keywords whose value maps names to schemas.
_SCHEMAS = {"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"}
_DEFINITIONS = ("$defs", "definitions")


def _closed(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = dict(parameters)
    schema.setdefault("type", "object")
    if "properties" in schema and not {*OTHERS_OF_PROPERTIES, "additionalProperties"} & schema.keys():
        schema["properties"] = {**schema["properties"], **dict.fromkeys(unlisted_keys(schema), True)}
        schema["additionalProperties"] = False
    return schema


def pointer(tool: Tool, *path: str) -> str:
    """The JSON pointer of a place in the tool's parameters, as reports use it."""
    return pointer_of(("tools", tool.name, "parameters", *path))


def arguments_object(call: Call) -> Mapping[str, Any]:
    """The call's arguments as an object; text that is not a JSON object is the input of a custom tool."""
    if isinstance(call.arguments, Mapping):
        return call.arguments
    try:
        value = json.loads(call.arguments)
    except ValueError:
        return {CUSTOM_INPUT: call.arguments}
    return value if isinstance(value, Mapping) else {CUSTOM_INPUT: call.arguments}


def arguments_text(call: Call, spelling: Spelling = DEFAULT_SPELLING) -> str:
    """The call's arguments as JSON text; raises `ToolError` for values that JSON does not have."""
    try:
        arguments = arguments_object(call)
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=spelling.separators)
    except (TypeError, ValueError) as error:
        raise ToolError(str(error), place=f"tool_calls.{call.name}.arguments", expected="JSON values") from None
