"""The worker script that compiles grammars on trial: run by `guided.engine.compile_trial`, never imported.

Requests are read from stdin and answers written to stdout, each as four bytes of length (big-endian) and JSON.  A
request is ``{"grammar", "vocab_size", "limits", "seconds", "bytes"}``.  In the answer, ``{"error", "seconds",
"bytes"}``, the error is null if the grammar compiles; the others are the processor time that compiling took and the
memory that the process holds afterwards.  A compilation that takes more than ``seconds`` of processor time or ``bytes``
of memory ends the process, and its exit code says which.  The script imports none of our packages, so that it starts
at once.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import llguidance


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until stdin is closed."""
    while head := requests.read(4):
        request = json.loads(requests.read(struct.unpack(">I", head)[0]))
        try:
            answer = answer_to(request)
        except MemoryError:
            os.abort()  # as Rust ends where it gets no memory
        body = json.dumps(answer).encode()
        answers.write(struct.pack(">I", len(body)) + body)
        answers.flush()


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's error for a grammar (null if it compiles) with the time and memory that compiling took."""
    limits = llguidance.LLParserLimits(verbose_errors=False, **request["limits"])
    tokenizer = tokenizer_of(request["vocab_size"])
    begun = time.process_time()
    bound(request["seconds"], request["bytes"])
    matcher = llguidance.LLMatcher(tokenizer, request["grammar"], log_level=0, limits=limits)
    error = str(matcher.get_error()) if matcher.is_error() else None
    if error is None:
        matcher.compute_bitmask()  # its cost counts; the caller reports a grammar without a sentence
    bound(0, None)
    return {"error": error, "seconds": time.process_time() - begun, "bytes": bytes_held()}


def bound(seconds: float, size: int | None) -> None:
    """Let the system end this process past ``seconds`` of processor time or ``size`` bytes, if it can."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if size is not None and sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
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


@lru_cache(maxsize=4)
def tokenizer_of(vocab_size: int) -> Any:
    """Return a tokenizer with every byte and ``vocab_size`` ids: the cost of compiling does not depend on its words."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    alphabet = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    ids = {alphabet[b]: b for b in range(256)}
    model = {"type": "BPE", "vocab": ids, "merges": []}
    end = {"id": 256, "content": "<|end|>", "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    body: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
    }
    body |= {"pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}
    return llguidance.LLTokenizer(json.dumps(body), n_vocab=max(vocab_size, 300), eos_token=[256])


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
