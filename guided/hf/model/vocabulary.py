"""Load a model's special tokens, wire format and engine without its weights: enough to compose a plan.

A fast tokenizer's files are read directly, in a second; transformers, which takes ten, loads any other.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.formats.infer import Inference
from grammars.plan.plan import Plan
from guided.hf.model.hub import check_reachable
from guided.hf.model.tokenizer import facts_of, first_line
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.hf.model.tokenizer_files import HUB_FILES, TokenizerFiles, configurations, is_readable
from guided.hf.model.tool_rendering import check_tools
from guided.hf.model.wire_format import format_of, inference_of, inference_of_template, inference_of_tokens
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, ModelError, shown
from special_tokens.facts import facts_from_config, template_of

__all__ = ["context_of", "described_vocabulary", "plan_of"]


def context_of(name: str | Path) -> TokenizerContext:
    """Return the context of a model, by name or folder; a tokenizer that is read from its files encodes no prompts."""
    tokens, tokenizer = _load(name)
    return TokenizerContext(tokenizer, tokens, format_of(tokenizer, tokens))


def plan_of(name: str | Path, parts: Parts) -> Plan:
    """Return the plan that a guide of this model composes from ``parts``; raises the same errors.

    Nothing is compiled, so a grammar that only the engine refuses is not refused here.
    """
    context = context_of(name)
    plan = compose(parts, tokens=context.tokens, format=context.format)
    check_tools(context.tokenizer, context.format, plan, context.tokens)
    return plan


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
        folder = _folder(name)
        if folder is None:
            tokenizer, model = _by_transformers(name)
        else:
            tokenizer, model = TokenizerFiles(folder, str(name)), configurations(folder)
        return SpecialTokens(facts_of(tokenizer, model=model)), tokenizer
    except GuidedError:
        raise
    except Exception as error:  # loaders may raise anything for files of unknown origin
        raise ModelError(
            f"cannot load the tokenizer of {shown(str(name))}: {first_line(error)}",
            place="model",
            expected="a model name or a folder with tokenizer.json",
        ) from error


def _folder(name: str | Path) -> Path | None:
    """The folder with the files of a fast tokenizer, fetched from the hub for a name; None where there is none."""
    folder = Path(name)
    if not folder.exists():
        from huggingface_hub import snapshot_download

        check_reachable(name)
        folder = Path(snapshot_download(str(name), allow_patterns=list(HUB_FILES)))
    return folder if is_readable(folder) else None


def _by_transformers(name: str | Path) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    tokenizer, config, generation = AutoTokenizer.from_pretrained(name), None, None
    try:
        config = AutoConfig.from_pretrained(name)
        generation = GenerationConfig.from_pretrained(name)
    except (OSError, ValueError):  # a tokenizer folder has neither
        pass
    return tokenizer, SimpleNamespace(config=config, generation_config=generation)
