"""OpenAI in, OpenAI out: bodies of Chat Completions, answered with objects that OpenAI's own types read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.hf.completing import completing
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import GuidedError, RequestError
from tests.made_up.schemas import closed

USER = [{"role": "user", "content": "Say it."}]
SCHEMA = closed({"ok": {"type": "boolean"}})
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"x": {"enum": ["a", "b"]}}, "required": ["x"]},
    },
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "o", "schema": SCHEMA}}
BODIES: dict[str, dict[str, Any]] = {
    "text": {"max_tokens": 6, "temperature": 0},
    "schema": {"response_format": FORMAT, "temperature": 1.0, "seed": 3},
    "reasoning": {"response_format": FORMAT, "reasoning_effort": "minimal", "seed": 1, "temperature": 1.0},
    "calls": {"tools": [TOOL], "tool_choice": "required", "temperature": 0, "parallel_tool_calls": False},
    "named": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}, "temperature": 0},
    "stop": {"stop": ["e", "a", "o"], "max_tokens": 30, "temperature": 1.0, "seed": 1},
    "several": {"n": 3, "temperature": 1.0, "seed": 5, "max_tokens": 5},
    "logprobs": {"logprobs": True, "top_logprobs": 2, "max_tokens": 4, "temperature": 0},
    "ignored": {"user": "me", "metadata": {"a": "b"}, "max_tokens": 3, "temperature": 0},
}


@pytest.fixture(scope="module")
def sdk() -> Any:
    """OpenAI's own types; skips where the package is absent."""
    try:
        return importlib.import_module("openai.types.chat")
    except ImportError:
        pytest.skip("needs the package openai as a judge, which is not installed")


def body_of(name: str, **more: Any) -> dict[str, Any]:
    return {"model": "any", "messages": USER, **BODIES[name], **more}


