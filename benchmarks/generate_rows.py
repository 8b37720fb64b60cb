#!/usr/bin/env python3
"""Worker of `joining.py`: ``guide.generate`` of eight rows or one, by public names alone: older checkouts run it too.

    PYTHONPATH=TREE python benchmarks/generate_rows.py     # names of workloads on stdin, numbers on stdout

Embedded model, float32, one thread.  Each workload begins with an empty pool of kept rows; rows are kept as by default.
The number is CPU seconds.  ``arrivals`` answers 16 requests, one every 0.3 s, in batches of all that wait; its numbers
are tokens per second and the median seconds to the first token.
"""

from __future__ import annotations

import os
import statistics
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
TimedRow = tuple[str, dict[str, Any], dict[str, Any]]
MIXED: list[TimedRow] = [
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
#: Name -> rows, their token limit, other options.
WORKLOADS: dict[str, tuple[list[TimedRow], int, dict[str, Any]]] = {
    "8 mixed": (MIXED, 80, {}),
    "8 calls": ([(f"Weather in {city} in celsius?", MIXED[1][1], {"temperature": 0}) for city in CITIES], 60, {}),
    "8 equal free rows": ([(f"{n} The lighthouse keeper wrote", {}, {"temperature": 0}) for n in range(8)], 32, {}),
    "a call": (MIXED[1:2], 60, {}),
    "an object": (MIXED[:1], 80, {}),
    "free text": (MIXED[-1:], 32, {}),
    "free text, hidden states": (MIXED[-1:], 32, {"return_last_hidden_state": True}),
    "an object, drafts": (MIXED[:1], 80, {"prompt_lookup_num_tokens": 10}),
}

#: Seconds between requests that arrive one after the other.
EVERY = 0.3


def write(guide: Any, rows: list[TimedRow], most: int, more: dict[str, Any]) -> int:
    """Write the answers of one batch; return the number of tokens."""
    plans = [guide.plan(**asked) if asked else None for _, asked, _ in rows]
    chats = [[{"role": "user", "content": chat}] for chat, _, _ in rows]
    sampling = [guided.Sampling(**how) for _, _, how in rows]
    answers = guide.generate(chats, plans, sampling=sampling, max_tokens=most, **more)
    return sum(answer.usage.completion_tokens for answer in answers)


def seconds(guide: Any, name: str) -> float:
    """Return the CPU time of one call."""
    guide.forget()
    began = time.process_time()
    write(guide, *WORKLOADS[name])
    return time.process_time() - began


def arriving(rows: list[TimedRow]) -> list[TimedRow]:
    """Return sixteen requests, no two with the same prompt."""
    return [(f"{chat} ({n})", asked, how) for n in range(2) for chat, asked, how in rows]


def arrivals(guide: Any) -> tuple[float, float]:
    """Return the tokens per second and the median time to the first token, where rows that wait are one batch."""
    guide.forget()
    rows, firsts, tokens, skipped, begun = arriving(MIXED), list[float](), 0, 0.0, time.process_time()
    while len(firsts) < len(rows):
        now = time.process_time() - begun + skipped
        come = min(len(rows), int(now / EVERY) + 1)
        if come == len(firsts):
            skipped += come * EVERY - now
            continue
        tokens += write(guide, rows[len(firsts) : come], WORKLOADS["8 mixed"][1], {})
        now = time.process_time() - begun + skipped
        firsts += [now - n * EVERY for n in range(len(firsts), come)]
    return tokens / (time.process_time() - begun + skipped), statistics.median(firsts)


if __name__ == "__main__":
    torch.set_num_threads(1)
    demo = guided.demo()
    for line in sys.stdin:
        print(*(arrivals(demo) if line.strip() == "arrivals" else (seconds(demo, line.strip()),)), flush=True)
