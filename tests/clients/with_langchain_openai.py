"""langchain-openai: structured output by schema and by function, bound tools, streams, batches."""

from __future__ import annotations

from typing import Literal

from checks import ADDRESS, run_checks
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

model = ChatOpenAI(model="gpt-4o-mini", base_url=ADDRESS, api_key=SecretStr("any"), max_retries=0)
TEXT = "Alice is 31, happy."


class Feeling(BaseModel):
    """The state of a person."""

    age: int
    mood: Literal["good", "bad"]


def json_schema() -> None:
    assert isinstance(model.with_structured_output(Feeling, method="json_schema").invoke(TEXT), Feeling)


def function_calling() -> None:
    assert isinstance(model.with_structured_output(Feeling, method="function_calling").invoke(TEXT), Feeling)


def streams() -> None:
    for method in ("json_schema", "function_calling"):
        parts = list(model.with_structured_output(Feeling, method=method).stream(TEXT))
        assert isinstance(parts[-1], Feeling)
    assert "".join(str(part.content) for part in model.bind(max_tokens=8).stream("Say hello."))


def bound_tools() -> None:
    found = model.bind_tools([Feeling], tool_choice="required").invoke(TEXT)
    assert found.tool_calls[0]["name"] == "Feeling"


def batch() -> None:
    found = model.with_structured_output(Feeling, method="json_schema").batch([TEXT, "Bob is 2, sad."])
    assert all(isinstance(one, Feeling) for one in found)


run_checks("langchain-openai", [json_schema, function_calling, streams, bound_tools, batch])
