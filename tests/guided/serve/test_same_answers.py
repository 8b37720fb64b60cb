"""Over HTTP, streamed or not, together with any others, a request is answered as `guide.complete` answers it alone."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest

import guided
from guided.hf.loop.loop_row import LoopRow
from tests.guided.hf.api.test_openai import TOOL
from tests.guided.serve.conftest import Live, serving
from tests.made_up.schemas import closed

USER = [{"role": "user", "content": "Say it."}]
OTHER = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Write about the sea and the sky."}]
SCHEMA = closed({"ok": {"type": "boolean"}, "name": {"type": "string", "maxLength": 12}})
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": SCHEMA}}}
KINDS: tuple[dict[str, Any], ...] = (
    FORMAT,
    {**FORMAT, "temperature": 1.0, "top_p": 0.9},
    {"tools": [TOOL], "tool_choice": "required"},
    {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0.8, "top_k": 20},
    {"structured_outputs": {"choice": ["yes", "no", "maybe"]}, "reasoning_effort": "minimal"},
    {"structured_outputs": {"regex": "[A-Z]{3}-[0-9]{4}"}, "logprobs": True, "top_logprobs": 3},
    {"stop": ["e", "an"], "max_tokens": 30, "temperature": 1.0, "top_k": 40},
    {"presence_penalty": 1.0, "repetition_penalty": 1.2, "logit_bias": {"70": 4}, "max_tokens": 20},
    {"n": 3, "temperature": 0.9, "top_p": 0.95, "max_tokens": 8},
    {"max_tokens": 15, "logprobs": True},
    {"n": 2, "temperature": 0, "max_tokens": 6},
    {"max_tokens": 25, "reasoning_effort": "low", "tools": [TOOL]},
)


def bodies(number: int) -> list[dict[str, Any]]:
    """Mixed requests with seeds of their own."""
    return [
        {
            "model": "tiny",
            "messages": (USER, OTHER)[i // len(KINDS) % 2],
            "seed": i,
            "max_tokens": 60,
            **KINDS[i % len(KINDS)],
        }
        for i in range(number)
    ]


def comparable(answer: dict[str, Any]) -> Any:
    """The part of an answer that must be equal: no ids, times, cached tokens, log-probabilities to four digits."""

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: plain(v, k) for k, v in value.items() if k not in ("id", "created", "cached_tokens")}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return pytest.approx(value, abs=1e-4) if key == "logprob" else value

    return plain(answer)


def joined(lines: list[str]) -> dict[str, Any]:
    """The whole answer that the chunks of a stream make, put together as clients do."""
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    choices: dict[int, dict[str, Any]] = {}
    whole: dict[str, Any] = {"object": "chat.completion", "model": chunks[0]["model"]}
    for chunk in chunks:
        whole |= {key: chunk[key] for key in ("usage", "guided") if chunk.get(key)}
        for part in chunk["choices"]:
            empty = {
                "index": part["index"],
                "message": {"role": "assistant", "content": None, "refusal": None},
                "logprobs": None,
            }
            choice = choices.setdefault(part["index"], empty)
            delta, message = part["delta"], choice["message"]
            for key in ("content", "reasoning_content"):
                if delta.get(key):
                    message[key] = (message.get(key) or "") + delta[key]
            for call in delta.get("tool_calls") or ():
                calls = message.setdefault("tool_calls", [])
                if "id" in call:
                    assert call["index"] == len(calls)
                    calls.append({"id": call["id"], "type": call["type"], "function": dict(call["function"])})
                else:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
            if part["logprobs"]:
                found = choice["logprobs"] = choice["logprobs"] or {"content": [], "refusal": None}
                found["content"] += part["logprobs"]["content"]
            if part["finish_reason"]:
                choice |= {key: value for key, value in part.items() if key not in ("delta", "logprobs", "index")}
    return whole | {"choices": [choices[i] for i in sorted(choices)]}


def ask(live: Live, body: dict[str, Any]) -> dict[str, Any]:
    with live.client() as client:
        if not body.get("stream"):
            return dict(client.post("/v1/chat/completions", json=body).json())
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            return joined([line for line in stream.iter_lines() if line])


def leave(live: Live, body: dict[str, Any]) -> None:
    """Go away after the first line of an answer."""
    with live.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as stream:
        next(stream.iter_lines())


def check(live: Live, guide: Any, asked: list[dict[str, Any]], seed: int = 0) -> None:
    """Ask at random times, a third of the requests streamed, others leaving in between."""
    wanted = [comparable(guide.complete(body)) for body in asked]
    chance, found = random.Random(seed), [None] * len(asked)  # type: list[Any]
    begun = threading.Semaphore(6)

    def run(i: int, body: dict[str, Any]) -> None:
        with begun:
            found[i] = ask(live, body)

    threads = []
    for i, body in enumerate(asked):
        streamed = {"stream": True, "stream_options": {"include_usage": True}} if i % 3 == 0 else {}
        threads.append(threading.Thread(target=run, args=(i, {**body, **streamed})))
        if chance.random() < 0.25:
            threads.append(threading.Thread(target=leave, args=(live, {**body, "stream": True, "n": 1, "seed": 99})))
    for thread in threads:
        thread.start()
        threading.Event().wait(chance.random() * 0.02)
    for thread in threads:
        thread.join()
    for i, answer in enumerate(found):
        assert comparable(answer) == wanted[i], (i, asked[i])
    live.wait_for_rest()


def test_every_kind_of_request_is_answered_as_alone(live: Live, tiny_guide: Any) -> None:
    check(live, tiny_guide, bodies(len(KINDS)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_forty_requests_are_answered_as_alone(live: Live, tiny_guide: Any, seed: int) -> None:
    check(live, tiny_guide, bodies(40), seed)


@pytest.mark.slow
def test_a_cache_that_takes_rows_out_changes_no_answer(tiny_guide: Any) -> None:
    with serving(tiny_guide, names=("tiny",), cache_tokens=450) as small:
        long = {"model": "tiny", "messages": USER, "temperature": 1.0, "top_k": 40, "max_tokens": 150, "landing": False}
        check(small, tiny_guide, [*({**long, "seed": i} for i in range(12)), *bodies(24)])
        assert small.service.engine.loop.shared.places.num_taken_out > 0


@pytest.mark.slow
@pytest.mark.parametrize("forced", [True, False])
@pytest.mark.parametrize("cache_bytes", [0, None])
def test_neither_forced_tokens_nor_kept_rows_nor_calls_at_the_same_time_change_an_answer(
    tiny_guide: Any, monkeypatch: pytest.MonkeyPatch, forced: bool, cache_bytes: int | None
) -> None:
    guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer, cache_bytes=cache_bytes)
    plain, is_over, wrong = guide.chat("Say it.", max_tokens=12).content, threading.Event(), []

    def chat() -> None:
        while not is_over.wait(0.05):
            if (found := guide.chat("Say it.", max_tokens=12).content) != plain:
                wrong.append(found)

    if not forced:
        monkeypatch.setattr(LoopRow, "take_forced", lambda self: [])
    with serving(guide, names=("tiny",)) as live:
        thread = threading.Thread(target=chat)
        thread.start()
        try:
            check(live, tiny_guide, bodies(40))
        finally:
            is_over.set()
            thread.join()
    assert not wrong
