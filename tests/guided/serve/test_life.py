"""A server under load, and at its end: rows are freed, waiting is bounded, a dead engine tells, a signal drains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from guided.serve.app import create_app
from guided.serve.engine import MOST_RESTARTS, EngineThread, Waiting
from guided.serve.loops import make_loop
from guided.serve.planning import Composers
from guided.serve.server import run_server
from guided.serve.service import Service, _wait_for_loop
from guided.serve.settings import Settings
from guided.state.state import GuidanceState
from special_tokens.errors import RequestError
from tests.cases import wait_until
from tests.guided.serve.conftest import Live, serving

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "Say it."}]
LONG = {
    "messages": USER,
    "max_tokens": 1_500,
    "landing": False,
    "logit_bias": {},
    "temperature": 0,
    "ignore_eos": False,
}


def request_of(body: Any) -> bytes:
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(data), data)


def connected(live: Live, body: Any) -> socket.socket:
    host, port = live.address.removeprefix("http://").split(":")
    raw = socket.create_connection((host, int(port)), timeout=30)
    raw.sendall(request_of(body))
    return raw


def received(raw: socket.socket, end: bytes) -> bytes:
    """Return what comes up to ``end`` and what came with it."""
    text = b""
    while end not in text:
        part = raw.recv(10_000)
        assert part, text
        text += part
    return text


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_rows(live: Live, stream: bool) -> None:
    raw = connected(live, {**LONG, "stream": stream})
    wait_until(lambda: live.service.engine.num_rows == 1)
    if stream:
        assert raw.recv(100)
    raw.close()
    began = time.monotonic()
    live.wait_for_rest()
    assert time.monotonic() - began < 10


def test_a_client_that_goes_away_before_its_turn_waits_no_more(tiny_guide: Any) -> None:
    with serving(tiny_guide, max_rows=1) as live:
        first = connected(live, LONG)
        wait_until(lambda: live.service.engine.num_rows == 1)
        second = connected(live, LONG)
        wait_until(lambda: live.service.engine.num_waiting == 1)
        second.close()
        wait_until(lambda: live.service.engine.num_waiting == 0)
        assert live.service.engine.num_rows == 1
        first.close()
        live.wait_for_rest()


def test_waiting_is_bounded(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tiny_guide, max_rows=1, max_waiting=1, max_wait_s=1.0) as live:
        wait_until(lambda: live.service.engine.loop is not None)  # its thread makes it
        loop: Any = live.service.engine.loop
        step = loop.step
        monkeypatch.setattr(loop, "step", lambda: time.sleep(0.02) or step())  # 30 s for the first request
        first = connected(live, LONG)
        wait_until(lambda: live.service.engine.num_rows == 1)
        second = connected(live, {**LONG, "stream": True})
        wait_until(lambda: live.service.num_waiting == 1)
        refused = live.post(CHAT, {"messages": USER, "max_tokens": 2})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["type"] == "rate_limit_error"
        late = second.recv(4_000)  # before the first byte of its stream
        assert late.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 5" in late.lower()
        first.close()
        live.wait_for_rest()


def test_a_dead_engine_fails_its_requests_at_once_and_is_made_anew(tiny_guide: Any, monkeypatch: Any) -> None:
    with serving(tiny_guide) as live:
        engine = live.service.engine
        for number in range(MOST_RESTARTS + 1):
            whole, streamed = connected(live, LONG), connected(live, {**LONG, "stream": True})
            wait_until(lambda: engine.num_rows == 2)
            text = received(streamed, b"data: ")  # before that it would be a 503 as well
            loop = engine.loop
            monkeypatch.setattr(loop, "step", lambda: 1 / 0)
            assert whole.recv(4_000).startswith(b"HTTP/1.1 503")
            text += received(streamed, b"[DONE]")
            events = [line for line in text.decode().split("\n") if line.startswith("data: ")]
            assert json.loads(events[-2].removeprefix("data: "))["error"]["type"] == "server_error"
            wait_until(lambda old=loop: engine.error is not None or engine.loop not in (None, old))
            is_alive = number < MOST_RESTARTS
            health = live.client().get("/health")
            assert (health.status_code, health.json()["status"]) == ((200, "ok") if is_alive else (503, "dead"))
            answer = live.post(CHAT, {"messages": USER, "max_tokens": 2})
            assert answer.status_code == (200 if is_alive else 503)
        assert answer.headers["retry-after"] == "5"
        assert live.client().get("/ready").status_code == 503
        assert "guided_engine_restarts_total 3.0" in live.client().get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_a_row_that_fails_fails_alone(live: Live, monkeypatch: Any, stream: bool) -> None:
    """One choice of three is broken while it is written; the others are answered."""
    mask, seen = GuidanceState.token_mask, []  # type: ignore[var-annotated]

    def broken(self: GuidanceState) -> Any:
        if not any(self is one for one in seen):
            seen.append(self)
        if self is seen[min(1, len(seen) - 1)] and len(seen) > 1 and len(self.tokens) == 3:
            raise ZeroDivisionError
        return mask(self)

    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    body = {
        "messages": USER,
        "n": 3,
        "seed": 1,
        "max_tokens": 8,
        "landing": False,
        "structured_outputs": {"regex": "[a-z ]{20,30}"},
    }
    if not stream:
        choices = live.post(CHAT, body).json()["choices"]
    else:
        lines = [
            line for line in live.post(CHAT, {**body, "stream": True}).text.split("\n") if line.startswith("data: {")
        ]
        parts = [choice for line in lines for choice in json.loads(line[6:])["choices"]]
        choices = [part for part in parts if part["finish_reason"]]
    assert [choice["finish_reason"] for choice in sorted(choices, key=lambda one: one["index"])] == [
        "length",
        "error",
        "length",
    ]
    assert "ZeroDivisionError" in choices[1]["error"]["message"]
    whole = live.post(CHAT, {**body, "n": 1})
    assert whole.status_code == 200


def test_while_the_model_loads_it_has_no_name() -> None:
    """A client that waits for a list of models would take an empty one for ready."""
    app = create_app(Service(Settings(names=("tiny",)), processes=0))

    async def asked(path: str) -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
            return await client.get(path)

    for path in ("/v1/models", "/v1/models/tiny"):
        answer = asyncio.run(asked(path))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert asyncio.run(asked("/health")).json() == {"status": "loading"}


def test_a_server_is_ready_when_its_loop_is_made(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop first measures what a forward of the model costs: for seconds, which the first request waited."""

    def slow(*given: Any) -> Any:
        time.sleep(0.5)
        return make_loop(*given)

    monkeypatch.setattr("guided.serve.service.make_loop", slow)
    service = Service(Settings(), processes=1)
    try:
        service.load(lambda: tiny_guide)
        assert service.engine.loop is not None
    finally:
        service.close()


