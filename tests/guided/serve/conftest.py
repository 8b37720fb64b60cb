"""A server on a free port over a tiny random model, as clients meet it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import uvicorn

from guided.serve.app import create_app
from guided.serve.planning import Composers
from guided.serve.server import Uvicorn
from guided.serve.service import Service
from guided.serve.settings import Settings
from tests.cases import wait_until
from tests.conftest import PATIENT
from tests.guided.hf.conftest import tiny_guide

__all__ = ["tiny_guide"]


class KeptComposers(Composers):
    """Outlive their server."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def _composers() -> Iterator[None]:
    """One process composes the plans of all servers of a vocabulary and format: it takes a second to start."""
    made: dict[Any, KeptComposers] = {}

    def composers(tokens: Any, format: Any, *, number: int) -> KeptComposers:
        key = (tokens.fingerprint, repr(format), number)
        if key not in made:
            made[key] = KeptComposers(tokens, format, number=number)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("guided.serve.service.Composers", composers)
        yield
    for one in made.values():
        Composers.close(one)


@dataclass
class Live:
    """A running server."""

    service: Service
    address: str

    def client(self, **headers: str) -> httpx2.Client:
        # without `verify=False` each one reads the certificates of all authorities
        return httpx2.Client(base_url=self.address, headers=headers, timeout=60, verify=False)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        with self.client(**headers) as client:
            return client.post(path, json=body)

    def wait_for_rest(self, seconds: float = 20.0) -> None:
        """Wait until no request lives and no row is in the engine."""
        service, engine = self.service, self.service.engine
        wait_until(lambda: not (service.num_live or engine.num_rows or engine.num_waiting), seconds)


@contextmanager
def serving(guide: Any, **settings: Any) -> Iterator[Live]:
    """Serve ``guide`` on a free port while the block runs."""
    service = Service(Settings(limits=PATIENT, **({"max_rows": 8, "max_wait_s": 60.0} | settings)), processes=1)
    server = Uvicorn(uvicorn.Config(create_app(service), port=0, log_config=None), service)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        service.load(lambda: guide)
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Live(service, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="session")
def live(tiny_guide: Any) -> Iterator[Live]:
    with serving(tiny_guide, names=("tiny",)) as found:
        yield found
