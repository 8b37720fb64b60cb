"""A server refuses by the table of docs/serving.md: each of its rows, over a real socket."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from guided.serve.settings import Settings
from special_tokens.errors import RequestError
from tests.guided.serve.conftest import Live, serving

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
USER = [{"role": "user", "content": "Say it."}]
ASK = {"messages": USER, "max_tokens": 3}


def nested(depth: int) -> bytes:
    return b'{"messages": ' + b"[" * depth + b"]" * depth + b"}"


BROKEN = {
    "no JSON": (b'{"mess', "body", "not JSON"),
    "not UTF-8": (b'{"a": "\xff"}', "body", "not UTF-8"),
    "a list": (b"[1, 2]", "body", "list is not an object"),
    "a number": (b"7", "body", "int is not an object"),
    "nothing": (b"", "body", "not JSON"),
    "NaN": (b'{"temperature": NaN}', "body", "NaN is not a JSON number"),
    "a key twice": (b'{"messages": [], "messages": []}', "messages", "twice"),
    "a key twice, inside": (b'{"messages": [{"role": "user", "role": "user"}]}', "role", "twice"),
    "701 deep": (nested(701), "messages", "nested more than 700 deep"),
    "100,000 deep": (nested(100_000), "body", "nested more than 700 deep"),
    "half an emoji": (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', "body", "lone surrogate"),
    "half an emoji as a key": (b'{"\\uD83D": 1}', "body", "lone surrogate"),
    "a number of 5,000 digits": (b'{"seed": 1' + b"0" * 5_000 + b"}", "body", "not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_body_that_is_none_is_a_400_with_its_place(live: Live, name: str) -> None:
    data, place, message = BROKEN[name]
    with live.client() as client:
        for path in (CHAT, TEXT, RESPONSES, "/v1/check"):
            answer = client.post(path, content=data)
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            assert (error["param"], error["type"]) == (place, "invalid_request_error")
            assert message in error["message"]
        assert client.post(CHAT, json=ASK).status_code == 200  # over the same connection


SCHEMA_OF_NOTHING = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "strng"}}}
IMAGE = [{"type": "image_url", "image_url": {"url": "data:,"}}]
LOOP = "start: a\na: a"


def after(**message: Any) -> list[dict[str, Any]]:
    """A chat whose second message is the assistant's."""
    return [*USER, {"role": "assistant", **message}]


