"""The job that compiles grammars on trial in a worker process, see `guided.engine.worker_child`; never imported.

A request is ``{"grammar", "vocab_size", "limits"}``.  In the answer, ``{"error"}``, null means that it compiles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llguidance


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's error for a grammar (null if it compiles)."""
    limits = llguidance.LLParserLimits(verbose_errors=False, **request["limits"])
    tokenizer = tokenizer_of(request["vocab_size"])
    matcher = llguidance.LLMatcher(tokenizer, request["grammar"], log_level=0, limits=limits)
    error = str(matcher.get_error()) if matcher.is_error() else None
    if error is None:
        matcher.compute_bitmask()  # its cost counts; the caller reports a grammar without a sentence
    return {"error": error}


class _Bytes:
    """A tokenizer of the single bytes and an end, in the form that llguidance asks for."""

    eos_token_id, bos_token_id, special_token_ids = 256, None, (256,)
    tokens = (*(bytes((byte,)) for byte in range(256)), b"<|end|>")

    def __call__(self, data: bytes) -> list[int]:
        return list(data)


@lru_cache(maxsize=4)
def tokenizer_of(vocab_size: int) -> Any:
    """Return a tokenizer with every byte and ``vocab_size`` ids: the cost of compiling does not depend on its words."""
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), n_vocab=max(vocab_size, 300))