def test_draining_refuses_and_finishes(tiny_guide: Any) -> None:
    with serving(tiny_guide) as live:
        streamed = connected(live, {**LONG, "max_tokens": 200, "stream": True})
        wait_until(lambda: live.service.engine.num_rows == 1)
        with live.client() as client:
            client.get("/health")  # its connection stays
            live.service.drain()
            refused = client.post(CHAT, json={"messages": USER, "max_tokens": 2})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert client.get("/ready").status_code == 503
        text = b""
        while part := streamed.recv(100_000):
            text += part
        assert b"data: [DONE]" in text
        assert b'"error"' not in text


def test_clients_take_turns() -> None:
    now = [0.0]
    waiting: Waiting[str] = Waiting(lambda: now[0])
    for client, job in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")):
        waiting.add(client, job)
        now[0] += 1
    assert waiting.next(lambda job: job != "a1") is None  # no other overtakes it
    assert [waiting.next(lambda _: True) for _ in range(3)] == ["a1", "b1", "c1"]
    assert waiting.remove("a3")
    assert not waiting.remove("a3")
    assert (len(waiting), waiting.expired(5)) == (1, [])
    now[0] = 20
    assert (waiting.expired(5), waiting.next(lambda _: True), len(waiting)) == (["a2"], None, 0)