def test_a_completion_names_the_model_and_no_folder(tiny_guide: Any, monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.setattr(tiny_guide.model, "name_or_path", str(tmp_path / "tiny"))
    for name, shown in ((None, "tiny"), ("any", "any")):
        assert tiny_guide.complete({"model": name, "messages": USER, "max_tokens": 2})["model"] == shown


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_answered_with_a_completion(tiny_guide: Any, sdk: Any, name: str) -> None:
    body = body_of(name)
    answer = tiny_guide.complete(body)
    read = sdk.ChatCompletion.model_validate(answer)
    assert read.model_dump(exclude_unset=True) == answer
    assert (read.model, len(read.choices)) == ("any", body.get("n", 1))
    first = read.choices[0]
    finish = {"calls": "tool_calls", "text": "length", "several": "length", "logprobs": "length", "ignored": "length"}
    assert first.finish_reason == finish.get(name, "stop")
    assert read.usage.total_tokens == read.usage.prompt_tokens + read.usage.completion_tokens
    if name in ("schema", "reasoning"):
        assert first.message.content in ('{"ok": true}', '{"ok": false}')
        assert bool(first.message.model_extra.get("reasoning_content")) == (name == "reasoning")
        assert (read.usage.completion_tokens_details.reasoning_tokens > 0) == (name == "reasoning")
    if name in ("calls", "named"):
        (call,) = first.message.tool_calls
        assert (call.function.name, call.function.arguments) in {("look", f'{{"x": "{x}"}}') for x in "ab"}
    if name == "stop":
        assert answer["choices"][0]["stop_reason"] in ("e", "a", "o")
    if name == "logprobs":
        assert len(first.logprobs.content) == 4
        assert all(len(one.top_logprobs) == 2 and bytes(one.bytes) for one in first.logprobs.content)
        assert first.message.content == b"".join(bytes(one.bytes) for one in first.logprobs.content).decode()
    if name == "ignored":
        assert answer["guided"]["ignored"] == ["user", "metadata"]


@pytest.mark.parametrize("value", [True, "last"])
def test_hidden_states_are_numbers_of_each_choice(tiny_guide: Any, value: Any) -> None:
    """The judge is the state of the same answer from `Guide.chat`."""
    body = body_of("text", return_hidden_states=value)
    right = tiny_guide.chat(USER, max_tokens=6, temperature=0, return_last_hidden_state=True).last_hidden_state
    (choice,) = tiny_guide.complete(body)["choices"]
    *_, last = tiny_guide.complete({**body, "stream": True})
    for found in (choice, last["choices"][0]):
        assert found["hidden_states"] == pytest.approx(right.at_token.tolist(), abs=1e-4)
    assert "hidden_states" not in tiny_guide.complete(body_of("text"))["choices"][0]


def test_clients_see_where_an_answer_landed_and_may_say_otherwise(tiny_guide: Any) -> None:
    texts = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    form = {"type": "json_schema", "json_schema": {"name": "o", "schema": texts | {"additionalProperties": False}}}
    plan = tiny_guide.plan(response_format=form)
    least = tiny_guide.check(plan).min_tokens
    body = {"messages": USER, "response_format": form, "temperature": 1.0, "seed": 1, "max_tokens": least + 3}
    message = tiny_guide.chat(USER, plan, temperature=1.0, seed=1, max_tokens=least + 3)
    (choice,) = tiny_guide.complete(body)["choices"]
    *_, last = tiny_guide.complete({**body, "stream": True})
    for found in (choice, last["choices"][0]):
        assert (found["finish_reason"], found["landed"]) == ("stop", message.landed)
    assert isinstance(message.landed, int)
    (choice,) = tiny_guide.complete({**body, "landing": False})["choices"]
    assert (choice["finish_reason"], "landed" in choice) == ("length", False)
    with pytest.raises(RequestError, match=f"^max_tokens: .*expected at least {least}"):
        tiny_guide.complete({**body, "max_tokens": least - 1, "short_budget": "error"})
    assert tiny_guide.complete({**body, "max_tokens": least - 1})["guided"]["notes"]


@pytest.mark.parametrize("name", BODIES)
def test_chunks_put_together_are_the_completion(tiny_guide: Any, sdk: Any, name: str) -> None:
    """The judge is the accumulator of OpenAI's own client, which concatenates every text that comes twice."""
    body = body_of(name, stream=True, stream_options={"include_usage": True})
    whole = tiny_guide.complete(body_of(name))
    streaming = importlib.import_module("openai.lib.streaming.chat._completions")
    state = streaming.ChatCompletionStreamState(input_tools=[], response_format=importlib.import_module("openai").omit)
    chunks = list(tiny_guide.complete(body))
    for chunk in chunks:
        list(state.handle_chunk(sdk.ChatCompletionChunk.model_validate(chunk)))
    assert [c["choices"] == [] for c in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    found = state.current_completion_snapshot
    for one, judge in zip(found.choices, whole["choices"], strict=True):
        assert (one.finish_reason, one.message.content or "") == (
            judge["finish_reason"],
            judge["message"]["content"] or "",
        )
        assert getattr(one.message, "reasoning_content", None) == judge["message"].get("reasoning_content")
        calls = [(c.type, c.function.name, c.function.arguments) for c in one.message.tool_calls or ()]
        assert calls == [
            (c["type"], c["function"]["name"], c["function"]["arguments"])
            for c in judge["message"].get("tool_calls", ())
        ]
    usage, judge = chunks[-1]["usage"], whole["usage"]
    assert {**usage, "prompt_tokens_details": 0} == {**judge, "prompt_tokens_details": 0}  # kept rows differ


@pytest.mark.parametrize("name", ["logprobs", "schema", "reasoning", "calls", "stop", "several", "text"])
def test_log_probabilities_come_with_the_text_of_their_tokens(tiny_guide: Any, sdk: Any, name: str) -> None:
    """The judge is the whole completion; a chunk of text holds its tokens, forced ones included."""
    body = body_of(name, logprobs=True, top_logprobs=1)
    wanted = [choice["logprobs"]["content"] for choice in tiny_guide.complete(body)["choices"]]
    found: list[list[Any]] = [[] for _ in wanted]
    texts = [""] * len(wanted)
    for chunk in tiny_guide.complete({**body, "stream": True}):
        (choice,) = sdk.ChatCompletionChunk.model_validate(chunk).choices
        new = choice.logprobs.content if choice.logprobs else []
        found[choice.index] += [one.model_dump() for one in new]
        texts[choice.index] += choice.delta.content or ""
        if choice.delta.content and name in ("schema", "logprobs", "text", "several"):
            so_far = b"".join(bytes(one["bytes"]) for one in found[choice.index])
            assert new
            assert so_far.decode("utf-8", "replace").removesuffix("<|im_end|>") == texts[choice.index]  # a forced end
    for mine, right in zip(found, wanted, strict=True):
        assert [(one["bytes"], len(one["top_logprobs"])) for one in mine] == [
            (one["bytes"], len(one["top_logprobs"])) for one in right
        ]
        assert [one["logprob"] for one in mine] == pytest.approx([one["logprob"] for one in right], abs=1e-4)


def test_a_call_of_a_custom_tool(tiny_guide: Any, sdk: Any) -> None:
    """Its text is not JSON; a stream gives it whole, in the shape of a whole message."""
    tool = {"type": "custom", "custom": {"name": "say", "format": {"type": "grammar", "grammar": {
        "syntax": "regex", "definition": "[a-c]{4}\"x"}}}}  # fmt: skip
    body = {"messages": USER, "tools": [tool], "tool_choice": "required", "temperature": 0, "max_tokens": 60}
    answer = tiny_guide.complete(body)
    (call,) = sdk.ChatCompletion.model_validate(answer).choices[0].message.tool_calls
    assert (call.type, call.custom.name, call.custom.input[4:]) == ("custom", "say", '"x')
    deltas = [c["delta"] for chunk in tiny_guide.complete(body | {"stream": True}) for c in chunk["choices"]]
    (streamed,) = [one for delta in deltas for one in delta.get("tool_calls", ())]
    assert {key: streamed[key] for key in ("index", "type", "custom")} == {
        "index": 0, "type": "custom", "custom": call.custom.model_dump()
    }  # fmt: skip


def test_usage_comes_only_where_it_is_asked_for(tiny_guide: Any) -> None:
    chunks = list(tiny_guide.complete(body_of("text", stream=True)))
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["delta"] == {}


def test_a_stream_that_is_closed_ends_the_generation(tiny_guide: Any) -> None:
    chunks = tiny_guide.complete(body_of("text", stream=True, max_tokens=400))
    next(chunks), next(chunks)
    chunks.close()
    assert list(chunks) == []
    assert tiny_guide.complete(body_of("text"))["choices"][0]["finish_reason"] == "length"


def test_a_message_goes_back_into_the_chat_as_it_is(tiny_guide: Any, sdk: Any) -> None:
    chat: list[Any] = [*USER]
    message = tiny_guide.chat(chat, tools=[TOOL], tool_choice="required", reasoning_effort="minimal", seed=2)
    judge = sdk.ChatCompletionMessage.model_validate(message.to_openai())
    assert judge.model_dump(exclude_unset=True) == message.to_openai()
    assert judge.tool_calls[0].function.name == "look"
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "seen"}
    prompts = {
        checked_inputs(tiny_guide.context, [[*USER, again, result]]).prompt_ids
        for again in (message, message.to_chat(), message.to_openai(), judge)
    }
    assert len(prompts) == 1
    assert tiny_guide.chat([*USER, message, result], temperature=0, max_tokens=3).content
    completion = tiny_guide.complete({"messages": [*USER, message.to_openai(), result], "max_tokens": 3})
    assert completion["choices"][0]["finish_reason"] == "length"
    assert completion["model"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"input": "hi"}, "input: not a key of Chat Completions; expected messages .*Responses API"),
        ({"prompt": "hi"}, "prompt: not a key of Chat Completions; expected messages .*older Completions API"),
        ({"instructions": "hi"}, "instructions: .*a system message"),
        ({"functions": [{"name": "f"}]}, "functions: .* expected tools"),
        ({"messages": None}, "messages: there are no messages"),
        ({"messages": "hi"}, "messages: str is not a list"),
        ({"messages": [5]}, r"messages\[0\]: int is not a message"),
        ({"stream": "yes"}, "stream: 'yes' is not true or false"),
        ({"model": 5}, "model: int is not a name"),
        ({"stream_options": [1]}, "stream_options: list is not an object"),
        ({"temprature": 1}, "temprature: unknown key"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "objekt"}}}},
            "objekt",
        ),
        ({"audio": {"voice": "x"}}, "audio: .* is not supported"),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [True, False])
