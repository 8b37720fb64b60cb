"""A model's registry and format without its weights: all that composing a plan needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from grammars.values.format import Format
from grammars.formats.infer import Inference
from guided.engine.engine import Engine
from guided.hf.model.wire_format import format_of, inference_of, inference_of_template, inference_of_tokens
from guided.hf.model.tokenizer import facts_of, first_line, tokenizer_json
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, shown
from special_tokens.facts import facts_from_config, template_of

__all__ = ["described_vocabulary", "engine_of", "vocabulary_of"]


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
    tokens, tokenizer = _load(name)
    return tokens, format_of(tokenizer, tokens)


def engine_of(name: str | Path) -> tuple[Engine, Format]:
    """Engine (with its registry, ``engine.tokens``) and format of a model by name or folder."""
    tokens, tokenizer = _load(name)
    return Engine(tokenizer_json(tokenizer), tokens), format_of(tokenizer, tokens)


def described_vocabulary(name: str | Path) -> tuple[SpecialTokens, Inference]:
    """Registry and format, with its evidence: of a model by name or folder, of a tokenizer's file, of a chat template.

    Raises `ModelError`, `TokenizerError` and `TemplateError` for what cannot be read.
    """
    path = Path(name)
    if path.suffix == ".json" and path.is_file():
        if not (path.parent / "tokenizer.json").is_file():
            tokens = SpecialTokens(facts_from_config(path))
            return tokens, inference_of_tokens(tokens)
        name = path.parent
    if path.suffix in (".jinja", ".jinja2", ".j2") and path.is_file():
        inference, tokens = inference_of_template(template_of(path))
        return tokens, inference
    tokens, tokenizer = _load(name)
    return tokens, inference_of(tokenizer, tokens)


def _load(name: str | Path) -> tuple[SpecialTokens, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # files of strangers make loaders raise anything
        raise ModelError(
            f"cannot load the tokenizer of {shown(str(name))}: {first_line(error)}",
            place="model",
            expected="a model name or a folder with tokenizer.json",
        ) from error
    return SpecialTokens(facts_of(tokenizer, model=_Weightless(name))), tokenizer
