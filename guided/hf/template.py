"""Chat templates of live tokenizers: rendering, and prompts as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError as JinjaError

from grammars.formats.format import Format
from grammars.plan import Plan
from special_tokens.errors import TemplateError

__all__ = ["render", "render_chat"]


def render(tokenizer: Any, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
    """The chat template's text for ``messages``; raises `TemplateError` with the template's own words."""
    if not getattr(tokenizer, "chat_template", None):
        raise TemplateError(
            "the tokenizer has no chat template",
            place="chat_template",
            hint="set tokenizer.chat_template, or pass token ids to model.generate yourself",
        )
    try:
        return str(tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False, **kwargs))
    except (JinjaError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TemplateError(f"the chat template cannot render these messages: {error}", place="messages") from error


def render_chat(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], format: Format, plan: Plan | None
) -> list[int]:
    """Token ids of the prompt, generation prompt included."""
    kwargs = dict(plan.template_kwargs) if plan is not None else {}
    if plan is not None and plan.tools and format.inputs.tools == "native":
        kwargs["tools"] = [tool.to_openai() for tool in plan.tools]
    text = render(tokenizer, messages, add_generation_prompt=True, **kwargs)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
