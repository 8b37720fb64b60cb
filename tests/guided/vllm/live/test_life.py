"""Clients that leave, rows whose masks raise, and the end of a server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.cases import wait_until
from tests.guided.vllm.live.conftest import MODEL, LiveVllm, served

LONG = {
    "messages": [{"role": "user", "content": "Count without end."}],
    "temperature": 1.0,
    "structured_outputs": {"regex": "([0-9]{3} ){300}"},
}
_LONG_TOKENS = 600  # it has more
#: The token limits of requests whose masks raise, and what they raise: see `broken/sitecustomize.py`.
BROKEN = {77: "ZeroDivisionError", 78: "MemoryError"}


@pytest.fixture(scope="module")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveVllm]:
    """A server in whose engine the masks of some requests raise; it puts temporary files where its log is."""
    broken, folder = str(Path(__file__).with_name("broken")), tmp_path_factory.mktemp("broken")
    with served(folder, PYTHONPATH=broken, TMPDIR=str(folder)) as live:
        yield live


def leave(live: LiveVllm, *, stream: bool) -> None:
    """Send a long request and go away while its row is written, streamed after the first line."""
    line = HTTPConnection(live.address.removeprefix("http://"), timeout=120)
    body = json.dumps({"model": MODEL, **LONG, "stream": stream})
    line.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    if stream:
        assert line.getresponse().readline()
    wait_until(lambda: live.metric("vllm:num_requests_running") >= 1, 120)
    line.close()


@pytest.mark.parametrize("limit", BROKEN)
def test_masks_that_raise_end_their_row_alone(breaking: LiveVllm, limit: int) -> None:
    user = [{"role": "user", "content": "Write digits."}]
    asked = {"messages": user, "temperature": 0, "structured_outputs": {"regex": "[0-9]{8}"}}
    with ThreadPoolExecutor(6) as threads:
        bad = [threads.submit(breaking.post, {**asked, "max_tokens": limit, "stream": i == 0}) for i in range(2)]
        good = [threads.submit(breaking.post, asked) for _ in range(4)]
    streamed, whole = (one.result() for one in bad)
    assert whole.status_code == 500, whole.text
    assert BROKEN[limit] in whole.json()["error"]["message"]
    assert streamed.status_code == 200
    assert '"error"' in streamed.text
    assert BROKEN[limit] in streamed.text
    answers = [*(one.result() for one in good), breaking.post(asked)]  # the engine lives
    contents = {answer.json()["choices"][0]["message"]["content"] for answer in answers}
    assert len(contents) == 1
    (content,) = contents
    assert len(content) == 8
    assert content.isdecimal()


@pytest.mark.parametrize("stream", [True, False])
def test_the_row_of_a_client_that_leaves_is_freed(breaking: LiveVllm, stream: bool) -> None:
    before = breaking.metric("vllm:generation_tokens_total")
    leave(breaking, stream=stream)
    wait_until(lambda: breaking.metric("vllm:num_requests_running") == 0, 120)
    assert breaking.metric("vllm:kv_cache_usage_perc") == 0
    assert breaking.metric("vllm:generation_tokens_total") - before < _LONG_TOKENS  # it was not written to its end


def test_a_server_that_clients_left_ends(breaking: LiveVllm) -> None:
    assert list(breaking.log.parent.glob("guided-*"))
    for stream in (True, False):
        leave(breaking, stream=stream)
    breaking.process.send_signal(signal.SIGTERM)
    breaking.process.wait(120)  # raises where it does not end
    assert not list(breaking.log.parent.glob("guided-*"))
