"""Load a model's special tokens, wire format and engine without its weights: enough to compose a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from grammars.formats.infer import Inference
from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.hf.model.tokenizer import facts_of, first_line, tokenizer_json
from guided.hf.model.wire_format import format_of, inference_of, inference_of_template, inference_of_tokens
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, shown
from special_tokens.facts import facts_from_config, template_of

__all__ = ["described_vocabulary", "engine_of", "vocabulary_of"]


class _Weightless:
    """A stand-in for a model: the two configurations that `SpecialTokens` reads."""

    def __init__(self, name: str | Path) -> None:
        self.config = None
        self.generation_config = None
        try:
            self.config = AutoConfig.from_pretrained(name)
            self.generation_config = GenerationConfig.from_pretrained(name)
        except (OSError, ValueError):  # a tokenizer folder has neither
            pass


def vocabulary_of(name: str | Path) -> tuple[SpecialTokens, Format]:
    """Return special tokens and wire format of a model, given by name or folder."""
    tokens, tokenizer = _load(name)
    return tokens, format_of(tokenizer, tokens)


def engine_of(name: str | Path) -> tuple[Engine, Format]:
    """Return engine (with the special tokens, ``engine.tokens``) and wire format of a model by name or folder."""
    tokens, tokenizer = _load(name)
    return Engine(tokenizer_json(tokenizer), tokens), format_of(tokenizer, tokens)


def described_vocabulary(name: str | Path) -> tuple[SpecialTokens, Inference]:
    """Return special tokens and wire format with its evidence.

    ``name`` is a model's name or folder, a tokenizer's JSON file, or a chat template's file.  Raises `ModelError`,
    `TokenizerError` or `TemplateError` for what cannot be read.
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
    except Exception as error:  # loaders may raise anything for files of unknown origin
        raise ModelError(
            f"cannot load the tokenizer of {shown(str(name))}: {first_line(error)}",
            place="model",
            expected="a model name or a folder with tokenizer.json",
        ) from error
    return SpecialTokens(facts_of(tokenizer, model=_Weightless(name))), tokenizer
