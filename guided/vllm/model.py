"""The context of the model that vLLM serves: made of vLLM's configuration, without weights."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from guided.hf.model.tokenizer_context import TokenizerContext

__all__ = ["context_of", "sampling_defaults"]

_lock = threading.Lock()
_contexts: dict[tuple[str, str], TokenizerContext] = {}


def context_of(model_config: Any, chat_template: str | None = None) -> TokenizerContext:
    """Return the context of a model, made once in a process: by the API server before any request, with the
    ``chat_template`` that replaces the tokenizer's own.

    Raises `TokenizerError` for a tokenizer without a fast backend.
    """
    key = (model_config.tokenizer, str(model_config.tokenizer_revision))
    with _lock:
        if key not in _contexts:
            _contexts[key] = _made(model_config, chat_template)
        return _contexts[key]


def _made(model_config: Any, chat_template: str | None) -> TokenizerContext:
    from guided.vllm.names import tokenizer_of

    tokenizer = tokenizer_of(model_config)
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    eos = model_config.try_get_generation_config().get("eos_token_id")
    context = TokenizerContext.of(tokenizer, model_config.hf_config, SimpleNamespace(eos_token_id=eos))
    _ = context.engine  # takes seconds, which no request should wait
    return context


def sampling_defaults(model_config: Any) -> tuple[dict[str, Any], int | None]:
    """Return the settings of requests that leave them open, and the most tokens of any answer: both as vLLM has them.

    Besides settings of `guided.Sampling` there may be ``max_tokens``.
    """
    defaults = {"temperature": 1.0, **model_config.get_diff_sampling_param()}
    if model_config.generation_config in ("auto", "vllm"):
        return defaults, model_config.override_generation_config.get("max_new_tokens")
    return defaults, defaults.get("max_tokens")