def test_metrics_and_logs_hold_no_prompt(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="guided")
    secret = [{"role": "user", "content": "SECRET words"}]
    live.post(CHAT, {"messages": secret, "max_tokens": 3})
    live.post(CHAT, {"messages": secret, "max_tokens": 3, "regex": "("})
    text = live.client().get("/metrics").text
    for name in (
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds", "num_rows_running",
        "prompt_tokens_cached_total", "forwards_saved_total", "plan_time_seconds", "failures_total", "requests_total",
    ):  # fmt: skip
        assert f"# HELP guided_{name}" in text
    assert 'guided_failures_total{kind="GrammarError"}' in text
    assert "SECRET" not in text + caplog.text
    record = next(record for record in caplog.records if record.getMessage() == "request")
    assert {"request_id", "route", "status", "seconds"} <= set(record.fields)


def test_a_port_that_is_taken_is_an_error_of_the_request() -> None:
    """Left to uvicorn it is exit code 3, with which the command line says that an answer was cut."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RequestError, match=f"--port: cannot listen on port {port} of 127.0.0.1"):
            run_server(threading.Event().wait, Settings(), host="127.0.0.1", port=port, on_ready=print)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "guided.cli", "serve", "--port", str(port)]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stderr=file)
    live = Live(None, f"http://localhost:{port}")  # type: ignore[arg-type]
    try:
        with live.client() as client:

            def state(path: str) -> str:
                time.sleep(0.2)
                try:
                    return str(client.get(path).json()["status"])
                except Exception:
                    return ""

            wait_until(lambda: state("/health") in ("loading", "ok"), 120)
            wait_until(lambda: state("/ready") == "ok", 120)
            answer: list[Any] = []
            body = {"messages": USER, "max_tokens": 80, "landing": False, "logit_bias": {"2": -100}}  # its end
            asking = threading.Thread(target=lambda: answer.append(live.post(CHAT, body)))
            asking.start()
            wait_until(lambda: "guided_num_rows_running 1.0" in client.get("/metrics").text, 120)
            process.send_signal(signal.SIGTERM)
            asking.join()
            assert answer[0].status_code == 200
        assert process.wait(60) == 0
    finally:
        process.kill()
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Loading the embedded model ..."
    assert any(json.loads(line).get("route") == CHAT for line in lines if line.startswith("{"))


def test_a_killed_server_leaves_no_file_of_its_vocabulary() -> None:
    killed = """
import os, signal
from guided.serve.planning import Composers
composers = Composers(1, 2)
composers.warm()
print(composers._file, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).resolve().parents[3]
    server = subprocess.run([sys.executable, "-c", killed], cwd=root, capture_output=True, text=True, timeout=120)
    assert server.returncode == -signal.SIGKILL, server.stderr
    file = Path(server.stdout.strip())
    assert file.suffix == ".vocabulary"
    wait_until(lambda: not file.exists())


@pytest.mark.parametrize(("failures", "is_ready"), [(1, True), (MOST_RESTARTS + 1, False)])
def test_a_loop_that_fails_at_first_is_waited_for(failures: int, is_ready: bool) -> None:
    errors = [RuntimeError(f"no memory, {i}") for i in range(failures)]
    ended = threading.Event()

    def make_loop() -> Any:
        if errors:
            raise errors.pop()
        return SimpleNamespace(step=lambda: (), fits=lambda _: True, num_rows=0, close=lambda: None)

    engine = EngineThread(make_loop, on_fault=lambda _, goes_on: None if goes_on else ended.set())
    try:
        if is_ready:
            _wait_for_loop(engine)
            assert engine.loop is not None
        else:
            with pytest.raises(RuntimeError, match="no memory, 0"):
                _wait_for_loop(engine)
            assert ended.wait(10.0)
    finally:
        engine.close()


def test_a_server_that_ends_leaves_no_process_and_no_file(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Composers] = []
    monkeypatch.setattr(
        "guided.serve.service.Composers", lambda *args, **options: made.append(Composers(*args, **options)) or made[0]
    )
    with serving(tiny_guide) as live:
        assert live.post(CHAT, {"messages": USER, "max_tokens": 1, "regex": "[a-f]"}).status_code == 200
        (process,) = (worker._process for worker in made[0]._workers)
        assert process is not None
        assert process.poll() is None
    assert process.wait(10) is not None
    assert not made[0]._file.exists()
