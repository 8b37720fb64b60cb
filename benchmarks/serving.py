#!/usr/bin/env python3
"""Benchmark: the server: what HTTP costs, requests that arrive one by one, heavy schemas next to streams.

    python benchmarks/serving.py                        # all tables (half an hour)
    python benchmarks/serving.py --only http --rounds 1 # one of http, arrivals, compiles

Embedded model, float32, one thread.  Eight kinds of mixed guided requests (schemas, required calls, a choice with
effort, a regex, stops, penalties, log-probabilities).  Times are processor times of this process, so that other work on
the machine does not count; arrivals are by the same clock.  Medians over the rounds, which alternate.

  http      16 requests at once: tokens per second of the loop that rows join, and of the same requests over HTTP,
            whose client is a process of its own
  arrivals  16 requests, one every 0.3 s: first token and tokens per second of the joining loop, of batches of whatever
            has arrived when the batch before has ended, and one after the other
  compiles  token gaps (elapsed time) of 4 streams over HTTP, alone and while schemas that take long to compose arrive
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import uvicorn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from guided.hf.completing import Completing, completing  # noqa: E402
from guided.hf.loop.generation import Generation  # noqa: E402
from guided.serve.app import create_app  # noqa: E402
from guided.serve.loops import JobRows, make_loop  # noqa: E402
from guided.serve.server import Uvicorn  # noqa: E402
from guided.serve.service import Service  # noqa: E402
from guided.serve.settings import Settings  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"type": "string", "maxLength": 20},
        "married": {"type": "boolean"},
        "country": {"enum": ["France", "Spain", "Italy"]},
    },
    "required": ["name", "age", "city", "married", "country"],
    "additionalProperties": False,
}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}}
WEATHER = {
    "city": {"type": "string", "maxLength": 20},
    "unit": {"enum": ["celsius", "fahrenheit"]},
    "days": {"type": "integer", "minimum": 1, "maximum": 7},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": WEATHER, "required": list(WEATHER)},
    },
}
CALLS = {"tools": [TOOL], "tool_choice": "required"}
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Alice Martin, 31, a married baker, lives in Lyon, France. Extract the person.", FORMAT | {"max_tokens": 90}),
    ("What will the weather be in Berlin for the next 3 days?", CALLS | {"max_tokens": 80}),
    ("Weather in Oslo, please, for two days.", CALLS | {"max_tokens": 80, "temperature": 0.8, "seed": 5}),
    (
        "Is the sky blue?",
        {
            "structured_outputs": {"choice": ["yes, of course", "no, never"]},
            "reasoning_effort": "minimal",
            "max_tokens": 100,
        },
    ),
    (
        "Write a licence plate.",
        {"regex": "[A-Z]{2}-[0-9]{3}-[A-Z]{2}", "temperature": 1.0, "seed": 11, "max_tokens": 30},
    ),
    (
        "Tell me about the sea.",
        {"temperature": 0.9, "top_p": 0.9, "seed": 7, "stop": ["waves", "\n\n"], "max_tokens": 40},
    ),
    (
        "Bob is 45 and drives a bus in Madrid, Spain; he is single. Extract the person.",
        FORMAT | {"temperature": 0.6, "seed": 2, "presence_penalty": 0.5, "max_tokens": 90},
    ),
    ("Name a colour.", {"logprobs": True, "top_logprobs": 3, "max_tokens": 16}),
)


def bodies(number: int, tag: str) -> list[dict[str, Any]]:
    """Return mixed requests whose prompts no other ``tag`` has."""
    return [
        {"temperature": 0, **more, "messages": [{"role": "user", "content": f"({tag}{i}) {text}"}]}
        for i, (text, more) in ((i, KINDS[i % len(KINDS)]) for i in range(number))
    ]


class ArrivedJob:
    """A job that notes when its first token was written."""

    client = ""

    def __init__(self, run: Completing) -> None:
        self.generation: Generation = run.generation
        self.arrived = time.process_time()
        self.first: float | None = None

    def began(self) -> None: ...

    def wrote(self) -> None:
        self.first = self.first or time.process_time()

    def ended(self, error: BaseException | None) -> None:
        assert error is None

    @property
    def num_tokens(self) -> int:
        return sum(len(answer.tokens) for answer in self.generation.answers)


def accepted(guide: Any, body: dict[str, Any]) -> ArrivedJob:
    return ArrivedJob(completing(guide.planner, body, trusted=False, ignore_unknown=False, describe=True))


def run_joining(rows: JobRows, guide: Any, asked: list[dict[str, Any]], every: float) -> tuple[list[ArrivedJob], float]:
    """Let requests join the loop, one after each ``every`` seconds; return them and the time that it took."""
    began, jobs = time.process_time(), []
    left = list(asked)
    while left or rows.num_rows:
        while left and time.process_time() - began >= every * len(jobs):
            jobs.append(accepted(guide, left.pop(0)))
            rows.join(jobs[-1])
        if not rows.num_rows:
            sum(range(1000))  # the clock runs on
        for job, error in rows.step():
            job.ended(error)
    return jobs, time.process_time() - began


def run_batches(guide: Any, asked: list[dict[str, Any]], every: float, most: int) -> tuple[list[float], int, float]:
    """Answer in batches of at most ``most`` that have arrived; return waits for first tokens, tokens, and the time."""
    began, first, tokens, done = time.process_time(), [], 0, 0
    while done < len(asked):
        here = min(len(asked), int((time.process_time() - began) / every) + 1, done + most)
        if here == done:
            continue
        batch = [accepted(guide, body) for body in asked[done:here]]
        loop = make_loop(guide, Settings(max_rows=most))
        for job in batch:
            loop.join(job)
        while loop.num_rows:
            loop.step()
        ended = time.process_time() - began
        first += [ended - every * i for i in range(done, here)]  # a batch answers as a whole
        tokens += sum(job.num_tokens for job in batch)
        done = here
    return first, tokens, time.process_time() - began


@contextmanager
def serving(guide: Any) -> Iterator[str]:
    service = Service(Settings(names=("m",)))
    service.load(lambda: guide)
    server = Uvicorn(uvicorn.Config(create_app(service), port=0, log_config=None), service)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


#: Runs in a process of its own: posts the bodies of stdin at once, and prints tokens and the gaps between the chunks.
CLIENT = """
import json, sys, threading, time
from urllib.request import Request, urlopen
address, asked = json.load(sys.stdin)
tokens, gaps = [0] * len(asked), [[] for _ in asked]
def ask(i, body):
    last = None
    with urlopen(Request(address + "/v1/chat/completions", json.dumps(body).encode())) as answer:
        for line in answer:
            if not body.get("stream"):
                tokens[i] = json.loads(line)["usage"]["completion_tokens"]
            elif line.startswith(b"data: {"):
                now = time.perf_counter()
                gaps[i] += [] if last is None else [now - last]
                last = now
