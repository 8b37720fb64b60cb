"""A process of our own for work that cannot be interrupted here: it is asked, answers, and can be ended.

What runs in there is a script of ours that imports nothing of ours, so that it starts at once (no fork: safe next
to threads and devices).  Requests and answers are four bytes of length (big-endian) and JSON, over its pipes.  It is
started when first needed and used again until it has to be ended.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "Helper"]


@dataclass(frozen=True, slots=True)
class Ended:
    """No answer: a ``late`` helper was ended by the clock on the wall, another ended itself with ``code``."""

    late: bool
    code: int | None


class Helper:
    """One helper process, which runs ``script``.  Who asks holds ``_lock``: it has one pair of pipes."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def close(self) -> None:
        """End the helper; the next question starts another."""
        with self._lock:
            self._end()

    def ask(self, body: bytes, patience: float) -> dict[str, Any] | Ended:
        """As `_asked`, when those who asked before have their answers; late where that took all the time."""
        until = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            return Ended(True, None)
        try:
            return self._asked(body, until - time.monotonic())
        finally:
            self._lock.release()

    def _asked(self, body: bytes, patience: float) -> dict[str, Any] | Ended:
        """Return the answer, which may take ``patience`` seconds; raises `OSError` where no worker can be started."""
        process = self._running()
        found: list[bytes] = []
        # Reading cannot be interrupted, so a thread does it: it ends with the process at the latest.
        reader = threading.Thread(target=_exchange, args=(process, body, found), name="guided-helper", daemon=True)
        try:
            reader.start()
        except RuntimeError as error:  # no more threads
            raise OSError(str(error)) from error
        try:
            reader.join(patience)
        except BaseException:  # an interrupt: the answer is not for who asks next
            self._end()
            raise
        if found:
            answer: dict[str, Any] = json.loads(found[0])
            return answer
        if reader.is_alive():
            return Ended(True, self._end())
        return Ended(False, self._end(gone=True))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(self.script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is ours
            )
            self._owner = os.getpid()
        return self._process

    def _end(self, *, gone: bool = False) -> int | None:
        """End the helper, or wait for the end of one that is ``gone``; its exit code."""
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
