"""Chat templates as plain callables ``render(messages, **kw) -> str``, for whoever infers a format from them.

Rendering is transformers' own: its sandbox, its filters, its aliases of reasoning fields.  Every failure is a
`TemplateError` with the template's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from transformers.utils.chat_template_utils import render_jinja_template

from special_tokens.errors import TemplateError

__all__ = ["NO_NAMES", "Render", "template_renderer", "tokenizer_renderer"]

#: ``messages`` and the template's arguments (tools, add_generation_prompt, switches) to text.
Render: TypeAlias = Callable[..., str]

#: What stands for a template's named tokens where no tokenizer is at hand.
NO_NAMES: Mapping[str, str] = {"bos_token": "<bos_token>", "eos_token": "<eos_token>", "pad_token": "<pad_token>"}


def template_renderer(template: str, named: Mapping[str, str] = NO_NAMES) -> Render:
    """The renderer of a template's text; ``named`` are the tokenizer's named tokens (``eos_token`` -> text)."""

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:
            texts, _ = render_jinja_template([list(messages)], chat_template=template, **{**named, **kwargs})
        except Exception as error:  # a template may raise anything; this is its edge
            raise _translated(error) from error
        return str(texts[0])

    return render


def tokenizer_renderer(tokenizer: Any) -> Render:
    """The renderer of a live tokenizer's chat template."""

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **kwargs))
        except Exception as error:
            raise _translated(error) from error

    return render


def _translated(error: Exception) -> TemplateError:
    words = str(error).strip().splitlines()
    return TemplateError(f"{type(error).__name__}: {words[0] if words else ''}", place="chat_template")
