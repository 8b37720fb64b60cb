"""The ingress over replicas that are not there: what Ray raises becomes our errors, and is asked again or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

BEGINNING: list[Any] = [
    {"type": "taken"},
    {"type": "http.response.start", "status": 200, "headers": []},
    {"type": "http.response.body", "body": b"whole"},
]


class Replicas:
    """The handle; a list for each time that it is asked, of what is answered and raised.  After them it is silent."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = [*answers]
        self.num_cancelled = 0
        self.answer = self

    def options(self, **_: Any) -> Replicas:
        return self

    def remote(self, scope: Any, body: bytes) -> Messages:
        return Messages(self, self.answers.pop(0))


class Messages:
    def __init__(self, replicas: Replicas, answers: list[Any]) -> None:
        self._replicas = replicas
        self._answers = answers

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if not self._answers:
            await asyncio.Event().wait()
        message = self._answers.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def cancel(self) -> None:
        self._replicas.num_cancelled += 1


def answered(replicas: Replicas, body: bytes = b"{}", key: str = "", **settings: Any) -> tuple[int, Any, Any]:
    """The status, the headers and the error of the answer; the last one is None without one."""
    from starlette.requests import Request

    from guided.ray.args import ReplicaArgs
    from guided.ray.ingress import Ingress

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    path = "/v1/chat/completions"
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "root_path": ""}
    scope |= {"raw_path": path.encode(), "query_string": b"", "headers": [(b"authorization", key.encode())]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("guided.ray.ingress.write_logs", lambda *_: None)
        ingress = Ingress(replicas, ReplicaArgs(settings=settings))  # type: ignore[arg-type]
    answer = asyncio.run(ingress(Request(scope, receive)))
    return answer.status_code, answer.headers, json.loads(answer.body)["error"] if hasattr(answer, "body") else None


def errors() -> dict[str, Exception]:
    from ray.exceptions import ActorDiedError, ActorUnavailableError
    from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError

    return {
        "died": ActorDiedError(),
        "unavailable": ActorUnavailableError("gone", None),
        "no replica": ReplicaUnavailableError("one"),
        "not deployed": DeploymentUnavailableError("all"),
    }


@pytest.mark.parametrize("kind", ["died", "unavailable", "no replica", "not deployed"])
@pytest.mark.parametrize("num_messages", [0, 1, 2])
def test_what_has_not_begun_is_asked_again_once(kind: str, num_messages: int) -> None:
    lost = [*BEGINNING[:num_messages], errors()[kind]]
    assert answered(Replicas(lost[:], BEGINNING[:]))[0] == 200
    status, headers, error = answered(Replicas(lost[:], lost[:]))
    assert (status, headers["retry-after"], error["code"]) == (503, "5", "unavailable")
    assert error["type"] == "server_error"


def test_a_full_queue_is_said_so() -> None:
    from ray.serve.exceptions import BackPressureError

    status, headers, error = answered(Replicas([BackPressureError(9, 9)]))
    assert (status, headers["retry-after"], error["code"]) == (429, "1", "rate_limit_exceeded")


def test_for_a_client_that_has_gone_no_other_replica_is_asked() -> None:
    from ray.serve.exceptions import RequestCancelledError

    replicas = Replicas([*BEGINNING[:1], RequestCancelledError("one")], BEGINNING[:])
    assert answered(replicas)[0] == 500, "which no one reads"
    assert len(replicas.answers) == 1


def test_an_error_of_ours_in_a_replica_is_not_asked_again() -> None:
    from ray.exceptions import RayTaskError

    raised = RayTaskError("answer", "the traceback", ValueError("of ours")).as_instanceof_cause()
    status, _, error = answered(Replicas([*BEGINNING[:1], raised]))
    assert (status, error["type"]) == (500, "server_error")


def test_waiting_for_a_replica_is_bounded() -> None:
    replicas = Replicas([])
    status, headers, error = answered(replicas, max_wait_s=0.05)
    assert (status, headers["retry-after"], error["code"]) == (503, "5", "unavailable")
    assert "no replica runs or has room: waited 0.05 s" in error["message"]
    assert replicas.num_cancelled == 1


def test_a_request_without_a_key_is_not_read() -> None:
    for body in (b"[" * 100, b" " * 1_000):
        status, headers, error = answered(Replicas(), body, "Bearer other", keys=["mine"], max_body=500)
        assert (status, error["code"], headers["www-authenticate"]) == (401, "invalid_api_key", "Bearer")
    assert answered(Replicas(BEGINNING[:]), key="Bearer mine", keys=["mine"])[0] == 200
