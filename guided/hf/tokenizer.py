"""What the core needs to know of a transformers tokenizer and model, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from special_tokens.errors import TokenizerError

__all__ = ["eos_ids", "facts_of", "tokenizer_json"]

_NAMED = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")


def tokenizer_json(tokenizer: Any) -> str:
    """The text of the tokenizer's ``tokenizer.json``; raises `TokenizerError` without a fast backend."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        raise TokenizerError(
            f"{type(tokenizer).__name__} has no fast backend",
            place="tokenizer",
            expected="a tokenizer backed by the tokenizers library",
            hint="load it with AutoTokenizer and a tokenizer.json",
        )
    return str(backend.to_str())


def facts_of(tokenizer: Any, *, model: Any = None) -> TokenizerFacts:
    """The facts of a live tokenizer, with the end ids and the logits width of ``model`` where one is given."""
    tokenizer_json(tokenizer)
    added = tuple(
        AddedToken(int(i), token.content, bool(token.special))
        for i, token in sorted(tokenizer.added_tokens_decoder.items())
    )
    vocab = tokenizer.get_vocab()
    config = getattr(model, "config", None)
    return TokenizerFacts(
        added=added,
        vocab_size=max(vocab.values(), default=-1) + 1,
        logits_size=_logits_size(config),
        named={name: str(getattr(tokenizer, name)) for name in _NAMED if getattr(tokenizer, name, None)},
        generation_eos=eos_ids(getattr(getattr(model, "generation_config", None), "eos_token_id", None)),
        config_eos=eos_ids(getattr(config, "eos_token_id", None)),
        chat_template=_template(tokenizer),
        name=str(getattr(tokenizer, "name_or_path", "")),
        lookup=vocab.get,
    )


def eos_ids(value: Any) -> tuple[int, ...]:
    """``eos_token_id`` in any of its forms (None, int, list, tensor) as ids."""
    if value is None:
        return ()
    if hasattr(value, "tolist"):
        value = value.tolist()
    values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    return tuple(int(i) for i in values if i is not None and int(i) >= 0)


def special_tokens_of(tokenizer: Any, *, model: Any = None) -> SpecialTokens:
    """The registry of a live tokenizer."""
    return SpecialTokens(facts_of(tokenizer, model=model))


def _logits_size(config: Any) -> int | None:
    if config is None:
        return None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    size = getattr(text, "vocab_size", None)
    return int(size) if size else None


def _template(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("tool_use") or template.get("default")
    return template if isinstance(template, str) else ""
