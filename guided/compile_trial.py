"""Compiles a grammar of which the cost is not known in a process that can be ended.

The engine cannot be stopped while it compiles, and a few lines of a client (intersections of repeats) can keep it
busy for minutes.  A `Trial` asks a helper process first; what takes too long there is never begun here.  The helper is
a fresh interpreter (no fork: safe beside threads and devices), started when first needed and used again until it has
to be ended or has grown.  What came out is remembered, so that a request that comes again is answered at once.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grammars.deadline import time_left
from grammars.remembered import Remembered, digest
from special_tokens.errors import LimitExceeded

__all__ = ["Trial", "Verdict"]

_CHILD = Path(__file__).with_name("compile_child.py")
_WAIT = 10  # times the processor time: how long a busy machine may take over it where no deadline says less

_MOST_HASHES = 10_000

#: A grammar near the limit of processor time may pass on a machine that is less busy: its error is kept so long.
_KEPT_S = 600.0
#: What the clock on the wall ended says more of the machine than of the grammar; kept only against retries at once.
_KEPT_LATE_S = 30.0
#: A helper that has grown larger than this is not used again.
_LARGE = 500 << 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a grammar in a trial: the engine's ``error`` (None: it compiled), or the ``limit`` it passed.

    ``seconds`` of processor time are what compiling it took, and will take again.
    """

    error: str | None = None
    limit: str = ""
    seconds: float = 0.0


class Trial:
    """A helper process and its two bounds for one grammar: processor time in seconds and memory in bytes."""

    def __init__(self, *, seconds: float = 1.0, size: int = 1 << 30) -> None:
        self.seconds = seconds
        self.size = size
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._verdicts: Remembered[Verdict] = Remembered()
        self._hashes: set[int] = set()  #: of grammars with a verdict: most are of none, and should not be digested

    def known(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> Verdict | None:
        """The verdict on a grammar that was tried before, where it is still remembered."""
        if hash(grammar) not in self._hashes:
            return None
        return self._verdicts.get(digest(grammar, vocab_size, limits))

    def verdict(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> Verdict:
        """What becomes of ``grammar`` under ``limits`` (arguments of the engine's `LLParserLimits`).

        The same grammar is not tried twice: what the engine says and what a grammar costs is kept until better-used
        verdicts need the room, what a limit of time or memory ended for ten minutes, and what only the deadline
        (`grammars.deadline`) ended for half a minute.  What could not be tried at all is not kept.
        """
        key = digest(grammar, vocab_size, limits)
        request = {"grammar": grammar, "vocab_size": vocab_size, "limits": limits}
        body = json.dumps(request | {"seconds": self.seconds, "bytes": self.size}).encode()
        if not self._lock.acquire(timeout=self._patience()):
            return Verdict(limit="other grammars are on trial and there was no time left for this one")
        try:
            found = self._verdicts.get(key)  # perhaps it was being tried while we waited
            if found is None:
                found, kept = self._tried(body)
                if kept:
                    self._verdicts.put(key, found, kept)
                    if len(self._hashes) > _MOST_HASHES:
                        self._hashes.clear()  # who is not known asks for the verdict, and finds it there
                    self._hashes.add(hash(grammar))
        finally:
            self._lock.release()
        return found

    def error_of(self, grammar: str, *, vocab_size: int, limits: dict[str, int]) -> str | None:
        """What the engine says to ``grammar``, None if nothing; raises `LimitExceeded` where a limit was passed."""
        found = self.verdict(grammar, vocab_size=vocab_size, limits=limits)
        if found.limit:
            raise LimitExceeded(found.limit, hint="use fewer or simpler intersections, complements and repeats")
        return found.error

    def close(self) -> None:
        """End the helper; the next question starts another.  What it has found out is still known."""
        with self._lock:
            self._end()

    def _patience(self) -> float:
        return max(0.0, min(time_left(), self.seconds * _WAIT))

    def _tried(self, body: bytes) -> tuple[Verdict, float]:
        """The verdict and for how many seconds it is worth remembering; 0 where nothing was found out."""
        try:
            process = self._running()
        except OSError as error:
            return Verdict(limit=f"a costly grammar needs a helper process, and none can be started: {error}"), 0.0
        found: list[bytes] = []
        # Reading cannot be interrupted, so a thread does it: it ends with the process at the latest.
        reader = threading.Thread(target=_exchange, args=(process, body, found), name="guided-trial", daemon=True)
        patience = self._patience()
        reader.start()
        reader.join(patience)
        if found:
            answer = json.loads(found[0])
            if answer["bytes"] > _LARGE:
                self._end()
            return Verdict(answer["error"], seconds=answer["seconds"]), float("inf")
        if reader.is_alive():
            self._end()
            return Verdict(limit=_over(f"the {patience:.1f} s left until its deadline")), _KEPT_LATE_S
        return Verdict(limit=_over(self._cause(self._end(gone=True)))), _KEPT_S

    def _cause(self, code: int | None) -> str:
        """The limit that a helper passed which ended by itself, from its exit code."""
        if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
            return f"{self.seconds:g} s of processor time"
        return f"{self.size / 2**30:.2g} GB of memory"

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


def _over(limit: str) -> str:
    return f"compiling the grammar takes more than {limit}, one of the limits of a trial"


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
