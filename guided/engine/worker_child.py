"""The script of a worker process: run by `guided.engine.worker` with the file of a job, never imported.

The job's function ``answer_to`` takes a request and returns the answer, both JSON objects.  They go over stdin and
stdout, each as four bytes of length (big-endian) and JSON.  Of a request this script reads ``seconds`` and ``bytes``:
work that takes more processor time or memory ends the process, and its exit code says which.  To the answer it adds the
``seconds`` that the work took and the ``bytes`` that the process holds afterwards.  A job may have a function
``at_end``.  This script imports none of our packages, and a job as few as it can, so that a worker starts at once.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO


def serve(answer_to: Callable[[dict[str, Any]], dict[str, Any]], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until stdin is closed."""
    while head := requests.read(4):
        request = json.loads(requests.read(struct.unpack(">I", head)[0]))
        begun = time.process_time()
        bound(request["seconds"], request["bytes"])
        try:
            answer = answer_to(request)
        except MemoryError:
            os.abort()  # as Rust ends where it gets no memory
        bound(0, None)
        answer |= {"seconds": time.process_time() - begun, "bytes": bytes_held()}
        body = json.dumps(answer).encode()
        answers.write(struct.pack(">I", len(body)) + body)
        answers.flush()


def bound(seconds: float, size: int | None) -> None:
    """Let the system end this process past ``seconds`` of processor time or ``size`` bytes, if it can."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = hard if size is None else size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def bytes_held() -> int:
    """Return the memory of this process in bytes; 0 where the system does not say.

    Not the peak, which would include the parent's memory.
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


if __name__ == "__main__":
    job = runpy.run_path(sys.argv[1])
    serve(job["answer_to"], sys.stdin.buffer, sys.stdout.buffer)
    job.get("at_end", int)()  # stdin is closed: the parent has died
