"""Extract the facts that the core needs from a transformers tokenizer and model, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from special_tokens import AddedToken, TokenizerFacts
from special_tokens.errors import TokenizerError

__all__ = ["NAMED", "eos_ids", "facts_of", "first_line", "head_width", "logits_widths", "tokenizer_json"]

_PROBED_IDS = 4096
#: The roles that a tokenizer names tokens for, in transformers' order: it gives new ids in it.
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def tokenizer_json(tokenizer: Any) -> str:
    """Return the text of the tokenizer's ``tokenizer.json``; raise `TokenizerError` without a fast backend."""
    return str(_backend(tokenizer).to_str())


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, after its class name unless it is an OSError or ImportError."""
    lines = str(error).strip().splitlines()
    said = lines[0].rstrip(": ") if lines else ""
    return said if isinstance(error, OSError | ImportError) and said else f"{type(error).__name__}: {said}".rstrip(": ")


def _backend(tokenizer: Any) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise TokenizerError(
            "no tokenizer is given",
            place="tokenizer",
            expected="what AutoTokenizer.from_pretrained gives",
            hint="guided.Guide(model, tokenizer); guided.Guide.from_pretrained(name) loads both",
        )
    if backend is None or not hasattr(backend, "to_str"):
        raise TokenizerError(
            f"{type(tokenizer).__name__} has no fast backend",
            place="tokenizer",
            expected="a tokenizer backed by the tokenizers library",
            hint="load it with AutoTokenizer and a tokenizer.json",
        )
    return backend


def facts_of(tokenizer: Any, *, model: Any = None) -> TokenizerFacts:
    """Return the facts of a loaded tokenizer, with end ids and logits width of ``model`` if given."""
    backend = _backend(tokenizer)
    added = tuple(
        AddedToken(int(i), token.content, bool(token.special))
        for i, token in sorted(tokenizer.added_tokens_decoder.items())
    )
    config = getattr(model, "config", None)
    return TokenizerFacts(
        added=added,
        vocab_size=_vocab_size(backend, added),
        logits_size=_logits_size(config),
        named={name: str(getattr(tokenizer, name)) for name in NAMED if getattr(tokenizer, name, None)},
        generation_eos=eos_ids(getattr(getattr(model, "generation_config", None), "eos_token_id", None)),
        config_eos=eos_ids(getattr(config, "eos_token_id", None)),
        chat_template=_template(tokenizer),
        name=str(getattr(tokenizer, "name_or_path", "")),
        lookup=backend.token_to_id,
    )


def _vocab_size(backend: Any, added: Sequence[AddedToken]) -> int:
    """Return the largest id plus one.

    The vocabulary as a dict costs a third of a second for a large one, so it is read only when the ids of ordinary
    tokens seem to have gaps: when some 16th id below their number lacks a token, or one of the next `_PROBED_IDS`
    ids has one.
    """
    size: int = backend.get_vocab_size(with_added_tokens=False)
    beyond = {token.id for token in added if token.id >= size}
    is_dense = backend.get_vocab_size(with_added_tokens=True) == size + len(beyond)
    inside = map(backend.id_to_token, range(0, size, 16))
    outside = (backend.id_to_token(i) for i in range(size, size + _PROBED_IDS) if i not in beyond)
    if is_dense and all(token is not None for token in inside) and all(token is None for token in outside):
        return max([*beyond, size - 1]) + 1
    return max(backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def eos_ids(value: Any) -> tuple[int, ...]:
    """Return ``eos_token_id``, given in any of its forms (None, int, list, tensor), as ids."""
    if value is None:
        return ()
    if hasattr(value, "tolist"):
        value = value.tolist()
    values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    return tuple(int(i) for i in values if i is not None and int(i) >= 0)


def _logits_size(config: Any) -> int | None:
    if config is None:
        return None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    size = getattr(text, "vocab_size", None)
    return int(size) if size else None


def head_width(model: Any) -> int | None:
    """Return the output width of the model's last layer, whatever its config says; None if unknown."""
    find = getattr(model, "get_output_embeddings", None)
    try:
        head = find() if find is not None else None
    except NotImplementedError:
        return None
    size = getattr(head, "out_features", None)
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    shape: Sequence[int] = getattr(getattr(head, "weight", None), "shape", ())
    return int(shape[0]) if len(shape) == 2 else None


def logits_widths(model: Any) -> set[int]:
    """Return the widths that the model's scores may have: its last layer's and its config's."""
    widths = (head_width(model), _logits_size(getattr(model, "config", None)))
    return {width for width in widths if width is not None}


def _template(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("tool_use") or template.get("default")
    return template if isinstance(template, str) else ""
