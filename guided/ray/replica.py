"""One replica: a model with its engine, and the application of ``guided serve``, which it is asked through a handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from ray import serve
from starlette.types import Message, Scope

from guided.serve.app import create_app
from guided.serve.server import load_guide
from guided.serve.service import Service
from guided.serve.settings import Settings, read_keys

__all__ = ["Replica", "ReplicaArgs"]


class ReplicaArgs(BaseModel, extra="forbid"):
    """The model, how many replicas, their processors, and `guided.serve.settings.Settings`.

    With ``max_replicas`` there are as many as the queue needs, from ``replicas`` on; ``cpus`` and ``gpus`` are those of
    one, and ``ingresses`` share requests out.  ``api_key_file`` is on the machine of each replica.
    """

    model: str | None = None
    replicas: int = 1
    max_replicas: int | None = None
    cpus: float = 1
    gpus: float = 0
    ingresses: int = 1
    device: str | None = None
    dtype: str = "auto"
    attn_implementation: str | None = None
    cache_bytes: int | None = None
    api_key_file: Path | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    def to_settings(self) -> Settings:
        """Return the settings of a replica, whose page would show one replica alone."""
        keys = {} if self.api_key_file is None else {"keys": read_keys(self.api_key_file)}
        return Settings(**{"page": False} | keys | self.settings)


class Replica:
    """The model of ``args``, loaded, and the application over it."""

    def __init__(self, args: ReplicaArgs) -> None:
        self._service = Service(args.to_settings())
        self._app = create_app(self._service)
        self._header = (b"x-replica", serve.get_replica_context().replica_id.unique_id.encode())
        given = (args.model, args.device, args.dtype, args.attn_implementation, args.cache_bytes)
        self._service.load(lambda: load_guide(*given, progress=print))

    async def answer(self, scope: Scope, body: bytes) -> AsyncIterator[Message]:
        """Yield the ASGI messages of the answer; the request ends with whoever reads them."""
        messages: asyncio.Queue[Message | None] = asyncio.Queue()
        received = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            return received.pop() if received else await asyncio.Future()

        task = asyncio.ensure_future(self._app(scope, receive, messages.put))
        task.add_done_callback(lambda _: messages.put_nowait(None))
        try:
            while (message := await messages.get()) is not None:
                if message["type"] == "http.response.start":
                    message["headers"].append(self._header)
                yield message
            await task
        finally:
            task.cancel()

    def metrics(self) -> tuple[str, str]:
        """Return the name of this replica and its metrics."""
        return self._header[1].decode(), self._service.metrics.text().decode()

    def check_health(self) -> None:
        """Raise when the engine has ended for good: Ray starts another replica."""
        if self._service.state == "dead":
            raise RuntimeError("the engine has ended")

    def __del__(self) -> None:
        self._service.close()
