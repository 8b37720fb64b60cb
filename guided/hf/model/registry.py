"""The registry of special tokens of a loaded model: built from its tokenizer, or checked if the caller passes one."""

from __future__ import annotations

from typing import Any

from guided.hf.model.tokenizer import facts_of, logits_widths
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError

__all__ = ["registry_of"]


def registry_of(model: Any, tokenizer: Any, tokens: SpecialTokens | None = None) -> SpecialTokens:
    """Return ``tokens``, by default those of tokenizer and model.

    Raises `ModelError` for what is not a model or one whose logits are narrower than the tokenizer's vocabulary, and
    `TokenizerError` for what is not a tokenizer or when ``tokens`` are those of another one.
    """
    _check_model(model)
    registry = SpecialTokens(facts_of(tokenizer, model=model))
    _check_logits_width(model, registry)
    if tokens is None:
        return registry
    if isinstance(tokens, SpecialTokens) and tokens.fingerprint == registry.fingerprint:
        return tokens
    raise TokenizerError(
        "the registry is not one of this guide's tokenizer and model",
        place="tokens",
        expected=f"the added tokens and sizes of vocabulary {registry.fingerprint}",
        hint="make it from the guide's own: guide.tokens.add_end(...)",
    )


def _check_model(model: Any) -> None:
    if not all(hasattr(model, name) for name in ("generate", "config", "generation_config", "forward")):
        raise ModelError(
            f"{type(model).__name__} is not a language model of transformers",
            place="model",
            expected="what AutoModelForCausalLM.from_pretrained gives",
            hint="guided.Guide.from_pretrained(name) loads model and tokenizer",
        )


def _check_logits_width(model: Any, tokens: SpecialTokens) -> None:
    vocabulary = tokens.facts.vocab_size
    logits = min(logits_widths(model), default=vocabulary)  # a last layer may be narrower than the config says
    if logits < vocabulary:
        raise ModelError(
            f"the model's logits are {logits} wide, the tokenizer has ids up to {vocabulary - 1}",
            place="tokenizer",
            hint="resize the model's embeddings, or load the tokenizer that belongs to it",
        )