def test_bodies_that_cannot_be_answered(tiny_guide: Any, more: dict[str, Any], words: str, stream: bool) -> None:
    """They are refused by the call itself, before a first chunk."""
    with pytest.raises(GuidedError, match=words):
        tiny_guide.complete(body_of("text", **{"stream": stream, **more}))
    with pytest.raises(RequestError, match="body: list is not a request"):
        tiny_guide.complete([])


def test_a_row_that_fails_raises_its_error(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from guided.state.state import GuidanceState

    def broken(state: GuidanceState) -> Any:
        raise guided.LimitExceeded("injected")

    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    with pytest.raises(guided.LimitExceeded, match="injected"):
        tiny_guide.complete(body_of("schema"))
    with pytest.raises(guided.LimitExceeded, match="injected"):
        list(tiny_guide.complete(body_of("schema", stream=True)))


def prompt_of(guide: Any, body: dict[str, Any]) -> str:
    run = completing(guide.planner, body, trusted=False, ignore_unknown=False, describe=True)
    return str(guide.tokenizer.decode(run.generation.inputs.prompt_ids[0]))


def test_n_without_a_temperature_samples_a_greedy_model(tiny_guide: Any) -> None:
    answer = tiny_guide.complete({"messages": USER, "n": 3, "seed": 5, "max_tokens": 5})
    sampled = tiny_guide.complete({"messages": USER, "n": 3, "seed": 5, "max_tokens": 5, "temperature": 1.0})
    assert answer["choices"] == sampled["choices"]
    assert len({choice["message"]["content"] for choice in answer["choices"]}) > 1


@pytest.mark.parametrize("greedy", [{"temperature": 0}, {"top_k": 1}])
def test_greedy_choices_are_computed_once(tiny_guide: Any, greedy: dict[str, Any]) -> None:
    body = {"messages": USER, "n": 3, "max_tokens": 5, "logprobs": True, **greedy}
    run = completing(tiny_guide.planner, body, trusted=False, ignore_unknown=False, describe=True)
    assert len(run.generation.answers) == 1
    answer, one = tiny_guide.complete(body), tiny_guide.complete({**body, "n": 1})
    assert answer["choices"] == [{**one["choices"][0], "index": i} for i in range(3)]
    assert answer["usage"]["completion_tokens"] == 3 * one["usage"]["completion_tokens"]
    chunks = list(tiny_guide.complete({**body, "stream": True}))
    for i in range(3):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == i]
        text = "".join(choice["delta"].get("content") or "" for choice in own)
        assert text == one["choices"][0]["message"]["content"]
        tokens = [entry for choice in own for entry in (choice["logprobs"] or {"content": []})["content"]]
        assert tokens == one["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize("size", range(1, 8))
def test_text_that_is_held_back_comes_at_the_end(tiny_guide: Any, size: int) -> None:
    """With some of these limits the answer ends inside a character."""
    body = {"messages": USER, "max_tokens": size, "temperature": 0, "landing": False}
    text = tiny_guide.complete(body)["choices"][0]["message"]["content"]
    deltas = [chunk["choices"][0]["delta"] for chunk in tiny_guide.complete({**body, "stream": True})]
    assert "".join(delta.get("content") or "" for delta in deltas) == text


def test_verbosity_is_a_line_of_the_system_text(tiny_guide: Any) -> None:
    plain = prompt_of(tiny_guide, {"messages": USER})
    line = "Answer in as few words as possible."
    for body in ({"messages": USER, "verbosity": "low"}, {"messages": USER, "text": {"verbosity": "low"}}):
        assert prompt_of(tiny_guide, body) == f"<|im_start|>system\n{line}<|im_end|>\n{plain}"
    assert prompt_of(tiny_guide, {"messages": USER, "verbosity": "medium"}) == plain
    for content in ("Be kind.", [{"type": "text", "text": "Be kind."}]):
        chat = [{"role": "system", "content": content}, *USER]
        assert "Be kind.\n" in (prompt := prompt_of(tiny_guide, {"messages": chat, "verbosity": "high"}))
        assert prompt.count("<|im_start|>system") == 1
        assert "in detail" in prompt


def test_a_limit_that_the_context_cuts_is_noted(tiny_guide: Any) -> None:
    answer = tiny_guide.complete({"messages": USER, "max_tokens": 2040, "stop": ["a", "e", "o"], "temperature": 0})
    assert any(note.startswith("max_tokens is ") for note in answer["guided"]["notes"])