DEEP_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
REFUSED: dict[str, tuple[str, dict[str, Any], str, str | None]] = {
    "no messages": (CHAT, {}, "messages", None),
    "empty messages": (CHAT, {"messages": []}, "messages", None),
    "a foreign role": (CHAT, {"messages": [{"role": "ipython", "content": "x"}]}, "messages[0].role", None),
    "no role": (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role", None),
    "an image": (CHAT, {"messages": [{"role": "user", "content": IMAGE}]}, "messages[0].content[0]", None),
    "a number of calls": (CHAT, {"messages": after(tool_calls=5)}, "messages[1].tool_calls", None),
    "arguments 100,000 deep": (
        CHAT, {"messages": after(tool_calls=[DEEP_CALL])}, "messages[1].tool_calls[0].function.arguments", None,
    ),
    "a number as a thought": (
        CHAT, {"messages": after(content=[{"type": "thinking", "thinking": 5}])}, "messages[1].content[0].thinking[0]",
        None,
    ),
    "a prompt over the context": (
        CHAT, {"messages": [{"role": "user", "content": "x" * 5_000}]}, "messages", "context_length_exceeded",
    ),
    "max_tokens above it": (CHAT, {**ASK, "max_tokens": 5_000}, "max_tokens", "context_length_exceeded"),
    "a hot temperature": (CHAT, {**ASK, "temperature": 2.1}, "temperature", None),
    "21 top_logprobs": (CHAT, {**ASK, "logprobs": True, "top_logprobs": 21}, "top_logprobs", None),
    "more answers than rows": (CHAT, {**ASK, "n": 9}, "n", None),
    "more greedy answers than rows": (CHAT, {**ASK, "n": 9, "temperature": 0}, "n", None),
    "no answers": (CHAT, {**ASK, "n": 0}, "n", None),
    "a bad schema": (CHAT, {**ASK, "response_format": SCHEMA_OF_NOTHING}, "response_format", None),
    "a bad schema, streamed": (
        CHAT, {**ASK, "response_format": SCHEMA_OF_NOTHING, "stream": True}, "response_format", None,
    ),
    "a bad regex": (CHAT, {**ASK, "regex": "("}, "regex line 1, column 1", None),
    "a grammar of nothing": (CHAT, {**ASK, "ebnf": LOOP}, "ebnf line 2, column 1", None),
    "two constraints": (CHAT, {**ASK, "regex": "a", "guided_choice": ["b"]}, "guided_choice and regex", None),
    "an unknown key": (CHAT, {**ASK, "temprature": 1}, "temprature", None),
    "stream of a word": (CHAT, {**ASK, "stream": "yes"}, "stream", None),
    "a model of a number": (CHAT, {**ASK, "model": 3}, "model", None),
    "a misspelt option of the stream": (
        CHAT, {**ASK, "stream": True, "stream_options": {"includ_usage": True}}, "stream_options", None,
    ),
    "usage of a word": (
        CHAT, {**ASK, "stream_options": {"include_usage": "false"}}, "stream_options.include_usage", None,
    ),
    "no prompt": (TEXT, {}, "prompt", None),
    "a prompt for a model of a list": (TEXT, {"prompt": "a", "model": ["m"]}, "model", None),
    "a prompt with options of a word": (TEXT, {"prompt": "a", "stream_options": "x"}, "stream_options", None),
    "an empty prompt": (TEXT, {"prompt": []}, "prompt", None),
    "a foreign token": (TEXT, {"prompt": [10**6]}, "prompt[0]", None),
    "prompts and messages": (TEXT, {"prompt": "a", "messages": USER}, "messages", None),
    "a long prompt": (TEXT, {"prompt": "x" * 5_000}, "prompt", "context_length_exceeded"),
    "prompts of more rows": (TEXT, {"prompt": ["a"] * 9, "max_tokens": 2}, "n", None),
    "no input": (RESPONSES, {}, "input", None),
    "messages as input": (RESPONSES, {"messages": USER}, "messages", None),
    "a foreign item": (RESPONSES, {"input": [{"type": "image_generation_call"}]}, "input[0].type", None),
    "a foreign part": (
        RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]", None,
    ),
    "no call id": (RESPONSES, {"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id", None),
    "an answer of before": (RESPONSES, {"input": "x", "previous_response_id": "resp_1"}, "previous_response_id", None),
    "two formats": (
        RESPONSES, {"input": "x", "text": {"format": {"type": "json_object"}}, "regex": "a"},
        "text.format and regex", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_cannot_be_honoured_is_a_400_with_its_place(live: Live, name: str) -> None:
    path, body, place, code = REFUSED[name]
    answer = live.post(path, body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["param"], error["code"], error["type"]) == (place, code, "invalid_request_error")
    assert error["message"].startswith(place)


def test_a_prompt_without_text_is_refused(live: Live, tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_guide.tokenizer, "chat_template", "{{ messages[0].content }}")
    answer = live.post(CHAT, {"messages": [{"role": "user", "content": ""}]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")


def test_what_the_context_leaves_is_the_limit_and_a_note_says_so(live: Live) -> None:
    answer = live.post(CHAT, {**ASK, "max_tokens": 2_040, "stop": ["a", "e", "o"], "temperature": 0}).json()
    assert "what context and server leave" in answer["guided"]["notes"][0]


def test_no_room_in_the_cache_even_alone(tiny_guide: Any) -> None:
    with serving(tiny_guide, cache_tokens=100) as small:
        for body in ({"messages": [{"role": "user", "content": "x" * 100}]}, {**ASK, "max_tokens": 101}):
            answer = small.post(CHAT, body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert small.post(CHAT, {"messages": USER}).json()["usage"]["total_tokens"] <= 100


def test_a_large_body_is_refused_while_it_is_read(tiny_guide: Any) -> None:
    with serving(tiny_guide, max_body=1_000) as small:
        large = {"messages": [{"role": "user", "content": "x" * 2_000}]}
        answer = small.post(CHAT, large)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        host, port = small.address.removeprefix("http://").split(":")
        for framing, sent in (
            (b"Content-Length: 99999999999\r\n\r\n", b""),
            (b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 0x1000 + b"\r\n"),
        ):
            with socket.create_connection((host, int(port)), timeout=20) as raw:
                raw.sendall(head + framing + sent)
                assert raw.recv(12) == b"HTTP/1.1 413"
        assert small.post(CHAT, ASK).status_code == 200


def test_unknown_names_and_methods(live: Live) -> None:
    with live.client() as client:
        answer = client.post(CHAT, json={**ASK, "model": "gpt-9"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert client.get("/v1/models/gpt-9").status_code == 404
        assert client.get("/v1/models/tiny").json()["id"] == "tiny"
        for status, answer in (
            (404, client.get("/v1/nothing")),
            (405, client.get(CHAT)),
            (405, client.delete("/health")),
        ):
            assert answer.status_code == status
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_keys(tiny_guide: Any) -> None:
    with serving(tiny_guide, keys=("secret-1", "secret-2")) as closed:
        assert closed.post(CHAT, ASK, Authorization="Bearer secret-2").status_code == 200
        with closed.client() as client:
            for path in ("/health", "/ready", "/metrics"):
                assert client.get(path).status_code == 200
            for headers, query in (
                ({}, ""), ({"Authorization": "Bearer wrong"}, ""), ({"Authorization": "secret-1"}, ""),
                ({"Authorization": "Basic secret-1"}, ""), ({}, "?api_key=secret-1"), ({"Authorization": "Bearer"}, ""),
            ):  # fmt: skip
                for answer in (
                    client.post(CHAT + query, json=ASK, headers=headers),
                    client.get("/v1/models" + query, headers=headers),
                ):
                    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
                    assert answer.headers["www-authenticate"] == "Bearer"
                    assert "secret" not in answer.text


def test_constraints_of_clients_may_be_forbidden(tiny_guide: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    with serving(tiny_guide, constraint_api=False) as server:
        for more in ({"regex": "a"}, {"response_format": {"type": "json_object"}}, {"reasoning_effort": "custom:x"}):
            answer = server.post(CHAT, {**ASK, **more})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
        free = {**ASK, "max_tokens": 90, "tools": [tool], "tool_choice": "required", "reasoning_effort": "minimal"}
        assert server.post(CHAT, free).json()["choices"][0]["finish_reason"] == "tool_calls"
        assert server.post(CHAT, {**ASK, "response_format": {"type": "text"}}).status_code == 200


@pytest.mark.parametrize(
    ("given", "is_echoed"),
    [("abc-1", True), ("x" * 128, True), ("x" * 129, False), ("a\tb", False), ("caf\u00e9", False), ("", False)],
)
def test_request_ids_are_echoed_or_replaced(live: Live, given: str, is_echoed: bool) -> None:
    with live.client() as client:
        answers = [client.post(CHAT, json=ASK, headers={b"X-Request-Id": given.encode("latin-1")}) for _ in range(2)]
    found = [answer.headers["x-request-id"] for answer in answers]
    assert all(one == given for one in found) == is_echoed
    assert is_echoed or len({*found, given}) == 3
    ids = [answer.json()["id"] for answer in answers]
    assert ids[0] != ids[1]
    assert not any(given and given in one for one in ids)


def test_the_same_body_twice_at_once(live: Live) -> None:
    body = {**ASK, "max_tokens": 30, "temperature": 1.0, "seed": 4}
    with ThreadPoolExecutor(2) as threads:
        answers = [answer.json() for answer in threads.map(live.post, [CHAT] * 2, [body] * 2)]
    assert answers[0]["choices"] == answers[1]["choices"]
    assert answers[0]["id"] != answers[1]["id"]


def test_a_stop_on_the_last_token_that_may_be_written(live: Live) -> None:
    free = {**ASK, "max_tokens": 12, "temperature": 0, "logprobs": True, "landing": False}
    tokens = [one["token"] for one in live.post(CHAT, free).json()["choices"][0]["logprobs"]["content"]]
    place = next(i for i in range(1, len(tokens)) if tokens[i].isalnum() and tokens[i] not in "".join(tokens[:i]))
    body = {**free, "stop": [tokens[place]], "max_tokens": place + 1, "logprobs": None}
    whole = live.post(CHAT, body).json()["choices"][0]
    assert (whole["finish_reason"], whole["stop_reason"]) == ("stop", tokens[place])
    with live.client() as client, client.stream("POST", CHAT, json={**body, "stream": True}) as stream:
        chunks = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == (whole["message"]["content"] or "")
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("name", ["keys", "names"])
def test_one_text_is_no_list_of_keys(name: str) -> None:
    """Each of its letters would be a key."""
    with pytest.raises(RequestError, match=f"{name}: one text is not a list"):
        Settings(**{name: "my-secret-key"})
