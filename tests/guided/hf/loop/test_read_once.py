"""In one answer each token goes to the stops once and to the parser once, whatever way the answer is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guided.output.message import Message
from guided.output.parser import OutputParser
from guided.output.stop_parser import PlainParser
from guided.stops.matcher import StopMatcher
from tests.made_up.schemas import closed

FORM = closed({"a long name": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "maximum": 99}})
TOOL = {"type": "function", "function": {"name": "look", "parameters": FORM}}


@pytest.fixture
def reads(monkeypatch: Any) -> tuple[dict[int, list[int]], dict[int, list[tuple[int, int, int]]]]:
    """Per matcher the tokens that went in; per parser the parts ``(token, first byte, end)`` of tokens that did."""
    matched: dict[int, list[int]] = {}
    parsed: dict[int, list[tuple[int, int, int]]] = {}
    alive: list[Any] = []  # so that no id comes twice
    push = StopMatcher.push

    def noted_push(self: StopMatcher, token: int, *rest: Any) -> Any:
        alive.append(self)
        matched.setdefault(id(self), []).append(token)
        return push(self, token, *rest)

    monkeypatch.setattr(StopMatcher, "push", noted_push)
    for kind in (OutputParser, PlainParser):

        def noted(self: Any, token: int, first: int, last: int, feed_part: Any = kind.feed_part) -> Any:
            alive.append(self)
            parsed.setdefault(id(self), []).append((token, first, last))
            return feed_part(self, token, first, last)

        monkeypatch.setattr(kind, "feed_part", noted)
    return matched, parsed


def whole_tokens(parts: list[tuple[int, int, int]]) -> list[int]:
    """The tokens that parts make, of which none is left out and none comes twice; the last may be cut by a stop."""
    tokens: list[int] = []
    end = 0
    for i, (token, first, last) in enumerate(parts):
        goes_on = first > 0
        assert first == (end if goes_on else 0), parts[: i + 1]
        if not goes_on:
            tokens.append(token)
        assert tokens[-1] == token
        end = last
    return tokens


WAYS: dict[str, Callable[..., Message[Any]]] = {
    "stream": lambda guide, **options: [*guide.stream("tell me", **options)][-1].message,
    "chat": lambda guide, **options: guide.chat("tell me", **options),
    "generate": lambda guide, **options: guide.generate(["tell me"], **options)[0],
}


@pytest.mark.parametrize(
    "options",
    [
        {"response_format": FORM, "stop": ["zebra stripes", "\n\n\n"]},
        {"response_format": FORM, "stop": ['"n"']},
        {"tools": [TOOL], "tool_choice": "required", "stop": ["zebra stripes"]},
        {"stop": ["e", "a b"], "reasoning_effort": None},
        {"stop": ["zebra stripes"]},
        {},
        {"tools": [TOOL], "tool_choice": "required", "stop": ["zebra stripes"], "max_tokens": 50, "landing": True},
    ],
    ids=["schema", "stopped", "call", "free stopped", "free", "no stops", "landed call"],
)
@pytest.mark.parametrize("way", WAYS)
def test_each_token_is_matched_once_and_parsed_once(
    tiny_guide: Any, reads: Any, way: str, options: dict[str, Any]
) -> None:
    matched, parsed = reads
    settings = {"temperature": 1.0, "seed": 3, "max_tokens": 120, "landing": False}
    message = WAYS[way](tiny_guide, **(settings | options))
    ids = list(message.token_ids)
    assert len(ids) > 3
    assert (message.landed is not None) == ("landing" in options)
    if "stop" in options:
        (_,) = [tokens for tokens in matched.values() if tokens in (ids, ids[:-1])]  # an end may be no text of a stop
        assert len(matched) == 1 or message.landed is not None  # landing looks whether the shortest answer holds a stop
    else:
        assert not matched
    (parts,) = parsed.values()
    tokens = whole_tokens(parts)
    assert tokens == ids[: len(tokens)]
    if message.stop_reason is None:
        assert len(ids) - len(tokens) <= 1  # the end
