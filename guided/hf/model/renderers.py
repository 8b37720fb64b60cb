"""Chat templates as plain callables ``render(messages, **kw) -> str``, from which a wire format is inferred.

Rendering is transformers' own, with its sandbox, filters and aliases of reasoning fields.  Every failure is a
`TemplateError` with the template's own error text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from jinja2.sandbox import SandboxedEnvironment
from transformers.utils import chat_template_utils

from special_tokens.errors import TemplateError

__all__ = ["NO_NAMES", "Render", "mutable_renderer", "template_renderer", "tokenizer_renderer"]

#: ``messages`` and the template's arguments (tools, add_generation_prompt, switches) to text.
Render: TypeAlias = Callable[..., str]

#: Placeholders for a template's named tokens when there is no tokenizer.
NO_NAMES: Mapping[str, str] = {"bos_token": "<bos_token>", "eos_token": "<eos_token>", "pad_token": "<pad_token>"}


def template_renderer(template: str, named: Mapping[str, str] = NO_NAMES) -> Render:
    """Return the renderer of a template's text; ``named`` maps the tokenizer's named tokens to their texts."""

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:
            texts, _ = chat_template_utils.render_jinja_template(
                [list(messages)], chat_template=template, **{**named, **kwargs}
            )
        except Exception as error:  # a template may raise anything
            raise _translated(error) from error
        return str(texts[0])

    return render


def mutable_renderer(template: str, named: Mapping[str, str] = NO_NAMES) -> Render:
    """Return a renderer like `template_renderer`'s, in a sandbox that lets a template change its own lists.

    transformers refuses templates that call ``list.append``; here they render.  For inference only: transformers
    cannot render such a prompt.
    """

    @cache
    def compiled() -> Any:
        strict = chat_template_utils._compile_jinja_template(template).environment
        loose = SandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[type(e) for e in strict.extensions.values()]
        )
        loose.filters, loose.globals = strict.filters, strict.globals
        return loose.from_string(template)

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        own: list[dict[str, Any]] = copy.deepcopy([dict(message) for message in messages])
        for message in own:
            if "reasoning_content" in message:  # as transformers does before rendering
                message.setdefault("reasoning", message["reasoning_content"])
                message.setdefault("thinking", message["reasoning_content"])
        defaults = {"tools": None, "documents": None, "add_generation_prompt": False}
        try:
            return str(compiled().render(messages=own, **{**named, **defaults, **copy.deepcopy(kwargs)}))
        except Exception as error:
            raise _translated(error) from error

    return render


def tokenizer_renderer(tokenizer: Any) -> Render:
    """Return the renderer of a loaded tokenizer's chat template."""

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **kwargs))
        except Exception as error:
            raise _translated(error) from error

    return render


def _translated(error: Exception) -> TemplateError:
    words = str(error).strip().splitlines()
    return TemplateError(f"{type(error).__name__}: {words[0] if words else ''}", place="chat_template")
