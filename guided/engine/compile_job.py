"""The job that compiles grammars on trial in a worker process, see `guided.engine.worker_child`; never imported.

A request is ``{"grammar", "vocab_size", "limits"}``.  In the answer, ``{"error"}``, null means that it compiles.
"""

from __future__ import annotations

import json
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


@lru_cache(maxsize=4)
def tokenizer_of(vocab_size: int) -> Any:
    """Return a tokenizer with every byte and ``vocab_size`` ids: the cost of compiling does not depend on its words."""
    printable = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]  # GPT-2's, of the bytes
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    body = {
        "added_tokens": [{"id": 256, "content": "<|end|>", "special": True, **flags}],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {char: i for i, char in enumerate(printable)}, "merges": []},
    }
    return llguidance.LLTokenizer(json.dumps(body), n_vocab=max(vocab_size, 300), eos_token=[256])
