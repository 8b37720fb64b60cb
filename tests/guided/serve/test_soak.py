"""A server in the middle of all at once: hostile schemas, clients that leave or read slowly, faults, a dead engine.

`GUIDED_SOAK_S` seconds, 20 by default; memory is judged in runs of two minutes and more.
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from guided.state.state import GuidanceState
from tests.guided.serve.conftest import Live, serving
from tests.guided.serve.test_life import LONG, connected
from tests.guided.serve.test_same_answers import USER, ask, bodies, comparable

SECONDS = float(os.environ.get("GUIDED_SOAK_S", "20"))
CHAT = "/v1/chat/completions"


def deep(levels: int) -> Any:
    found: Any = {"type": "integer"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}, "required": ["a"]}
    return found


HOSTILE: list[Any] = [
    {"allOf": [{"pattern": f"^.*{c}.*$"} for c in "abcdefghijkl"], "type": "string"},
    {"anyOf": [deep(i) for i in range(40)]},
    {"type": "object", "properties": {f"k{i}": {"enum": list(range(i, i + 30))} for i in range(400)}},
    {"type": "string", "pattern": "^(a{1,1000}b{1,1000}){1,1000}$"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    {"type": "array", "items": deep(60), "minItems": 3000},
    {"not": {"not": {"not": {"type": "object", "required": [f"r{i}" for i in range(300)]}}}},
]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Traffic:
    """Threads that ask until they are to stop; ``seen`` counts what came back."""

    def __init__(self, live: Live, wanted: list[tuple[dict[str, Any], Any]]) -> None:
        self.live = live
        self.wanted = wanted
        self.is_over = threading.Event()
        self.dying = threading.Event()  # the engine is being killed: 503 is right as well
        self.seen: Counter[str] = Counter()
        self.wrong: list[Any] = []
        self._threads: list[threading.Thread] = []

    def go_on(self, work: Any, seed: int) -> None:
        def run() -> None:
            chance = random.Random(seed)
            while not self.is_over.is_set():
                try:
                    work(chance)
                except Exception as error:
                    self.wrong.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def stop(self) -> None:
        self.is_over.set()
        for thread in self._threads:
            thread.join()

    def good(self, chance: random.Random) -> None:
        body, answer = chance.choice(self.wanted)
        streamed = {"stream": True, "stream_options": {"include_usage": True}} if chance.random() < 0.4 else {}
        try:
            found = ask(self.live, {**body, **streamed})
        except (AssertionError, KeyError):  # a stream that broke off, or none
            found = {"error": None}
        if "error" in found and self.dying.is_set():
            self.seen["lost to the dead engine"] += 1
        elif comparable(found) == answer:
            self.seen["good"] += 1
        else:
            self.wrong.append((body, found))

    def hostile(self, chance: random.Random) -> None:
        format = {"type": "json_schema", "json_schema": {"name": "h", "schema": chance.choice(HOSTILE)}}
        answer = self.live.post(CHAT, {"messages": USER, "max_tokens": 8, "response_format": format})
        assert answer.status_code in (200, 400, 429, 503), answer.text
        self.seen[f"hostile {answer.status_code}"] += 1

    def dropped(self, chance: random.Random) -> None:
        raw = connected(self.live, {**LONG, "stream": chance.random() < 0.5})
        time.sleep(chance.random() * 0.1)
        raw.close()
        self.seen["dropped"] += 1

    def slow(self, chance: random.Random) -> None:
        raw = connected(self.live, {**LONG, "max_tokens": 60, "stream": True})
        while raw.recv(200):
            if self.is_over.wait(0.05) or chance.random() < 0.02:
                break
        raw.close()
        self.seen["slow"] += 1

    def faulty(self, chance: random.Random) -> None:
        body = {"messages": USER, "max_tokens": 20, "structured_outputs": {"regex": "[x-z ]{19}fault"}, "n": 2}
        answer = self.live.post(CHAT, {**body, "seed": chance.randrange(9)})
        assert answer.status_code in (500, 503, 429), answer.text
        self.seen["faulty"] += 1


@pytest.mark.slow
def test_soak(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = GuidanceState.token_mask

    def broken(self: GuidanceState) -> Any:
        if "fault" in self.plan.lark and len(self.tokens) > 3:
            raise ZeroDivisionError
        return mask(self)

    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    # pytest keeps what is logged, and with each exception the tensors of its frames.
    monkeypatch.setattr(logging.getLogger("guided.serve"), "propagate", False)
    wanted = [(body, comparable(tiny_guide.complete(body))) for body in bodies(36)]
    with serving(tiny_guide, names=("tiny",), max_rows=12, cache_tokens=900) as live:
        traffic, engine = Traffic(live, wanted), live.service.engine
        works = [traffic.good] * 5 + [traffic.hostile, traffic.dropped, traffic.slow, traffic.faulty]
        for seed, work in enumerate(works):
            traffic.go_on(work, seed)
        time.sleep(SECONDS / 2)
        before = resident_bytes()
        traffic.dying.set()
        loop = engine.loop
        monkeypatch.setattr(loop, "step", lambda: 1 / 0)
        time.sleep(3)
        traffic.dying.clear()
        assert engine.loop not in (None, loop)
        time.sleep(SECONDS / 2)
        traffic.stop()
        live.wait_for_rest()
        growth = resident_bytes() / before - 1
        print(json.dumps(dict(traffic.seen)), f"memory {growth:+.1%}")
        assert not traffic.wrong, traffic.wrong[:3]
        assert traffic.seen["good"] > SECONDS
        assert all(traffic.seen[kind] for kind in ("dropped", "slow", "faulty"))
        assert any(kind.startswith("hostile") for kind in traffic.seen)
        assert live.client().get("/health").json() == {"status": "ok"}
        assert growth < 0.05 or SECONDS < 120
