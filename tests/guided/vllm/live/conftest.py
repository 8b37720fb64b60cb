"""vLLM servers with guided installed, as users start them; `make test-vllm` makes the environment."""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from guided.embedded import model_folder
from guided.vllm.sealed import KEY

MODEL = "tiny"  # the name that the tests of `guided serve` use
_START_S = 300.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    absent = importlib.util.find_spec("vllm") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if absent:
                item.add_marker(pytest.mark.skip(reason="needs vllm in an environment of its own (`make test-vllm`)"))


@dataclass
class LiveVllm:
    """A running server; ``flags`` are those it was started with."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def client(self, **headers: str) -> httpx2.Client:
        return httpx2.Client(base_url=self.address, headers=headers, timeout=300)

    def post(self, body: Any, path: str = "/v1/chat/completions") -> httpx2.Response:
        with self.client() as client:
            return client.post(path, json={"model": MODEL, **body})

    def metric(self, name: str) -> float:
        """The sum of a counter or gauge of vLLM's over all labels."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


@contextmanager
def served(folder: Path, *flags: str, **environment: str) -> Iterator[LiveVllm]:
    """Serve the embedded model with vLLM on a free port while the block runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"vllm-{port}.log"
    variables = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        KEY: os.environ[KEY],
        **environment,
    }
    variables.pop("VLLM_PLUGINS", None)
    # `vllm serve`, as a module: the command of the package vllm-cpu looks for a package named vllm.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_folder()), "--port",
               str(port), "--served-model-name", MODEL, "--dtype", "float32", "--enforce-eager", "--max-model-len",
               "2048", "--max-num-seqs", "16", *flags]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=variables)
    live = LiveVllm(f"http://127.0.0.1:{port}", process, log, flags, environment)
    try:
        _wait(live)
        yield live
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait(live: LiveVllm) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and live.process.poll() is None:
        try:
            if httpx2.get(f"{live.address}/health").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.5)
    pytest.fail("the server did not start:\n" + live.log.read_text()[-4000:])


@pytest.fixture(scope="session", autouse=True)
def _key() -> None:
    os.environ.setdefault(KEY, secrets.token_hex())  # the tests sign plans as the server does


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LiveVllm]]:
    """Start a server with these flags; one that runs is kept until the next is started."""
    running: dict[tuple[str, ...], LiveVllm] = {}
    with ExitStack() as stack:

        def start(*flags: str) -> LiveVllm:
            if flags not in running:
                stack.pop_all().close()
                running.clear()
                running[flags] = stack.enter_context(served(tmp_path_factory.mktemp("vllm"), *flags))
            return running[flags]

        yield start


@pytest.fixture(scope="module")
def live(serve: Callable[..., LiveVllm]) -> LiveVllm:
    """A server without flags of ours."""
    return serve()
