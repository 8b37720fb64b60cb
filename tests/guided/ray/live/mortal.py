"""A replica that dies where a test says so: it is killed at the point whose file is in the folder `DEATHS`, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guided.ray.replica import Replica, ReplicaArgs
from guided.serve.loops import JobRows
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
    os.kill(os.getpid(), signal.SIGKILL)


def before(function: Callable[..., Any], point: str, *, num_tokens: int = 0) -> Callable[..., Any]:
    def deadly(self: Any, *args: Any) -> Any:
        if num_tokens == 0 or len(self.generation.answers[0].tokens) >= num_tokens:
            die(point)
        return function(self, *args)

    return deadly


class MortalReplica(Replica):
    def __init__(self, args: ReplicaArgs) -> None:
        super().__init__(args)
        ServerPlanner.compose = before(ServerPlanner.compose, "compile")  # type: ignore[method-assign]
        JobRows.step = before(JobRows.step, "prefill")  # type: ignore[method-assign]
        Running.wrote = before(Running.wrote, "decode", num_tokens=NUM_WRITTEN)  # type: ignore[method-assign]
