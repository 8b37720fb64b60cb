"""The wire format of a model: inferred from its chat template, cross-checked and cached.

The cache key holds all inputs of the inference: the template's text, the special tokens and their names.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from grammars.formats.infer import Inference, infer
from grammars.limits.bounded_cache import BoundedCache
from grammars.values.format import Format
from guided.hf.model.renderers import NO_NAMES, Render, mutable_renderer, template_renderer, tokenizer_renderer
from guided.inspect.format_check import verified
from special_tokens import SpecialTokens, TokenizerFacts

__all__ = ["format_of", "inference_of", "inference_of_template", "inference_of_tokens", "warn_of_calls"]

log = logging.getLogger("guided")

#: Inferences in the cache, at most.
CACHE_SIZE = 64

_cache: BoundedCache[Inference] = BoundedCache(CACHE_SIZE)
_warned: set[str] = set()


def format_of(tokenizer: Any, tokens: SpecialTokens) -> Format:
    """Return the wire format of this tokenizer's model; log what was guessed, except of calls (`warn_of_calls`)."""
    inference = inference_of(tokenizer, tokens)
    _warn(tokens, [note for note in inference.notes if note not in inference.call_notes])
    return inference.format


def warn_of_calls(tokenizer: Any, tokens: SpecialTokens) -> None:
    """Log what `format_of` guessed of the model's tool calls, once; called only for plans with tools."""
    key = _key(tokens)
    inference = _cache.get(key)
    if inference is not None and key not in _warned:
        _warned.add(key)
        _warn(tokens, inference.call_notes)


def _warn(tokens: SpecialTokens, notes: Sequence[str]) -> None:
    for note in notes:
        log.warning("%s: %s", tokens.facts.name or "model", note)


def inference_of(tokenizer: Any, tokens: SpecialTokens) -> Inference:
    """Return the wire format with its evidence, from the cache or inferred now (under 200 ms)."""
    return _inference(tokens, tokenizer_renderer(tokenizer))


def inference_of_template(template: str, named: Mapping[str, str] = NO_NAMES) -> tuple[Inference, SpecialTokens]:
    """Return the wire format of a template without a tokenizer, and the special tokens that stand in for one."""
    tokens = SpecialTokens(TokenizerFacts((), 0, named=named, chat_template=template))
    return inference_of_tokens(tokens), tokens


def inference_of_tokens(tokens: SpecialTokens) -> Inference:
    """Return the wire format of the template in ``tokens.facts``, without a tokenizer to render it."""
    return _inference(tokens, template_renderer(tokens.facts.chat_template, tokens.facts.named))


def _inference(tokens: SpecialTokens, render: Render) -> Inference:
    key, template = _key(tokens), tokens.facts.chat_template
    inference = _cache.get(key)
    if inference is None:
        if not template:
            inference = infer(None, tokens)
        else:
            mutable = mutable_renderer(template, tokens.facts.named)
            inference = verified(infer(render, tokens, template=template, render_unsandboxed=mutable), tokens)
        _cache.put(key, inference)
    return inference


def _key(tokens: SpecialTokens) -> str:
    named = sorted(tokens.facts.named.items())
    parts = (tokens.facts.chat_template, tokens.fingerprint, repr(named), repr(tokens.end_ids))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