threads = [threading.Thread(target=ask, args=one) for one in enumerate(asked)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([sum(tokens), [gap for one in gaps for gap in one]]))
"""


def asked_over_http(address: str, asked: list[dict[str, Any]]) -> subprocess.Popen[str]:
    client = subprocess.Popen([sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdin is not None
    client.stdin.write(json.dumps([address, asked]))
    client.stdin.close()
    return client


def answered(client: subprocess.Popen[str]) -> tuple[int, list[float]]:
    assert client.stdout is not None
    tokens, gaps = json.loads(client.stdout.read())
    client.wait()
    return tokens, gaps


def http_table(guide: Any, rounds: int) -> None:
    found: dict[str, list[float]] = {"the loop itself": [], "over HTTP": []}
    with serving(guide) as address:
        for r in range(rounds + 1):
            jobs, seconds = run_joining(make_loop(guide, Settings()), guide, bodies(16, f"a{r}."), 0.0)
            own = sum(job.num_tokens for job in jobs) / seconds
            began = time.process_time()
            tokens, _ = answered(asked_over_http(address, bodies(16, f"b{r}.")))
            served = tokens / (time.process_time() - began)
            if r:  # the first round compiles
                found["the loop itself"].append(own)
                found["over HTTP"].append(served)
    print("\n| 16 requests at once | tokens per second |\n|---|---|")
    for name, values in found.items():
        print(f"| {name} | {statistics.median(values):.1f} |")
    print(f"\nHTTP / loop: {statistics.median(b / a for a, b in zip(*found.values(), strict=True)):.3f}")


def arrivals_table(guide: Any, rounds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for r in range(rounds + 1):
        jobs, seconds = run_joining(make_loop(guide, Settings()), guide, bodies(16, f"c{r}."), 0.3)
        waits = [(job.first or 0.0) - job.arrived for job in jobs]
        rows = {"rows that join": (statistics.median(waits), sum(job.num_tokens for job in jobs) / seconds)}
        for name, most in (("batches of what has arrived", 16), ("one after the other", 1)):
            first, tokens, seconds = run_batches(guide, bodies(16, f"{name[0]}{r}."), 0.3, most)
            rows[name] = (statistics.median(first), tokens / seconds)
        for name, pair in rows.items() if r else ():
            found.setdefault(name, []).append(pair)
    print("\n| 16 requests, one every 0.3 s | first token, p50 | tokens per second |\n|---|---|---|")
    for name, pairs in found.items():
        first, speed = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"| {name} | {first:.2f} s | {speed:.1f} |")


def heavy(seed: int) -> dict[str, Any]:
    """A schema that takes long to compose, and is never in a cache."""
    properties = {f"k{seed}_{i}": {"type": "string", "pattern": f"^[a-z]{{1,{i + 2}}}$"} for i in range(120)}
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[:20]}
    body = {"messages": [{"role": "user", "content": "Fill it."}], "max_tokens": 1, "landing": False}
    return body | {"response_format": {"type": "json_schema", "json_schema": {"name": "h", "schema": schema}}}


def compiles_table(guide: Any, rounds: int) -> None:
    streams = [
        {"messages": [{"role": "user", "content": f"Tell me story {i}."}], "max_tokens": 60, "stream": True,
         "temperature": 0, "landing": False}
        for i in range(4)
    ]  # fmt: skip
    found: dict[str, list[float]] = {"alone": [], "next to heavy schemas": []}
    with serving(guide) as address:
        answered(asked_over_http(address, streams))
        for r in range(rounds):
            found["alone"] += answered(asked_over_http(address, streams))[1]
            client = asked_over_http(address, streams)
            seed = 0
            while client.poll() is None:
                others = asked_over_http(address, [heavy(1000 * r + seed + i) for i in range(2)])
                seed += 2
                others.wait()
            found["next to heavy schemas"] += answered(client)[1]
    print("\n| 4 streams | token gap p50 | p99 |\n|---|---|---|")
    for name, gaps in found.items():
        cuts = statistics.quantiles(gaps, n=100)
        print(f"| {name} | {1000 * cuts[49]:.0f} ms | {1000 * cuts[98]:.0f} ms |")


TABLES = {"http": http_table, "arrivals": arrivals_table, "compiles": compiles_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.demo()
    for name, table in TABLES.items():
        if asked.only in (None, name):
            table(guide, asked.rounds)


if __name__ == "__main__":
    main()
