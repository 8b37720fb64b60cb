"""Compiles a grammar of which the cost is not known in a process that can be ended.

The engine cannot be stopped while it compiles, and a few lines of a client (intersections of repeats) can keep it
busy for minutes.  `Trial.error_of` asks a helper process first; what takes too long there is never begun here.  The
helper is a fresh interpreter (no fork: safe beside threads and devices), started when first needed and used again.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from special_tokens.errors import LimitExceeded

__all__ = ["Trial"]

_CHILD = Path(__file__).with_name("compile_child.py")
_WAIT = 10  # times the processor time: how long a busy machine may take over it


class Trial:
    """A helper process and its two bounds for one grammar: processor time in seconds and memory in bytes."""

    def __init__(self, *, seconds: float = 1.5, size: int = 4 << 30) -> None:
        self.seconds = seconds
        self.size = size
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def error_of(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> str | None:
        """What the engine says to ``grammar`` under ``limits`` (arguments of its `LLParserLimits`), None if nothing.

        Raises `LimitExceeded` when it needs more than the bounds, or no helper can be started.
        """
        request = {"grammar": grammar, "vocab_size": vocab_size, "limits": limits}
        body = json.dumps(request | {"seconds": self.seconds, "bytes": self.size}).encode()
        with self._lock:
            answer = self._asked(body)
        if answer is None:
            raise LimitExceeded(
                f"compiling the grammar takes more than {self.seconds:g} s of processor time or {self.size >> 30} GB, "
                "the limits of a trial",
                hint="use fewer or simpler intersections, complements and repeats",
            )
        error: str | None = json.loads(answer)["error"]
        return error

    def close(self) -> None:
        """End the helper; the next question starts another."""
        with self._lock:
            self._end()

    def _asked(self, body: bytes) -> bytes | None:
        """The helper's answer; None when it is gone or had to be ended."""
        try:
            process = self._running()
        except OSError:
            return None
        found: list[bytes] = []
        # Reading cannot be interrupted, so a thread does it: it ends with the process at the latest.
        reader = threading.Thread(target=_exchange, args=(process, body, found), name="guided-trial", daemon=True)
        reader.start()
        reader.join(self.seconds * _WAIT)
        if not found:
            self._end()
            return None
        return found[0]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._owner = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    _close(pipe)


def _close(pipe: Any) -> None:
    with suppress(OSError):  # what was still to be written has no reader any more
        pipe.close()


def _exchange(process: subprocess.Popen[bytes], body: bytes, found: list[bytes]) -> None:
    """Write a request and read its answer, which stays out where the process ends before."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(struct.pack(">I", len(body)) + body)
        process.stdin.flush()
        head = process.stdout.read(4)
        if len(head) == 4:
            answer = process.stdout.read(struct.unpack(">I", head)[0])
            found.append(answer)
    except (OSError, ValueError):
        return
