"""OpenAI's client: parse, streams, tools, a custom tool, responses, log-probabilities, n."""

from __future__ import annotations

import json
from typing import Any, Literal

from checks import ADDRESS, run_checks
from openai import OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=ADDRESS, api_key="any", max_retries=0)
MODEL = "gpt-4o-mini"
USER: Any = [{"role": "user", "content": "Alice is 31 and in a good mood."}]
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Rome", "Lima"]}}, "required": ["city"]}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
FLAT: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
CUSTOM: Any = {"type": "custom", "custom": {"name": "note", "description": "Writes a note."}}


class Person(BaseModel):
    age: int
    mood: Literal["good", "bad"]


def parse() -> None:
    found = client.chat.completions.parse(model=MODEL, messages=USER, response_format=Person)
    assert isinstance(found.choices[0].message.parsed, Person)


def stream() -> None:
    with client.chat.completions.stream(model=MODEL, messages=USER, response_format=Person) as events:
        kinds = {event.type for event in events}
    assert "content.delta" in kinds
    assert isinstance(events.get_final_completion().choices[0].message.parsed, Person)


def tools() -> None:
    body: Any = {"model": MODEL, "messages": USER, "tools": [TOOL], "tool_choice": "required"}
    (call, *_) = client.chat.completions.create(**body).choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Lima")
    chunks = list(client.chat.completions.create(**body, stream=True))
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or () if part.index == 0]
    assert [bool(part.id) for part in parts] == [True] + [False] * (len(parts) - 1)
    answer = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    chat: Any = [*USER, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}, answer]
    client.chat.completions.create(model=MODEL, messages=chat, max_tokens=5)


def custom_tool() -> None:
    body: Any = {"tools": [CUSTOM], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 60}
    (call,) = client.chat.completions.create(model=MODEL, messages=USER, **body).choices[0].message.tool_calls
    assert (call.type, call.custom.name) == ("custom", "note")


def responses() -> None:
    found = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=12)
    assert found.output_text
    assert isinstance(client.responses.parse(model=MODEL, input=USER, text_format=Person).output_parsed, Person)
    with client.responses.stream(model=MODEL, input=USER, text_format=Person) as events:
        kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    found = client.responses.create(model=MODEL, input=USER, tools=[FLAT], tool_choice="required")
    call: Any = found.output[0]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    client.responses.create(model=MODEL, input=[*USER, *found.output, output], max_output_tokens=5)


def logprobs_and_n() -> None:
    found = client.chat.completions.create(
        model=MODEL, messages=USER, n=2, seed=3, max_tokens=6, logprobs=True, top_logprobs=2
    )
    assert len(found.choices) == 2
    assert all(len(entry.top_logprobs) == 2 for entry in found.choices[1].logprobs.content)


run_checks("openai", [parse, stream, tools, custom_tool, responses, logprobs_and_n])
