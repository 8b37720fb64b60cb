"""The pages of ``guided demo``: the main job on the embedded model, one request after the other."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal

import pydantic
import torch
from rich.console import Console
from rich.rule import Rule

from guided.cli.answer import EventPrinter, show_message
from guided.embedded import demo

__all__ = ["run"]


PersonName = Annotated[str, pydantic.Field(max_length=40)]


class City(pydantic.BaseModel):  # no docstring: the model would be shown it
    name: PersonName
    country: PersonName
    population_in_millions: float
    is_capital: bool


def get_weather(city: PersonName, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Current weather in a city.

    Args:
        city: name of the city
        unit: unit of the temperature
    """
    return f"{city}: 18 degrees {unit}"


BOTH: dict[str, Any] = {"response_format": City, "tools": [get_weather], "parallel_tool_calls": False}

REQUESTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "reasoning, then an object",
        "Paris is the capital of France and has 2.1 million inhabitants.",
        {"response_format": City, "reasoning_effort": "minimal"},
    ),
    (
        "a tool that must be called",
        "What is the weather in Oslo, in celsius?",
        {"tools": [get_weather], "tool_choice": "required", "parallel_tool_calls": False},
    ),
    ("a call or an object: the model chooses", "Will I need an umbrella in Rome?", BOTH),
    (
        "reasoning, then a call or an object: the model chooses",
        "Lima is the capital of Peru and has 10 million inhabitants.",
        BOTH | {"reasoning_effort": "minimal"},
    ),
)


def run(console: Console, *, max_tokens: int) -> int:
    """Run the requests; 0 when every answer was complete and valid, 1 otherwise."""
    logging.getLogger("guided").setLevel(logging.ERROR)
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # two busy threads on shared cores are slower than one
    guide = demo(progress=lambda text: console.print(text, style="dim"))
    complete = True
    for title, prompt, options in REQUESTS:
        console.print(Rule(title, align="left"))
        console.print(f"[bold]user:[/bold] {prompt}")
        stream = guide.stream(prompt, max_tokens=max_tokens, temperature=0, **options)
        printer = EventPrinter(console, response="response_format" in options)
        for event in stream:
            printer(event)
        console.print()
        message = stream.message
        show_message(console, message)
        complete &= message.ok
    return 0 if complete else 1
