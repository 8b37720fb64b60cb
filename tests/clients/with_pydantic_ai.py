"""pydantic-ai: native output, output by a tool, streams of both, an agent with a tool."""

from __future__ import annotations

from typing import Literal

from checks import ADDRESS, run_checks
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, RunContext, ToolDefinition, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=ADDRESS, api_key="any"))


class Mood(BaseModel):
    age: int
    mood: Literal["good", "bad"]


def native() -> None:
    assert isinstance(Agent(model, output_type=NativeOutput(Mood)).run_sync("Alice is 31, happy.").output, Mood)


def tool() -> None:
    assert isinstance(Agent(model, output_type=ToolOutput(Mood)).run_sync("Alice is 31, happy.").output, Mood)


async def native_stream() -> None:
    async with Agent(model, output_type=NativeOutput(Mood)).run_stream("Alice is 31, happy.") as run:
        assert isinstance([part async for part in run.stream_output()][-1], Mood)


async def tool_stream() -> None:
    async with Agent(model, output_type=ToolOutput(Mood)).run_stream("Alice is 31, happy.") as run:
        assert isinstance([part async for part in run.stream_output()][-1], Mood)


def round_trip() -> None:
    agent = Agent(model, output_type=ToolOutput(Mood), model_settings={"max_tokens": 200})
    asked: list[str] = []

    async def once(context: RunContext, tool: ToolDefinition) -> ToolDefinition | None:
        return None if asked else tool  # a small model would call it again and again

    @agent.tool_plain(prepare=once)
    def age_of(name: Literal["Alice", "Bob"]) -> int:
        asked.append(name)
        return 31

    found = agent.run_sync("How old is Alice, and how is she?", message_history=None)
    assert asked  # a call and its result went through the server
    again = agent.run_sync("And Bob?", message_history=found.all_messages())
    assert isinstance(again.output, Mood)


run_checks("pydantic-ai-slim", [native, tool, native_stream, tool_stream, round_trip])
