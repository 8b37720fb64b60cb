"""The process: uvicorn around the application, a thread that loads the model, an end after the last answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import uvicorn

from guided.embedded import Progress, load, quiet
from guided.hf.guide import Guide
from guided.serve.app import create_app
from guided.serve.service import Service
from guided.serve.settings import Settings
from special_tokens.errors import ModelError, RequestError

__all__ = ["Uvicorn", "load_guide", "run_server"]

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

    Raises what ``make`` raised, and `RequestError` where the port cannot be had.
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
    try:
        Uvicorn(config, service).run()
    except SystemExit:  # with a code that means something else to the command line
        raise RequestError(
            f"cannot listen on port {port} of {host}", place="--host, --port", hint="the log says why"
        ) from None
    if service.failed is not None:
        raise service.failed


def load_guide(
    model: str | None,
    device: str | None = None,
    dtype: str = "auto",
    attn_implementation: str | None = None,
    cache_bytes: int | None = None,
    *,
    progress: Progress,
) -> Guide:
    """Return the guide of a model's name or folder, or of the embedded model, on its device."""
    if "OMP_NUM_THREADS" not in os.environ:  # the other half is for HTTP, prompts and plans
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise RequestError(f"{dtype!r} is not a type", place="--dtype", expected="auto, float32, bfloat16, float16 ...")
    more: dict[str, Any] = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
    if model is None:
        loaded, tokenizer = load(progress=progress)
        if attn_implementation is not None:
            try:
                loaded.set_attn_implementation(attn_implementation)
            except (ValueError, ImportError) as error:
                raise ModelError(str(error).splitlines()[0], place="--attn-implementation") from None
        if dtype != "auto":
            loaded.to(getattr(torch, dtype))
        guide = Guide(loaded, tokenizer, cache_bytes=cache_bytes)
    else:
        with quiet():
            guide = Guide.from_pretrained(model, cache_bytes=cache_bytes, dtype=dtype, **more)
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        guide.model.to(where)
    except (RuntimeError, AssertionError) as error:  # as torch refuses a device
        raise ModelError(str(error).splitlines()[0], place="--device", expected="cpu, cuda, cuda:0, mps ...") from None
    return guide
