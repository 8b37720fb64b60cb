"""A worker process for work that cannot be interrupted in this process: it takes requests, answers, and can be killed.

The worker (`guided.engine.worker_child`) runs the script of one job; it imports none of our packages, so that it
starts at once (it is not forked: safe next to threads and devices).  The process is started at the first request and
serves all later ones until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "Worker"]

_CHILD = Path(__file__).with_name("worker_child.py")


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker gave no answer: it was killed because it was ``late``, it passed a ``limit``, or it exited by itself
    with ``code``.
    """

    late: bool = False
    limit: str = ""
    code: int | None = None


class Worker:
    """One worker process, which runs the job of ``script``; ``size`` bounds the memory of one request in bytes.

    It answers one request at a time, since it has one pair of pipes: the caller of `_asked` holds ``_lock``.
    """

    def __init__(self, script: Path, *, size: int = 1 << 30) -> None:
        self.script = script
        self.size = size
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def close(self) -> None:
        """Kill the process; the next request starts another one."""
        with self._lock:
            self._end()

    def ask(self, request: dict[str, Any], *, seconds: float, patience: float) -> dict[str, Any] | Ended:
        """Return the answer to ``request``, which may take this many seconds of processor time.

        Or `Ended`, after ``patience`` seconds at most, the wait for earlier requests included.  Raises `OSError` if no
        process can be started.
        """
        until = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            return Ended(late=True)
        try:
            return self._asked(request, seconds, until - time.monotonic())
        finally:
            self._lock.release()

    def _asked(self, request: dict[str, Any], seconds: float, patience: float) -> dict[str, Any] | Ended:
        """Return the answer, or `Ended` after ``patience`` seconds; raises `OSError` if no process can be started."""
        body = json.dumps(request | {"seconds": seconds, "bytes": self.size}).encode()
        process = self._running()
        answers: list[bytes] = []
        # Reading cannot be interrupted, so a thread does it: it ends with the process at the latest.
        reader = threading.Thread(target=_exchange, args=(process, body, answers), name="guided-worker", daemon=True)
        try:
            reader.start()
        except RuntimeError as error:  # no more threads
            raise OSError(str(error)) from error
        try:
            reader.join(patience)
        except BaseException:  # an interrupt: the next caller must not get this answer
            self._end()
            raise
        if answers:
            answer: dict[str, Any] = json.loads(answers[0])
            return answer
        if reader.is_alive():
            self._end()
            return Ended(late=True)
        code = self._end(gone=True)
        if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
            return Ended(limit=f"{seconds:g} s of processor time")
        if code in (-signal.SIGABRT, -signal.SIGSEGV):  # how an allocation fails in Rust, and in its C
            return Ended(limit=f"{self.size / 2**30:.2g} GB of memory")
        return Ended(code=code)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD), str(self.script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is ours
            )
            self._owner = os.getpid()
        return self._process

    def _end(self, *, gone: bool = False) -> int | None:
        """Kill the process, or wait for one that is ``gone`` by itself; return its exit code."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return None
        if gone:  # its pipe is closed a moment before it has an exit code
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)
        return code


def _close(pipe: Any) -> None:
    with suppress(OSError):  # bytes that are not written yet have no reader any more
        pipe.close()


def _exchange(process: subprocess.Popen[bytes], body: bytes, answers: list[bytes]) -> None:
    """Write a request, read its answer and append it to ``answers``; append nothing if the process ends first."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(struct.pack(">I", len(body)) + body)
        process.stdin.flush()
        head = process.stdout.read(4)
        if len(head) == 4:
            answer = process.stdout.read(struct.unpack(">I", head)[0])
            answers.append(answer)
    except (OSError, ValueError):
        return
