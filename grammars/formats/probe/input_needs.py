"""Find by trial which messages a template accepts: roles, content parts, arguments, tools, results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.sample_calls import CallTexts
from grammars.values.format import InputNeeds

__all__ = ["read_inputs", "text_beside_calls"]


def read_inputs(
    renderings: Renderings,
    plain: Probe,
    calling: Probe | None,
    texts: CallTexts | None,
    reasoning_as: str,
    reasoning_start: str,
    end: str,
    *,
    template: str,
) -> InputNeeds:
    """The needs of a template; ``reasoning_start`` opens its reasoning, ``end`` ends an answer."""
    probe = calling or plain
    tools_as, tools_are_text = _tools_argument(renderings, plain, template)
    kwargs = {key: value for key, value in probe.base_kwargs.items() if key not in ("tools", "functions")}
    no_tools: dict[str, Any] = {"tools": [], "functions": "[]"}
    kwargs |= {name: none for name, none in no_tools.items() if name in plain.base_kwargs}
    return InputNeeds(
        arguments="string" if probe.arguments == "string" else "object",
        content_of_calls="none" if probe.content is None else "empty",
        content_as="parts" if plain.parts else "text",
        developer_role="developer" in template and _shows_role(renderings, plain, "developer"),
        system_role=_shows_role(renderings, plain, "system"),
        tools="native" if tools_as else "described",
        tool_calls="native" if calling is not None else "described",
        tool_results="native" if texts is not None and s.RESULT in (texts.answered or "") else "described",
        kwargs=tuple(sorted(kwargs.items())),
        tools_as=tools_as or "tools",
        tools_are_text=tools_are_text,
        reasoning_as=reasoning_as,
        text_beside_calls=text_beside_calls(texts, reasoning_start, end),
    )


_TOOLS_WORD = re.compile(r"(?<![\w.'\"\[])(?:\w*tools|functions)\b")


def _tools_argument(renderings: Renderings, plain: Probe, template: str) -> tuple[str, bool]:
    """The template argument that makes the prompt show tools ("" if none does), and whether it takes JSON text."""
    base = {key: value for key, value in plain.base_kwargs.items() if key not in ("tools", "functions")}
    names = dict.fromkeys(["tools", *sorted(set(_TOOLS_WORD.findall(template)))])
    functions = json.dumps([tool["function"] for tool in s.TOOLS])
    for name in names:
        for value in (list(s.TOOLS), functions):
            shown = renderings.prompt(replace(plain, base_kwargs=base), **{name: value})
            if shown is not None and s.NAME in shown:
                return name, isinstance(value, str)
    return "", False


def _shows_role(renderings: Renderings, plain: Probe, role: str) -> bool:
    messages = [plain.shaped(message) for message in ({"role": role, "content": s.SYSTEM}, s.user())]
    text = renderings.text(messages, add_generation_prompt=True, **plain.base_kwargs)
    return text is not None and s.SYSTEM in text and s.USER in text


def text_beside_calls(
    texts: CallTexts | None, reasoning_start: str, end: str
) -> Literal["kept", "dropped", "after", "instead", "thought", "apart"]:
    """Return whether and where the template renders the text of a message with calls."""
    text = texts.with_text if texts is not None else None
    if text is None or s.TEXT not in text:
        return "dropped" if texts is not None else "kept"
    if s.NAME not in text:
        return "instead"
    if reasoning_start and text[: text.index(s.TEXT)].endswith(reasoning_start):
        return "thought"
    if text.index(s.TEXT) > text.index(s.NAME):
        return "after"
    return "apart" if end and end in text[text.index(s.TEXT) : text.index(s.NAME)] else "kept"
