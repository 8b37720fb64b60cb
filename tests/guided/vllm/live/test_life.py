"""Clients that leave, rows whose masks raise, and the end of a server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.guided.vllm.live.conftest import MODEL, LiveVllm, served

LONG = {
    "messages": [{"role": "user", "content": "Count without end."}],
    "temperature": 1.0,
    "structured_outputs": {"regex": "([0-9]{3} ){300}"},
}
#: The token limit of requests whose masks raise, see `broken/sitecustomize.py`.
BROKEN = 77


@pytest.fixture(scope="module")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveVllm]:
    """A server in whose engine the masks of some requests raise."""
    broken = str(Path(__file__).with_name("broken"))
    with served(tmp_path_factory.mktemp("broken"), PYTHONPATH=broken) as live:
        yield live


def leave(live: LiveVllm, *, stream: bool) -> None:
    """Send a long request and go away, streamed after the first line."""
    body: dict[str, Any] = {"model": MODEL, **LONG, "stream": stream}
    try:
        with (
            httpx2.Client(base_url=live.address, timeout=3) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as lines,
        ):
            next(lines.iter_lines())
    except httpx2.TimeoutException:
        assert not stream


def wait_for_rest(live: LiveVllm, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while live.metric("vllm:num_requests_running") or live.metric("vllm:num_requests_waiting"):
        assert time.monotonic() < until, "a row is left"
        time.sleep(0.5)


def test_masks_that_raise_end_their_row_alone(breaking: LiveVllm) -> None:
    user = [{"role": "user", "content": "Write digits."}]
    asked = {"messages": user, "temperature": 0, "structured_outputs": {"regex": "[0-9]{8}"}}
    with ThreadPoolExecutor(6) as threads:
        bad = [threads.submit(breaking.post, {**asked, "max_tokens": BROKEN, "stream": i == 0}) for i in range(2)]
        good = [threads.submit(breaking.post, asked) for _ in range(4)]
    streamed, whole = (one.result() for one in bad)
    assert whole.status_code == 500, whole.text
    assert "ZeroDivisionError" in whole.json()["error"]["message"]
    assert streamed.status_code == 200
    assert '"error"' in streamed.text
    assert "ZeroDivisionError" in streamed.text
    contents = {one.result().json()["choices"][0]["message"]["content"] for one in good}
    assert len(contents) == 1
    (content,) = contents
    assert len(content) == 8
    assert content.isdecimal()


@pytest.mark.parametrize("stream", [True, False])
def test_the_row_of_a_client_that_leaves_is_freed(breaking: LiveVllm, stream: bool) -> None:
    leave(breaking, stream=stream)
    wait_for_rest(breaking)


def test_a_server_that_clients_left_ends(breaking: LiveVllm) -> None:
    for stream in (True, False):
        leave(breaking, stream=stream)
    breaking.process.send_signal(signal.SIGTERM)
    breaking.process.wait(120)  # raises where it does not end
