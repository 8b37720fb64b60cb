"""Tools of an MCP server are tools: the package ``mcp`` is the judge, by records that its session gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.tools.normalise import normal_tools
from grammars.tools.results import result_text
from tests.guided.hf.api.test_tool_loop import Scripted, call

types = pytest.importorskip("mcp.types", reason="needs the package mcp, which is absent")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def listed() -> Any:
    """The answer to ``tools/list``, as a client reads it off the wire."""
    tools = [
        {
            "name": "weather",
            "description": "The weather.",
            "inputSchema": SCHEMA,
            "annotations": {"readOnlyHint": True},
        },
        {"name": "now", "inputSchema": {"type": "object", "properties": {}}},
    ]
    return types.ListToolsResult.model_validate({"tools": tools})


def result(text: str, *, failed: bool = False) -> Any:
    return types.CallToolResult.model_validate({"content": [{"type": "text", "text": text}], "isError": failed})


def test_the_list_of_a_session_is_a_list_of_tools(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(tools=listed(), tool_choice="weather")
    assert plan == tiny_guide.plan(tools=listed().tools, tool_choice="weather")
    (tool,) = plan.tools
    assert (tool.name, tool.description, dict(tool.parameters)) == ("weather", "The weather.", SCHEMA)
    assert [tool.name for tool in normal_tools(listed().tools)] == ["weather", "now"]


def test_a_session_runs_its_tools(engine: Any) -> None:
    class FakeSession:
        """The two methods of a client session that count here."""

        async def call_tool(self, name: str, arguments: Any) -> Any:
            return result(json.dumps([name, arguments]), failed=name == "now")

    model = Scripted(engine, [f"{call('weather', {'city': 'Oslo'})}\n{call('now', {})}", "Done."])
    run = model.run(listed(), call_tool=FakeSession().call_tool)
    assert [message["content"] for message in run.messages if message["role"] == "tool"] == [
        '["weather", {"city": "Oslo"}]', 'Error: ["now", {}]',
    ]  # fmt: skip
    assert result_text(result("a")) == "a"
