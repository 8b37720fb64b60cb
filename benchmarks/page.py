#!/usr/bin/env python3
"""Benchmark: what the page of a server costs it, and what tracing costs a request.

    python benchmarks/page.py               # three minutes

Embedded model, 8 rows.  The rows are held after 40 tokens and the processor time of the server is read for a while,
without a page and with one that a process of its own reads, so that only the page's work is counted; it costs the
same however fast rows are written.  Looking at the masks is timed by itself.  Then the rows go on: updates are counted,
and the tokens that they show.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.serving import bodies  # noqa: E402
from guided.serve.observing.records import UPDATE_S, RequestRecord  # noqa: E402
from tests.guided.serve.browser import CHROMIUM, tab  # noqa: E402
from tests.guided.serve.conftest import Live, serving  # noqa: E402

ROWS, SECONDS = 8, 20.0

#: Reads updates until its input ends; prints the time of each, and the tokens that the last one shows.
READER = """
import json, sys, threading, time, urllib.request
times, last, done = [], {}, threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
for line in urllib.request.urlopen(sys.argv[1] + "/v1/live"):
    if line.startswith(b"data: "):
        times.append(time.monotonic())
        last = json.loads(line[6:])
        if done.is_set():
            break
print(json.dumps([times, last["tokens"], last["num_ended"]]))
"""


def reader(live: Live) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", READER, live.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read(process: subprocess.Popen[str]) -> tuple[list[float], int, int]:
    out, _ = process.communicate("")
    times, tokens, num_ended = json.loads(out)
    return times, tokens, num_ended


def idle_share(live: Live) -> float:
    """The processor time of this process in a while, as a share of one processor."""
    began, until = time.process_time(), time.monotonic() + SECONDS
    time.sleep(max(0.0, until - time.monotonic()))
    return (time.process_time() - began) / SECONDS


def main() -> None:
    guide: Any = guided.demo()
    torch.set_num_threads(1)
    with serving(guide, max_rows=ROWS) as live:
        used: list[int] = []

        def ask(body: dict[str, Any]) -> None:
            with live.client() as client:
                answer = client.post("/v1/chat/completions", json=body, timeout=600).json()
            used.append(answer["usage"]["completion_tokens"])

        sent = [{**body, "max_tokens": 80, "landing": False} for body in bodies(ROWS, "p")]
        threads = [threading.Thread(target=ask, args=(body,)) for body in sent]
        for thread in threads:
            thread.start()
        records = live.service.records
        while records.update(0)["tokens"] < 40:  # tokens of all rows together: none has ended
            time.sleep(0.05)
        gate = threading.Event()
        live.service.engine.call(gate.wait)
        time.sleep(3)  # a step may still run, and this thread looked on
        num = len(records.update(0)["live"])
        time.sleep(3)
        without = idle_share(live)
        watching = reader(live)
        time.sleep(2)
        held = list(records._live.values())
        began = time.thread_time()
        for _ in range(100):
            for record in held:
                record.look()
        looking = (time.thread_time() - began) / 100
        page = idle_share(live) - without
        print(f"{num} rows held: a page costs {page:.2%} of a processor for updates, ", end="")
        print(f"{looking / UPDATE_S:.2%} for masks ({1000 * looking:.2f} ms each {UPDATE_S} s)")
        gate.set()
        for thread in threads:
            thread.join()
        time.sleep(2 * UPDATE_S)
        times, tokens, num_ended = read(watching)
        gaps = [after - before for before, after in pairwise(times)]
        print(f"{len(times)} updates in {times[-1] - times[0]:.0f} s, longest gap {max(gaps):.2f} s; ", end="")
        print(f"they show {tokens} tokens and {num_ended} answers of {sum(used)} and {len(used)}")
        spans(held[0])
        if CHROMIUM is not None:
            with tab() as found:
                found.open(live.address + "/")
                (paint, *_) = found.run("performance.getEntriesByType('paint').map(one => one.startTime)")
                print(f"first paint after {paint:.0f} ms")
                found.open("about:blank")


def spans(record: RequestRecord) -> None:
    """Print what tracing a request costs, without an exporter."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    except ImportError:
        print("spans: no opentelemetry-sdk here")
        return
    from guided.serve.observing.spans import Spans

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(provider)
    write, began = Spans(), time.thread_time()
    for _ in range(1_000):
        write(record)
    print(f"spans of a request: {time.thread_time() - began:.3f} ms")


if __name__ == "__main__":
    main()
