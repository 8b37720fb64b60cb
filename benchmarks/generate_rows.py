#!/usr/bin/env python3
"""Worker of `joining.py`: ``guide.generate`` of eight rows, by public names alone, so that older checkouts run it too.

    PYTHONPATH=TREE python benchmarks/generate_rows.py     # names of workloads on stdin, CPU seconds on stdout

Embedded model, float32, one thread.  Each call begins with an empty pool of kept rows, and keeps rows as by default.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import guided

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"type": "string", "maxLength": 20}, "married": {"type": "boolean"},
        "job": {"type": "string", "maxLength": 20}, "country": {"enum": ["France", "Spain", "Italy"]},
    },
    "required": ["name", "age", "city", "married", "job", "country"],
    "additionalProperties": False,
}  # fmt: skip
CITIES = ("Rome", "Oslo", "Bern", "Lima", "Kyoto", "Quito", "Paris", "Cairo")


def get_weather(city: str, unit: str, days: int) -> str:
    """Weather of a city."""
    return city * days + unit


def search_flights(origin: str, destination: str, cabin: str) -> str:
    """Search flights."""
    return origin + destination + cabin


#: Chat, what the plan is asked for, how it is sampled.
Row = tuple[str, dict[str, Any], dict[str, Any]]
MIXED: list[Row] = [
    ("Alice Martin, 31, a married baker, lives in Lyon, France. Extract the person.",
     {"response_format": PERSON}, {"temperature": 0}),
    ("What will the weather be in Berlin for the next 3 days?",
     {"tools": [get_weather], "tool_choice": "required"}, {"temperature": 0}),
    ("I need a business flight from Oslo to Rome.",
     {"tools": [get_weather, search_flights], "tool_choice": "required"}, {"temperature": 0.8, "seed": 5}),
    ("Is the sky blue?",
     {"response_format": guided.Choice(["yes, of course", "no, never", "it depends on the weather"]),
      "reasoning_effort": "minimal"}, {"temperature": 0.7, "seed": 3}),
    ("Write a licence plate.",
     {"response_format": guided.Regex("[A-Z]{2}-[0-9]{3}-[A-Z]{2}")}, {"temperature": 1.0, "seed": 11}),
    ("Tell me about the sea.", {}, {"temperature": 0.9, "top_p": 0.9, "seed": 7}),
    ("Bob is 45 and drives a bus in Madrid, Spain; he is single. Extract the person.",
     {"response_format": PERSON}, {"temperature": 0.6, "seed": 2, "presence_penalty": 0.5}),
    ("Name a colour.", {}, {"temperature": 0}),
]  # fmt: skip
WORKLOADS: dict[str, tuple[list[Row], int]] = {
    "8 mixed": (MIXED, 80),
    "8 calls": (
        [(f"Weather in {city} in celsius?", MIXED[1][1], {"temperature": 0}) for city in CITIES], 60,
    ),
    "8 equal free rows": (
        [(f"{n} The lighthouse keeper wrote down", {}, {"temperature": 0}) for n in range(8)], 32,
    ),
}  # fmt: skip


def seconds(guide: Any, name: str) -> float:
    """Return the CPU time of one call."""
    rows, most = WORKLOADS[name]
    guide.forget()
    plans = [guide.plan(**asked) if asked else None for _, asked, _ in rows]
    chats = [[{"role": "user", "content": chat}] for chat, _, _ in rows]
    began = time.process_time()
    guide.generate(chats, plans, sampling=[guided.Sampling(**how) for _, _, how in rows], max_tokens=most)
    return time.process_time() - began


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = guided.demo()
    for line in sys.stdin:
        print(seconds(model, line.strip()), flush=True)
