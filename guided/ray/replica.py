"""One replica: a model with its engine, and the application of ``guided serve``, which it is asked through a handle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from ray import serve
from starlette.types import Message, Scope

from guided.ray.args import ReplicaArgs
from guided.serve.app import create_app
from guided.serve.server import load_guide
from guided.serve.service import Service
from guided.serve.settings import write_logs

__all__ = ["Replica"]


class Replica:
    """The model of ``args``, loaded, and the application over it."""

    def __init__(self, args: ReplicaArgs) -> None:
        write_logs(args.log_level, sys.__stderr__)  # in its optimised mode Ray replaces the other one
        settings = args.to_settings()
        if settings.otel:
            from guided.serve.observing.spans import export_spans  # needs a package that others need not have

            export_spans()
        self._service = Service(settings)
        self._app = create_app(self._service)
        self._header = (b"x-replica", serve.get_replica_context().replica_id.unique_id.encode())
        given = (args.model, args.device, args.dtype, args.attn_implementation, args.cache_bytes)
        self._service.load(lambda: load_guide(*given, progress=print))

    async def answer(self, scope: Scope, body: bytes) -> AsyncIterator[Message]:
        """Yield ``taken`` at once, then the ASGI messages of the answer; the request ends with whoever reads them."""
        yield {"type": "taken"}
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
        if hasattr(self, "_service"):
            self._service.close()
