"""A replica that dies where a test says so: it is killed at the point whose file is in the folder `DEATHS`, once.

At the point ``engine`` only its engine dies; while there is a file ``boot`` no replica gets ready.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guided.ray.args import ReplicaArgs
from guided.ray.replica import Replica
from guided.serve.loops import JobRows
from guided.serve.observing import spans
from guided.serve.planning import ServerPlanner
from guided.serve.running import Running

__all__ = ["DEATHS", "MortalReplica"]

#: The environment variable that names the folder.
DEATHS = "GUIDED_TEST_DEATHS"

#: Tokens that are written before a death in the decode phase.
NUM_WRITTEN = 5


def die(point: str) -> None:
    try:
        (Path(os.environ[DEATHS]) / point).unlink()
    except FileNotFoundError:
        return
    if point == "engine":
        raise SystemExit("the engine shall end for good")
    os.kill(os.getpid(), signal.SIGKILL)


def export_spans() -> None:
    """Write the names of spans to a file, in place of a collector."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    provider = TracerProvider()
    file = (Path(os.environ[DEATHS]) / "spans").open("a", buffering=1)
    exporter = ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.name}\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def before(function: Callable[..., Any], point: str, *, num_tokens: int = 0) -> Callable[..., Any]:
    def deadly(self: Any, *args: Any) -> Any:
        if num_tokens == 0 or len(self.generation.answers[0].tokens) >= num_tokens:
            die(point)
        return function(self, *args)

    return deadly


class MortalReplica(Replica):
    def __init__(self, args: ReplicaArgs) -> None:
        while (Path(os.environ[DEATHS]) / "boot").exists():
            time.sleep(0.1)
        spans.export_spans = export_spans
        super().__init__(args)
        ServerPlanner.compose = before(ServerPlanner.compose, "compile")  # type: ignore[method-assign]
        JobRows.step = before(before(JobRows.step, "prefill"), "engine")  # type: ignore[method-assign]
        Running.wrote = before(Running.wrote, "decode", num_tokens=NUM_WRITTEN)  # type: ignore[method-assign]
