"""Turns of one conversation have one session, other conversations have others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.ray.session import session_of

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is a good name for a cat?"}
LATER = [{"role": "assistant", "content": "Minka."}, {"role": "user", "content": "And for a dog?"}]
PARTS = {"role": "user", "content": [{"type": "input_text", "text": USER["content"]}]}
LONG = "Once upon a time there was a cat. " * 4

#: The bodies of a conversation's turns, as clients of each endpoint send them.
TURNS: dict[str, list[dict[str, Any]]] = {
    "chat": [{"messages": [SYSTEM, USER]}, {"messages": [SYSTEM, USER, *LATER]}],
    "chat without a system text": [{"messages": [USER]}, {"messages": [USER, *LATER]}],
    "responses": [
        {"input": USER["content"], "instructions": "Be brief."},
        {"input": [PARTS, *LATER], "instructions": "Be brief."},
    ],
    "completions": [{"prompt": LONG}, {"prompt": LONG + "It slept."}],
    "token ids": [{"prompt": [*range(200)]}, {"prompt": [*range(300)]}],
}


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
def test_all_turns_have_one_session(turns: list[dict[str, Any]]) -> None:
    assert len({session_of(json.dumps(body).encode()) for body in turns}) == 1


def test_conversations_have_sessions_of_their_own() -> None:
    others = [{"messages": [SYSTEM, {**USER, "content": f"{USER['content']} ({i})"}, *LATER]} for i in range(100)]
    bodies = [*(turns[0] for turns in TURNS.values()), *others]
    assert len({session_of(json.dumps(body).encode()) for body in bodies}) == len(bodies)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"[1]", b'{"messages": 7}', b'{"messages": [7]}', b'{"prompt": {"a": 1}}', b"[" * 100_000],
)
def test_what_is_no_request_has_no_session(data: bytes) -> None:
    assert session_of(data) == ""


@pytest.mark.parametrize("data", [b"{}", b'{"messages": [{"content": [7]}]}', b'{"prompt": [[1], [2]]}'])
def test_a_strange_request_raises_nothing(data: bytes) -> None:
    assert session_of(data)
