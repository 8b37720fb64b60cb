#!/usr/bin/env python3
"""Benchmark: what replicas on Ray Serve cost next to one `guided serve`, and what two give.

    build/ray/bin/python benchmarks/replicas.py        # in the environment of `make test-ray` (ten minutes)
    build/ray/bin/python benchmarks/replicas.py 1 2    # one replica and two alone; 0 is `guided serve`

Embedded model, float32, a thread for each replica.  Times in parts are processor times, of the replicas or the server,
of the ingress, and of Ray's proxy; other work on the machine does not count in them.

  request  40 answers of one token to a prompt that is kept, one after the other
  stream   8 streams of 60 tokens at once, a chunk each
  mixed    32 mixed guided requests of benchmarks/serving.py at once for each replica
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.serving import bodies  # noqa: E402

#: The parts of a server by words in the commands of their processes.
PARTS = {
    "guided.cli serve": "model",
    "plan_job.py": "model",
    "ServeReplica:default:Replica": "model",
    "ServeReplica:default:Ingress": "ingress",
    "ProxyActor": "proxy",
    "haproxy": "proxy",
}
FREE = {"temperature": 0, "landing": False, "logit_bias": {"2": -100}}


class Started:
    """A server and its processes."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process = process
        self.address = address

    def ask(self, body: dict[str, Any]) -> int:
        """Return the number of tokens of the answer."""
        with urlopen(Request(f"{self.address}/v1/chat/completions", json.dumps(body).encode()), timeout=600) as answer:
            if body.get("stream"):
                return sum(line.startswith(b'data: {"id"') for line in answer)
            return int(json.load(answer)["usage"]["completion_tokens"])

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        top = psutil.Process(self.process.pid)
        for process in (top, *top.children(recursive=True)):
            name = " ".join(process.cmdline())
            yield next((part for words, part in PARTS.items() if words in name), "rest"), process

    def times(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for part, process in self._processes():
            found[part] += process.cpu_times().user + process.cpu_times().system  # type: ignore[assignment]
        return found

    def memory(self) -> Counter[str]:
        """Megabytes of each part; a page that processes share is counted once."""
        found: Counter[str] = Counter()
        for part, process in self._processes():
            found[part] += process.memory_full_info().pss >> 20
        return found


@contextmanager
def started(replicas: int) -> Iterator[Started]:
    """Start `guided serve`, or this many replicas, and end them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    args = {"replicas": replicas, "settings": {"max_wait_s": 600.0}}
    application = {"name": "default", "import_path": "guided.ray.app:app", "args": args}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        json.dump({"http_options": {"port": port}, "applications": [application]}, config)
        config.flush()
        serve = [sys.executable, "-m", "guided.cli", "serve", "--port", str(port)]
        command = [str(Path(sys.executable).with_name("serve")), "run", config.name] if replicas else serve
        variables = {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        began = time.monotonic()
        try:
            server = Started(process, f"http://127.0.0.1:{port}")
            while True:
                try:
                    urlopen(f"{server.address}/ready", timeout=600).close()
                    break
                except OSError:
                    time.sleep(0.2)
            print(f"ready after {time.monotonic() - began:.0f} s")
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def measured(server: Started, number: int, run: Callable[[], Any]) -> tuple[Any, float, dict[str, float]]:
    """Return what ``run`` returns, its seconds, and the milliseconds of processor time of each part by ``number``."""
    before, began = server.times(), time.perf_counter()
    result = run()
    seconds, after = time.perf_counter() - began, server.times()
    return result, seconds, {part: 1000 * (after[part] - before[part]) / number for part in PARTS.values()}


def row(server: Started, threads: ThreadPoolExecutor, replicas: int) -> str:
    def user(text: str) -> dict[str, Any]:
        return FREE | {"messages": [{"role": "user", "content": text}]}

    def in_turn() -> list[float]:
        one = user("Is the sky blue?") | {"max_tokens": 1}
        return [measured(server, 1, lambda: server.ask(one))[1] for _ in range(40)]

    def all_at_once(asked: list[dict[str, Any]]) -> int:
        return sum(threads.map(server.ask, asked))

    def shown(times: dict[str, float]) -> str:
        return " / ".join(f"{time:.2f}" for part, time in times.items() if time or part == "model")

    all_at_once(bodies(16, "warm"))  # plans and shapes of forwards are new
    in_turn()
    waits, _, request = measured(server, 40, in_turn)
    streams = [user(f"({i}) Tell a story.") | {"max_tokens": 60, "stream": True} for i in range(8)]
    chunks, _, stream = measured(server, 480, lambda: all_at_once(streams))
    assert chunks >= 480, chunks
    tokens, seconds, mixed = measured(server, 1, lambda: all_at_once(bodies(32 * max(1, replicas), "mixed")))
    memory = server.memory()
    return (
        f"{1000 * statistics.median(waits):.0f} ms | {shown(request)} | {shown(stream)} | {tokens / seconds:.1f} | "
        f"{1000 * tokens / mixed['model']:.1f} | {memory.pop('model')} + {memory.total()} MB |"
    )


def main() -> None:
    rows = ["| | one token, p50 | a request | a streamed token | mixed, tokens/s | tokens/s of a core | memory |"]
    rows.append("|---|---|---|---|---|---|---|")
    for replicas in map(int, sys.argv[1:] or "012"):
        with started(replicas) as server, ThreadPoolExecutor(64) as threads:
            name = f"replicas: {replicas}" if replicas else "`guided serve`"
            rows.append(f"| {name} | {row(server, threads, replicas)}")
            print(rows[-1], flush=True)
    print("\nProcessor times in ms: model / ingress / proxy.\n", *rows, sep="\n")


if __name__ == "__main__":
    main()
