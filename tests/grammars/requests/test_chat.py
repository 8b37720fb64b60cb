"""A body of Chat Completions is read apart from any model."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.requests.body import check_roles, parse_body
from grammars.requests.chat import Delivery, read_chat
from grammars.requests.read import read_request
from special_tokens.errors import RequestError

CHAT = [{"role": "user", "content": "Hi"}]


def test_what_is_about_the_answer_is_read_as_in_any_body() -> None:
    sent = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    body: dict[str, Any] = {"messages": CHAT, **sent, "max_tokens": 9, "response_format": {"type": "json_object"}}
    chat = read_chat(body)
    assert chat.request == read_request(body)
    assert (chat.messages, chat.delivery) == (CHAT, Delivery("m", True, True))
    assert read_chat({"messages": CHAT}).delivery == Delivery(None, False, False)


def test_options_of_a_stream_that_are_unknown_can_be_ignored() -> None:
    body = {"messages": CHAT, "stream_options": {"include_usage": True, "new": 1}}
    assert read_chat(body, ignore_unknown=True).delivery == Delivery(None, False, True)
    with pytest.raises(RequestError, match="unknown key 'new'"):
        read_chat(body)


def test_no_log_probabilities_are_asked_for_by_zero_in_a_chat() -> None:
    assert "logprobs" not in read_chat({"messages": CHAT, "logprobs": 0}).request.sampling
    assert read_request({"prompt": "Hi", "logprobs": 0}).sampling["logprobs"] == 0


@pytest.mark.parametrize("first", [[], [{"role": "system", "content": "Be kind."}]])
def test_a_verbosity_is_a_line_of_the_system_message(first: list[Any]) -> None:
    system, *rest = read_chat({"messages": [*first, *CHAT], "verbosity": "low"}).messages
    before = "".join(f"{message['content']}\n\n" for message in first)
    assert system == {"role": "system", "content": f"{before}Answer in as few words as possible."}
    assert rest == CHAT


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"messages": None}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"stream": "yes"}, "stream"),
        ({"model": 3}, "model"),
        ({"stream_options": True}, "stream_options"),
        ({"input": "Hi"}, "input"),
        ({"prompt": "Hi"}, "prompt"),
        ({"temprature": 1}, "temprature"),
    ],
)
def test_a_key_at_fault_is_named(more: dict[str, Any], place: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_chat({"messages": CHAT, **more})
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"\xff", "body"), (b"[]", "body"), (b"{", "body"), (b'{"a": NaN}', "body"), (b'{"a": 1, "a": 2}', "a"),
     (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "body")],
)  # fmt: skip
def test_bytes_that_are_no_body_are_refused(data: bytes, place: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_body(data)
    assert caught.value.place == place


def test_a_role_of_no_one_is_refused() -> None:
    check_roles(CHAT)
    with pytest.raises(RequestError, match=r"messages\[1\].role"):
        check_roles([*CHAT, {"role": "root", "content": "x"}])
