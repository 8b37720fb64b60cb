"""A program as a user with a strict type checker writes it; `test_types` has the checkers read it, nothing runs it.

A line that ends in ``# error`` is one that they must refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

import guided
from guided import Guide, Message
from guided.hf import Batch, Stream
from guided.hf.loop.stream import StreamEvent


class Person(BaseModel):
    """A pydantic model."""

    name: str
    age: int


@dataclass
class Point:
    """A dataclass."""

    x: int


class TableRow(TypedDict):
    """A typed dict."""

    y: int


def typed_answers(guide: Guide, text: str) -> str:
    """Read values of the types that were given as formats."""
    message = guide.chat(text, response_format=Person, temperature=0.0, reasoning_effort="low", max_tokens=9)
    assert_type(message, Message[Person])
    assert_type(message.parsed, Person | None)
    assert_type(guide.chat([{"role": "user", "content": text}], response_format=Point).parsed, Point | None)
    assert_type(guide.chat(text, response_format=TableRow).parsed, TableRow | None)
    assert_type(guide.chat(text, response_format=list[Person]).parsed, list[Person] | None)
    assert_type(guide.chat(text, response_format=int).parsed, int | None)
    assert_type(guide.chat(text, response_format=guided.Choice(["a", "b"])).parsed, str | None)
    assert_type(guide.chat(text, response_format=re.compile("a+")).parsed, str | None)
    assert_type(guide.chat(text, response_format={"type": "object"}), Message[Any])
    assert_type(guide.chat(text, guide.plan(response_format=Person)), Message[Any])
    assert_type(guide.chat(prompt=text, response_format=Person), Message[Person])
    assert_type(message.unwrap(), Person)
    assert_type(message.partial, Person | None)
    assert_type(guide.run(text, tools=[len], response_format=Person).message, Message[Person])
    if message.parsed is None:
        return message.content or ""
    return message.parsed.name


def typed_streams_and_batches(guide: Guide, model: Any, chats: list[str]) -> list[int]:
    """Read the same types off streams, lists and batches."""
    stream = guide.stream(chats[0], response_format=Person)
    assert_type(stream, Stream[Person])
    for event in stream:
        assert_type(event, StreamEvent)
    assert_type(stream.message, Message[Person])
    assert_type(guide.generate(chats, response_format=Person, n=2, temperature=1.0), list[Message[Person]])
    assert_type(guide.generate(chats, [guide.plan(), None], seed=[1, 2]), list[Message[Any]])
    batch = guide.batch(chats, response_format=Person, max_tokens=20)
    assert_type(batch, Batch[Person])
    messages = batch.messages(model.generate(**batch, num_beams=3))
    assert_type(messages, list[Message[Person]])
    return [m.parsed.age for m in messages if m.parsed is not None]


async def typed_twins(guide: Guide, text: str) -> None:
    """Read the same types in an event loop."""
    assert_type(await guide.achat(text, response_format=Person), Message[Person])
    async with guide.astream([guide.chat(text)], response_format=Person) as stream:
        async for event in stream:
            assert_type(event, StreamEvent)
    assert_type(stream.message.parsed, Person | None)


def plain_messages(message: Message) -> str:
    """Take a message of any type: the parameter may be left out."""
    return message.content or ""


def misspelt(guide: Guide) -> None:
    """Misuse the guide: a checker must refuse each line."""
    guide.chat("x", reponse_format=Person)  # error
    guide.chat("x", temperature="hot")  # error
    guide.generate("x", top_q=1.0)  # error
    guide.plan(temperature=0.5)  # error
    print(guide.chat("x", response_format=Person).parsed.name)  # error
