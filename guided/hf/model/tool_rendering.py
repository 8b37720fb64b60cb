"""Whether a chat template can render the tools of a plan, asked before the plan is handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.plan.plan import Plan
from grammars.values.format import Format
from grammars.values.tool import Tool
from guided.hf.model.chat_template import prompt_text
from guided.hf.model.wire_format import warn_of_calls
from special_tokens import SpecialTokens
from special_tokens.errors import TemplateError, ToolError

__all__ = ["check_tools"]

_USER = {"role": "user", "content": "?"}
#: A tool is refused where neither chat renders with it: some templates want a system message next to tools.
_CHATS = ((_USER,), ({"role": "system", "content": "?"}, _USER))


def check_tools(tokenizer: Any, format: Format, plan: Plan, tokens: SpecialTokens) -> None:
    """Raise `ToolError` for the first tool of ``plan`` that the chat template cannot render.

    A template that renders no chat at all, or shows no tools, refuses none.
    """
    if plan.tools:
        warn_of_calls(tokenizer, tokens)
    if not plan.tools or format.inputs.tools != "native":
        return

    def failure(*tools: Tool) -> TemplateError | None:
        first: TemplateError | None = None
        for chat in _CHATS:
            try:
                prompt_text(tokenizer, chat, format, replace(plan, tools=tools), tokens)
            except TemplateError as error:
                first = first or error
            else:
                return None
        return first

    if failure(*plan.tools) is None or failure() is not None:
        return
    for tool in plan.tools:
        error = failure(tool)
        if error is not None:
            bare = _undescribed(tool)
            helps = bool(bare) and failure(_described(tool, bare)) is None
            raise ToolError(
                f"the chat template cannot render this tool: {error.__cause__}",
                place=f"tools.{tool.name}",
                hint=f"give its arguments a description: {', '.join(bare)}" if helps else "",
            ) from error


def _undescribed(tool: Tool) -> list[str]:
    """The names of the arguments without a description."""
    properties = tool.parameters.get("properties", {})
    return [name for name, schema in properties.items() if isinstance(schema, Mapping) and "description" not in schema]


def _described(tool: Tool, names: Sequence[str]) -> Tool:
    properties = tool.parameters["properties"]
    described = {name: {**properties[name], "description": "?"} for name in names}
    return replace(tool, parameters={**tool.parameters, "properties": {**properties, **described}})
