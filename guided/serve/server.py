"""The process: uvicorn around the application, a thread that loads the model, an end after the last answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType

import uvicorn

from guided.hf.guide import Guide
from guided.serve.app import create_app
from guided.serve.service import Service
from guided.serve.settings import Settings

__all__ = ["Uvicorn", "run_server"]

#: Seconds that connections get to close after the last answer.
_CLOSING_S = 5


class Uvicorn(uvicorn.Server):
    """Drains at the first signal; a second one ends it at once."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.draining or self._service.state != "ok":
            super().handle_exit(sig, frame)
        self._service.drain()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._service.failed is not None or self._service.is_drained()


def run_server(
    make: Callable[[], Guide], settings: Settings, *, host: str, port: int, on_ready: Callable[[Guide], None]
) -> None:
    """Serve the model of ``make`` until a signal ends the process; ``/health`` answers while it loads.

    Raises what ``make`` raised, and `SystemExit` where the port cannot be had.
    """
    service = Service(settings)

    def load() -> None:
        try:
            service.load(make)
        except BaseException:  # kept by the service, and raised below
            return
        on_ready(service.guide)

    config = uvicorn.Config(
        create_app(service), host=host, port=port, log_config=None, server_header=False,
        timeout_graceful_shutdown=_CLOSING_S,
    )  # fmt: skip
    threading.Thread(target=load, name="guided-load", daemon=True).start()
    Uvicorn(config, service).run()
    if service.failed is not None:
        raise service.failed
