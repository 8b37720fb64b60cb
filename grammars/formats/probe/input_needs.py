"""What a template wants of messages, found by trying: roles, parts, arguments, tools, results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.values.format import InputNeeds
from grammars.formats.probe.renderings import Asking, Renderings

__all__ = ["read_inputs", "text_beside_calls", "tools_argument"]


def read_inputs(
    renderings: Renderings,
    plain: Asking,
    calling: Asking | None,
    texts: CallTexts | None,
    given_as: str,
    thought: str,
    end: str,
    *,
    template: str,
) -> InputNeeds:
    """The needs of a template; ``thought`` is what opens its reasoning, ``end`` what ends an answer."""
    asking = calling or plain
    tools_as, tools_are_text = tools_argument(renderings, plain, template)
    kwargs = {key: value for key, value in asking.plain.items() if key not in ("tools", "functions")}
    if "tools" in plain.plain:
        kwargs["tools"] = []
    return InputNeeds(
        arguments="string" if asking.arguments == "string" else "object",
        content_of_calls="none" if asking.content is None else "empty",
        content_parts=plain.parts or _takes_parts(renderings, plain),
        content_as="parts" if plain.parts else "text",
        developer_role="developer" in template and _shows_role(renderings, plain, "developer"),
        system_role=_shows_role(renderings, plain, "system"),
        tools="native" if tools_as else "described",
        tool_calls="native" if calling is not None else "described",
        tool_results="native" if texts is not None and s.RESULT in (texts.answered or "") else "described",
        kwargs=tuple(sorted(kwargs.items())),
        tools_as=tools_as or "tools",
        tools_are_text=tools_are_text,
        reasoning_as=given_as,
        text_beside_calls=text_beside_calls(texts, thought, end),
    )


_TOOLS_WORD = re.compile(r"(?<![\w.'\"\[])(?:\w*tools|functions)\b")


def tools_argument(renderings: Renderings, plain: Asking, template: str) -> tuple[str, bool]:
    """The argument through which the prompt comes to name the tools, and whether as JSON text; "" where none does."""
    base = {key: value for key, value in plain.plain.items() if key not in ("tools", "functions")}
    names = dict.fromkeys(["tools", *sorted(set(_TOOLS_WORD.findall(template)))])
    functions = json.dumps([tool["function"] for tool in s.TOOLS])
    for name in names:
        for value in (list(s.TOOLS), functions):
            shown = renderings.prompt(replace(plain, plain=base), **{name: value})
            if shown is not None and s.NAME in shown:
                return name, isinstance(value, str)
    return "", False


def _takes_parts(renderings: Renderings, plain: Asking) -> bool:
    text = _with_user(renderings, plain, [{"type": "text", "text": s.USER}])
    return text is not None and s.USER in text and '"type"' not in text and "'type'" not in text


def _with_user(renderings: Renderings, plain: Asking, content: Any) -> str | None:
    messages = [*([s.system()] if plain.system else []), {"role": "user", "content": content}]
    return renderings.text(messages, add_generation_prompt=True, **plain.plain)


def _shows_role(renderings: Renderings, plain: Asking, role: str) -> bool:
    messages = [plain.shaped(message) for message in ({"role": role, "content": s.SYSTEM}, s.user())]
    text = renderings.text(messages, add_generation_prompt=True, **plain.plain)
    return text is not None and s.SYSTEM in text and s.USER in text


def text_beside_calls(
    texts: CallTexts | None, thought: str, end: str
) -> Literal["kept", "dropped", "after", "instead", "thought", "apart"]:
    """What becomes of text in a message that has calls too."""
    text = texts.beside if texts is not None else None
    if text is None or s.TEXT not in text:
        return "dropped" if texts is not None else "kept"
    if s.NAME not in text:
        return "instead"
    if thought and text[: text.index(s.TEXT)].endswith(thought):
        return "thought"
    if text.index(s.TEXT) > text.index(s.NAME):
        return "after"
    return "apart" if end and end in text[text.index(s.TEXT) : text.index(s.NAME)] else "kept"
