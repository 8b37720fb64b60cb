"""instructor: its modes for OpenAI, and partial objects."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import instructor
from checks import ADDRESS, run_checks
from openai import OpenAI
from pydantic import BaseModel

MESSAGES: Any = [{"role": "user", "content": "Alice is 31, happy."}]


class Guest(BaseModel):
    age: int
    mood: Literal["good", "bad"]


def in_mode(mode: instructor.Mode) -> None:
    client: Any = instructor.from_openai(OpenAI(base_url=ADDRESS, api_key="any"), mode=mode)
    found = client.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, response_model=Guest, max_retries=0)
    assert isinstance(found, Guest)


def create_partial() -> None:
    client: Any = instructor.from_openai(OpenAI(base_url=ADDRESS, api_key="any"), mode=instructor.Mode.TOOLS)
    parts = list(client.chat.completions.create_partial(model="gpt-4o-mini", messages=MESSAGES, response_model=Guest))
    assert parts[-1].mood in ("good", "bad")


def modes() -> list[Any]:
    """Return a check for each mode."""
    found = []
    for name in ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "JSON_O1", "RESPONSES_TOOLS"):
        check = partial(in_mode, getattr(instructor.Mode, name))
        check.__name__ = name  # type: ignore[attr-defined]
        found.append(check)
    return found


run_checks("instructor", [*modes(), create_partial])
