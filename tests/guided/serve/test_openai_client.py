"""OpenAI's own client, unmodified, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.guided.serve.conftest import Live
from tests.made_up.schemas import closed

openai = pytest.importorskip("openai", reason="needs the package openai, whose client is the judge")

USER: Any = [{"role": "user", "content": "Say it."}]
PARAMETERS = closed({"x": {"enum": ["a", "b"]}})
TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS, "strict": True}}
CUSTOM: Any = {"type": "custom", "custom": {"name": "shout", "description": "Says a word."}}
FLAT: Any = {"type": "function", "name": "look", "parameters": PARAMETERS, "strict": True}
FLAT_CUSTOM: Any = {"type": "custom", "name": "shout", "description": "Says a word."}


class Sighting(BaseModel):
    ok: bool
    word: Literal["sea", "sky"]


@pytest.fixture
def client(live: Live) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{live.address}/v1", api_key="any", max_retries=0) as found:
        yield found


def chunks_of(client: Any, **body: Any) -> list[Any]:
    return list(client.chat.completions.create(model="tiny", messages=USER, stream=True, **body))


def test_parse(client: Any) -> None:
    found = client.chat.completions.parse(model="tiny", messages=USER, response_format=Sighting).choices[0].message
    assert isinstance(found.parsed, Sighting)
    assert found.parsed.word in ("sea", "sky")


def test_a_stream_of_a_parsed_answer(client: Any) -> None:
    with client.chat.completions.stream(model="tiny", messages=USER, response_format=Sighting) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0].message
    assert isinstance(final.parsed, Sighting)
    assert kinds[-1] in ("content.done", "chunk")
    assert "content.delta" in kinds


def test_tools_and_the_next_turn(client: Any) -> None:
    asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    message = client.chat.completions.create(model="tiny", messages=USER, **asked).choices[0].message
    (call,) = message.tool_calls
    assert (call.type, call.function.name) == ("function", "look")
    assert json.loads(call.function.arguments)["x"] in ("a", "b")
    chat = [*USER, message, {"role": "tool", "tool_call_id": call.id, "content": "seen"}]
    after = client.chat.completions.create(model="tiny", messages=chat, tools=[TOOL], tool_choice="none", max_tokens=5)
    assert after.choices[0].finish_reason in ("stop", "length")


def test_streamed_tools_name_a_call_once(client: Any) -> None:
    parts = [
        call
        for chunk in chunks_of(client, tools=[TOOL], tool_choice="required", stream_options={"include_usage": True})
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
    ]
    first = [part for part in parts if part.index == 0]
    assert [bool(part.id) for part in first] == [True] + [False] * (len(first) - 1)
    assert [part.function.name for part in first if part.function.name] == ["look"]
    assert json.loads("".join(part.function.arguments or "" for part in first))["x"] in ("a", "b")
    with client.chat.completions.stream(model="tiny", messages=USER, tools=[TOOL], tool_choice="required") as stream:
        (*_, last) = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert last.parsed_arguments["x"] in ("a", "b")


def test_a_custom_tool(client: Any) -> None:
    asked = {"tools": [CUSTOM], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 60}
    (call,) = client.chat.completions.create(model="tiny", messages=USER, **asked).choices[0].message.tool_calls
    assert (call.type, call.custom.name) == ("custom", "shout")


def test_logprobs_n_and_usage(client: Any) -> None:
    body = {"n": 2, "seed": 3, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(model="tiny", messages=USER, **body)
    assert [choice.index for choice in whole.choices] == [0, 1]
    for choice in whole.choices:
        assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)
    chunks = chunks_of(client, stream_options={"include_usage": True}, **body)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].choices == []
    for index in (0, 1):
        own = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        entries = [entry for choice in own if choice.logprobs for entry in choice.logprobs.content]
        assert [entry.token for entry in entries] == [e.token for e in whole.choices[index].logprobs.content]


def test_reasoning_is_apart(client: Any) -> None:
    body = {
        "model": "tiny",
        "messages": USER,
        "reasoning_effort": "minimal",
        "response_format": {"type": "json_object"},
    }
    message = client.chat.completions.create(**body, max_tokens=120).choices[0].message
    assert message.reasoning_content
    assert isinstance(json.loads(message.content), dict)


def test_completions(client: Any) -> None:
    whole = client.completions.create(
        model="tiny", prompt=["The sea", "The sky"], max_tokens=6, n=2, seed=1, logprobs=2
    )
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.usage.completion_tokens <= 24
    assert len(whole.choices[0].logprobs.tokens) == len(whole.choices[0].logprobs.token_logprobs)
    chunks = list(
        client.completions.create(model="tiny", prompt=["The sea", "The sky"], max_tokens=6, n=2, seed=1, stream=True)
    )
    for choice in whole.choices:
        own = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
        assert "".join(part.text for part in own) == choice.text
        assert own[-1].finish_reason == choice.finish_reason
    bare = client.completions.create(model="tiny", prompt="The sea", max_tokens=3, logprobs=0).choices[0].logprobs
    assert (len(bare.tokens), bare.top_logprobs) == (3, [{}, {}, {}])
    with_usage = client.completions.create(
        model="tiny", prompt="a", max_tokens=2, stream=True, extra_body={"include_usage": True}
    )
    assert [chunk.usage is None for chunk in with_usage][-1] is False
    constrained = client.completions.create(model="tiny", prompt="Say: ", extra_body={"guided_choice": ["yes", "no"]})
    assert constrained.choices[0].text in ("yes", "no")


def test_responses(client: Any) -> None:
    found = client.responses.create(model="tiny", input="Say it.", instructions="Be kind.", max_output_tokens=8)
    assert found.status == "incomplete"
    assert found.incomplete_details.reason == "max_output_tokens"
    assert found.usage.output_tokens == 8
    parsed = client.responses.parse(model="tiny", input=USER, text_format=Sighting)
    assert isinstance(parsed.output_parsed, Sighting)
    include = ["message.output_text.logprobs"]
    found = client.responses.create(model="tiny", input="x", max_output_tokens=4, include=include, top_logprobs=2)
    assert [len(entry.top_logprobs) for entry in found.output[0].content[0].logprobs] == [2] * 4


ORDER = [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    "response.output_text.delta", "response.output_text.done", "response.content_part.done",
    "response.output_item.done", "response.completed",
]  # fmt: skip


def test_streamed_responses_come_in_openais_order(client: Any) -> None:
    with client.responses.stream(model="tiny", input=USER, text_format=Sighting) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Sighting)
    assert list(dict.fromkeys(event.type for event in events)) == ORDER
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text


def test_calls_of_responses_and_the_next_turn(client: Any) -> None:
    asked = {"model": "tiny", "tools": [FLAT, FLAT_CUSTOM], "tool_choice": "required", "parallel_tool_calls": False}
    seen = set()
    for seed in range(4):
        body = {**asked, "input": USER, "temperature": 1.0, "extra_body": {"seed": seed, "reasoning_effort": "minimal"}}
        whole = client.responses.create(**body, max_output_tokens=150)
        events = list(client.responses.create(**body, max_output_tokens=150, stream=True))
        final = events[-1].response
        assert [item.type for item in final.output] == [item.type for item in whole.output]
        assert (whole.output[0].type, final.output[0].content) == ("reasoning", whole.output[0].content)
        call, streamed = whole.output[-1], final.output[-1]
        seen.add(call.type)
        if call.type == "function_call":
            assert (streamed.name, streamed.arguments) == (call.name, call.arguments)
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
        else:
            assert (streamed.name, streamed.input) == (call.name, call.input)
            output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "seen"}
        added = [event.item.id for event in events if event.type == "response.output_item.added"]
        done = [event.item.id for event in events if event.type == "response.output_item.done"]
        assert added == done == [item.id for item in final.output]
        chat = [*USER, *whole.output, output]
        after = client.responses.create(model="tiny", input=chat, max_output_tokens=5, tools=[FLAT, FLAT_CUSTOM])
        assert after.usage.input_tokens > whole.usage.input_tokens
    assert seen == {"function_call", "custom_tool_call"}


def test_a_format_and_tools_hold_together_in_responses(client: Any) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "fact", "schema": PARAMETERS, "strict": True}}
    found = client.responses.create(model="tiny", input="x", tools=[FLAT], text=text, max_output_tokens=100)
    for item in found.output:
        assert json.loads(item.arguments if item.type == "function_call" else item.content[0].text)["x"] in ("a", "b")


def test_errors_are_the_clients_own(client: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=USER, extra_body={"regex": "("})
    assert caught.value.param.startswith("regex")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=USER)
    assert [model.id for model in client.models.list()] == ["tiny"]
