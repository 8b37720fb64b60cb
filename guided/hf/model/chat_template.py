"""Render chats with a tokenizer's chat template and encode them as prompt token ids."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError as JinjaError
from jinja2.exceptions import SecurityError

from grammars.plan.plan import Plan
from grammars.prompt.escape import escape_special_tokens, put_anchors, segments, tags_of
from grammars.prompt.messages import messages_for, template_arguments
from grammars.values.format import Anchor, Format
from guided.hf.model.renderers import mutable_renderer
from guided.output.message import Message
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError, TemplateError

__all__ = ["encode", "messages_of", "prompt_text", "render", "token_ids"]

#: A tokenizer of transformers keeps the options of a call in itself: other threads would read with them.
_one_at_a_time = threading.Lock()


def render(tokenizer: Any, messages: Sequence[Mapping[str, Any]], tokens: SpecialTokens, **kwargs: Any) -> str:
    """Render ``messages`` with the chat template; raise `TemplateError` with the template's own error text.

    A template that transformers' sandbox refuses because it changes its own lists is rendered in one that allows it.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise TemplateError(
            "the tokenizer has no chat template",
            place="chat_template",
            hint="set tokenizer.chat_template, or pass token ids to model.generate yourself",
        )
    try:
        return str(tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False, **kwargs))
    except SecurityError:
        return mutable_renderer(tokens.facts.chat_template, tokens.facts.named)(messages, **kwargs)
    except (JinjaError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TemplateError(f"the chat template cannot render these messages: {error}", place="messages") from error


def messages_of(chat: Any) -> list[dict[str, Any]]:
    """Return the messages of a chat; a string is one user message.  Raises `RequestError` otherwise."""
    if isinstance(chat, str):
        chat = [{"role": "user", "content": chat}]
    if isinstance(chat, Mapping) or not isinstance(chat, Sequence):
        hint = "a message is not a chat yet: put it into a list, [message]" if isinstance(chat, Mapping) else ""
        expected = "a list of messages, or the user's text"
        raise RequestError(f"{type(chat).__name__} is not a chat", place="messages", expected=expected, hint=hint)
    if not chat:
        raise RequestError("there are no messages", place="messages", expected="at least one message")
    chat = [_as_mapping(message) for message in chat]
    for i, message in enumerate(chat):
        if not isinstance(message, Mapping):
            raise RequestError(
                f"{type(message).__name__} is not a message", place=f"messages[{i}]", expected="an object with a role"
            )
        if message.get("role") in ("system", "developer", "user", "tool") and "content" not in message:
            raise RequestError("there is no content", place=f"messages[{i}]", expected="content, a text or parts")
        try:
            json.dumps(dict(message), ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise RequestError(
                "a lone surrogate is not text", place=f"messages[{i}]", expected="Unicode text"
            ) from None
    return [dict(message) for message in chat]


def _as_mapping(message: Any) -> Any:
    """Return a message of ours, or of OpenAI's package, as the mapping that it stands for; anything else as it is."""
    if isinstance(message, Message):
        return message.to_chat()
    dump = None if isinstance(message, Mapping | type) else getattr(message, "model_dump", None)
    return message if dump is None else dump(exclude_none=True)


def prompt_text(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    format: Format,
    plan: Plan | None,
    tokens: SpecialTokens,
    system_text: str = "",
) -> str:
    """Return the prompt as the template writes it, with the spellings of special tokens in clients' text escaped.

    Messages are converted to the form that the template expects.
    """
    tools = plan.tools if plan is not None else ()
    kwargs = template_arguments(format, tools)
    if plan is not None:
        kwargs |= dict(plan.template_kwargs)
    tags = tags_of(format.tool_calls.anchors if format.tool_calls is not None else ())
    read = messages_for(messages, format, tools, system_text=system_text)
    shown = escape_special_tokens(read, tokens, tags)
    return render(tokenizer, shown, tokens, add_generation_prompt=True, **escape_special_tokens(kwargs, tokens, tags))


def encode(tokenizer: Any, prompt: str, tokens: SpecialTokens, anchors: tuple[Anchor, ...] = ()) -> list[int]:
    """Return the token ids of a rendered prompt; escaped spellings of special tokens become ordinary text.

    The anchors take the places of the tags that the template writes.

    Each later piece is encoded after a line break whose tokens are then removed, so that no tokenizer inserts a space
    before the piece.
    """
    pieces = list(put_anchors(segments(prompt, tokens, tags_of(anchors)), anchors))
    if len(pieces) == 1 and not pieces[0][1]:
        return token_ids(tokenizer, pieces[0][0], add_special_tokens=False)
    out: list[int] = []
    lead = token_ids(tokenizer, "\n", add_special_tokens=False)

    def add(text: str, *, is_text: bool) -> None:
        options = {"add_special_tokens": False, "split_special_tokens": is_text}
        ids = token_ids(tokenizer, "\n" + text, **options) if out else []
        has_lead = bool(out) and ids[: len(lead)] == lead
        ids = ids[len(lead) :] if has_lead else token_ids(tokenizer, text, **options)
        if is_text and len(text) > 1 and not tokens.marker_ids.isdisjoint(ids):  # one without the flag is never split
            add(text[0], is_text=True)
            add(text[1:], is_text=True)
        else:
            out.extend(ids)

    for text, is_text in pieces:
        add(text, is_text=is_text)
    return out


def token_ids(tokenizer: Any, text: str, **options: Any) -> list[int]:
    """Return the token ids of ``text``."""
    with _one_at_a_time:
        return list(tokenizer(text, **options)["input_ids"])
