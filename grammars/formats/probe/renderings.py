"""Render conversations with a template, and find the form in which it accepts them.

Nothing here is specific to a family.  A `Probe` is a form in which the template renders conversations at all: how tools
are passed, whether a system message is needed, arguments as objects or as text, the content of a message with calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from grammars.formats.probe import samples as s
from special_tokens.errors import TemplateError

__all__ = ["Probe", "Renderings"]

ChatMessage = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Probe:
    """A form of conversations; ``base_kwargs`` are the template arguments that are needed even without tools."""

    base_kwargs: Mapping[str, Any] = field(default_factory=dict)
    system: bool = False
    tools: str = "tools"  #: the template argument that takes tools; "" if there is none
    arguments: str = "object"  #: ``object`` or ``string``
    content: str | None = ""  #: the content of a message with calls
    id_style: str = ""  #: "" for free ids, else the pattern that ids must follow
    parts: bool = False  #: every content must be a list of parts

    def shaped(self, message: ChatMessage) -> dict[str, Any]:
        """A message with its content in the form that the template accepts."""
        content = message.get("content")
        if not self.parts or not isinstance(content, str):
            return dict(message)
        return {**message, "content": [{"type": "text", "text": content}]}

    def opening(self) -> list[dict[str, Any]]:
        """The messages with which every conversation begins."""
        return [*([s.system()] if self.system else []), s.user()]

    def tool_arguments(self) -> dict[str, Any]:
        """The template arguments with which a prompt shows the sample tools."""
        if self.tools == "tools":
            return {**self.base_kwargs, "tools": list(s.TOOLS)}
        if self.tools:
            functions = [tool["function"] for tool in s.TOOLS]
            return {**self.base_kwargs, self.tools: json.dumps(functions)}
        return dict(self.base_kwargs)

    def call(self, name: str, arguments: Mapping[str, Any], index: int) -> dict[str, Any]:
        """A call in the form that the template accepts."""
        given: Any = dict(arguments)
        if self.arguments == "string":
            given = json.dumps(given, ensure_ascii=False)
        call_id = (s.ID, s.OTHER_ID, s.THIRD_ID)[index]
        if self.id_style:
            call_id = self.id_style.replace("$name", name).replace("$index", str(index))
        return s.call(name, given, call_id)


class Renderings:
    """Renders conversations with one template and caches the results.

    ``render`` takes messages and template arguments and returns text; a `TemplateError` means that the template cannot
    render the conversation.
    """

    def __init__(self, render: Callable[..., str]) -> None:
        self._render = render
        self._rendered: dict[str, str | None] = {}
        self.errors: list[str] = []
        self.why_no_calls = ""  #: set when `call_probe` has found none

    def text(self, messages: Sequence[ChatMessage], **kwargs: Any) -> str | None:
        """The whole rendering; None if the template raises an error."""
        key = json.dumps([messages, kwargs], default=str)
        if key not in self._rendered:
            try:
                self._rendered[key] = self._render([dict(message) for message in messages], **kwargs)
            except TemplateError as error:
                self._rendered[key] = None
                self.errors.append(error.message)
        return self._rendered[key]

    def turn(self, probe: Probe, *after: ChatMessage, tools: bool = False, **kwargs: Any) -> str | None:
        """The text after the user's message in a conversation that continues with ``after``; None on failure."""
        shown = probe.tool_arguments() if tools else dict(probe.base_kwargs)
        messages = [probe.shaped(message) for message in (*probe.opening(), *after)]
        text = self.text(messages, **{"add_generation_prompt": not after, **shown, **kwargs})
        if text is None or s.USER not in text:
            return None
        return text[text.rindex(s.USER) + len(s.USER) :]

    def turn_of_two(self, probe: Probe) -> tuple[str, str] | None:
        """The text between an answer and the next user message, and the text after that; None on failure."""
        text = self.turn(probe, s.assistant(s.ANSWER), s.user(s.NEXT))
        if text is None or s.ANSWER not in text or s.NEXT not in text:
            return None
        between = text[text.index(s.ANSWER) + len(s.ANSWER) :]
        return between[: between.index(s.NEXT)], between[between.index(s.NEXT) + len(s.NEXT) :]

    def prompt(self, probe: Probe, **kwargs: Any) -> str | None:
        """The whole generation prompt after one user message."""
        messages = [probe.shaped(message) for message in probe.opening()]
        return self.text(messages, add_generation_prompt=True, **{**probe.base_kwargs, **kwargs})

    # -- finding a probe

    def plain_probe(self) -> Probe:
        """The simplest form in which the template renders a user message.

        Raises `TemplateError` with the template's first error if there is none.
        """
        wanted: list[dict[str, Any]] = [
            {},
            {"tools": []},
            {"tools": list(s.TOOLS)},
            {"functions": "[]", "datetime": "2024-01-01"},
        ]
        for parts, plain, system in product((False, True), wanted, (False, True)):
            probe = Probe(base_kwargs=plain, system=system, parts=parts)
            if self.turn(probe) is not None:
                return probe
        raise TemplateError(
            f"the chat template renders no plain message: {self.errors[0] if self.errors else 'it drops the text'}",
            place="chat_template",
            hint="give the tokenizer a template that writes user messages",
        )

    def call_probe(self, plain: Probe) -> Probe | None:
        """The first form in which the template writes a call with its arguments; None if it never does.

        ``why_no_calls`` then states the reason.
        """
        unread, before, renders = "", len(self.errors), False
        for probe in _call_probes(plain):
            text = self.turn(probe, self.calling(probe, [(s.NAME, s.BOTH)]), tools=True)
            if text is not None and _is_plainly_written(text):
                return probe
            unread, renders = unread or _excerpt(text or ""), renders or text is not None
        self.why_no_calls = "the chat template never writes tool calls"
        if unread:
            self.why_no_calls = f"the chat template writes tool calls in a form that is not recognised: {unread!r}"
        elif not renders and len(self.errors) > before:
            self.why_no_calls += f": {self.errors[before]}"
        return None

    def calling(
        self, probe: Probe, calls: Sequence[tuple[str, Mapping[str, Any]]], content: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """An assistant's message with these calls."""
        made = [probe.call(name, arguments, i) for i, (name, arguments) in enumerate(calls)]
        return s.assistant(content if content is not None else probe.content, tool_calls=made, **fields)


def _call_probes(plain: Probe) -> Iterator[Probe]:
    for id_style, system, tools, arguments, content in product(
        ("", "functions.$name:$index"),
        (plain.system, True),
        ("tools", "functions", ""),
        ("object", "string"),
        ("", None),
    ):
        base = dict(plain.base_kwargs)
        if tools == "functions":
            base = {"datetime": "2024-01-01"}
        elif tools and "tools" in base:
            base = {key: value for key, value in base.items() if key != "tools"}
        probe = replace(plain, system=system, tools=tools, arguments=arguments, content=content, id_style=id_style)
        yield replace(probe, base_kwargs=base if tools else plain.base_kwargs)


_EXCERPT_LENGTH = 120  # characters


def _excerpt(text: str) -> str:
    """An excerpt of a rendering around the sample call's name, or else an argument; "" if neither occurs."""
    at = next((text.find(word) for word in (s.NAME, s.WORD) if word in text), -1)
    if at < 0:
        return ""
    begin = max(text.rfind("\n", 0, at) + 1, at - _EXCERPT_LENGTH // 4)
    return text[begin : begin + _EXCERPT_LENGTH]


def _is_plainly_written(text: str) -> bool:
    """Whether name, key and values occur as a model would write them: not as JSON in a string, not as Python."""
    if not all(word in text for word in (s.NAME, s.KEYS[0], s.WORD, str(s.NUMBER))):
        return False
    before = text[: text.index(s.KEYS[0])]
    return not before.endswith(('\\"', "{'"))
