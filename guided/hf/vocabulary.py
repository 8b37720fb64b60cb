"""A model's registry and format without its weights: all that composing a plan needs."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from grammars.formats.format import Format
from guided.hf.formats import format_of
from guided.hf.tokenizer import facts_of
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError

__all__ = ["vocabulary_of"]


class _Weightless:
    """Stands in for a model: the two configurations that the registry reads."""

    def __init__(self, name: str | Path) -> None:
        self.config = None
        self.generation_config = None
        try:
            self.config = AutoConfig.from_pretrained(name)
            self.generation_config = GenerationConfig.from_pretrained(name)
        except (OSError, ValueError):  # a tokenizer folder has neither
            pass


def vocabulary_of(name: str | Path) -> tuple[SpecialTokens, Format]:
    """Registry and format of a model by name or folder."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(
            f"cannot load the tokenizer of {str(name)!r}: {str(error).strip().splitlines()[0]}",
            place="model",
            expected="a model name or a folder with tokenizer.json",
        ) from error
    tokens = SpecialTokens(facts_of(tokenizer, model=_Weightless(name)))
    return tokens, format_of(tokenizer, tokens)
