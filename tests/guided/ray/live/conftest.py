"""Two replicas of the embedded model on a local Ray; `make test-ray` makes the environment."""

from __future__ import annotations

import importlib.util
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cases import wait_until

ROOT = Path(__file__).resolve().parents[4]
CHAT = "/v1/chat/completions"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    absent = importlib.util.find_spec("ray") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if absent:
                item.add_marker(pytest.mark.skip(reason="needs ray in an environment of its own (`make test-ray`)"))


@dataclass
class LiveReplicas:
    """A running application of two replicas, the folder of `mortal.py`, and that of Ray's logs."""

    address: str
    deaths: Path
    logs: Path

    def kill(self, point: str, **more: Any) -> httpx2.Response:
        """The answer to a request whose replica, or its engine, dies at this point."""
        (self.deaths / point).touch()
        answer = self.post({"messages": [{"role": "user", "content": f"Die. {time.time()}"}], "max_tokens": 8, **more})
        assert not (self.deaths / point).exists()
        return answer

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.address, timeout=600)

    def post(self, body: Any, path: str = CHAT, **headers: str) -> httpx2.Response:
        with self.client() as client:
            return client.post(path, json=body, headers=headers)

    def lines(self, body: Any, path: str = CHAT) -> list[str]:
        """The lines of a streamed answer."""
        with self.client() as client, client.stream("POST", path, json={**body, "stream": True}) as answer:
            assert answer.status_code == 200, answer.read()
            return [line for line in answer.iter_lines() if line]

    def metric(self, name: str) -> Counter[str]:
        """A gauge or counter without labels of its own, by replica."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        found = [line.split('{replica="', 1)[1].split('"} ') for line in lines if line.startswith(f'{name}{{replica="')]
        return Counter({replica: float(value) for replica, value in found})  # type: ignore[dict-item]

    def wait_for(self, number: int, seconds: float = 300.0, deployment: str = "MortalReplica") -> None:
        """Wait until this number of replicas run, and no other one."""
        from ray import serve

        until = time.monotonic() + seconds
        states: dict[Any, int] = {}
        while states != {"RUNNING": number}:
            assert time.monotonic() < until, states
            time.sleep(0.3)
            states = dict(serve.status().applications["default"].deployments[deployment].replica_states)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReplicas]:
    """Serve on a Ray of these tests, without an application."""
    import ray
    from ray import serve

    from tests.guided.ray.live.mortal import DEATHS

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    deaths = tmp_path_factory.mktemp("deaths")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(DEATHS, str(deaths))
        session = ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False).address_info["session_dir"]
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        yield LiveReplicas(f"http://127.0.0.1:{port}", deaths, Path(session, "logs"))
        serve.shutdown()
        ray.shutdown()


def deploy(max_wait_s: float = 600.0, **args: Any) -> None:
    """Start the application, or change its number of replicas."""
    from ray import serve

    from guided.ray.app import app
    from guided.ray.args import ReplicaArgs
    from tests.guided.ray.live.mortal import MortalReplica

    settings = {"max_rows": 4, "max_waiting": 8, "drain_s": 300.0, "max_wait_s": max_wait_s, "otel": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("guided.ray.app.Replica", MortalReplica)
        serve.run(app(ReplicaArgs(settings=settings, **args)))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def two(started: LiveReplicas) -> LiveReplicas:
    deploy(replicas=2)
    return started


@pytest.fixture
def replicas(two: LiveReplicas) -> LiveReplicas:
    """Both replicas, alive, with nothing to do."""
    two.wait_for(2)
    wait_until(lambda: not two.metric("guided_num_rows_running").total(), 120)
    return two
