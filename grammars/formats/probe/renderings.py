"""A template as a thing to ask: what it makes of a conversation, and in which form it wants it.

Nothing here knows a family.  A form of asking (`Asking`) is whatever makes the template render at all: how tools are
passed, whether it wants a system message, arguments as objects or as text, which content stands beside calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from grammars.formats.probe import samples as s
from special_tokens.errors import TemplateError

__all__ = ["Asking", "Renderings"]

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask one template.  ``plain`` are arguments that it needs even without tools."""

    plain: Mapping[str, Any] = field(default_factory=dict)
    system: bool = False
    tools: str = "tools"  #: the argument that shows tools; "" where none does
    arguments: str = "object"  #: ``object`` or ``string``
    content: str | None = ""  #: content beside calls
    id_style: str = ""  #: "" for free ids, else the pattern that they must follow
    parts: bool = False  #: every text must be a list of parts

    def shaped(self, message: Message) -> dict[str, Any]:
        """A message with its text in the form that the template takes."""
        content = message.get("content")
        if not self.parts or not isinstance(content, str):
            return dict(message)
        return {**message, "content": [{"type": "text", "text": content}]}

    def opening(self) -> list[dict[str, Any]]:
        """The messages that every conversation begins with."""
        return [*([s.system()] if self.system else []), s.user()]

    def tool_arguments(self) -> dict[str, Any]:
        """The template's arguments that show the sample tools."""
        if self.tools == "tools":
            return {**self.plain, "tools": list(s.TOOLS)}
        if self.tools:
            functions = [tool["function"] for tool in s.TOOLS]
            return {**self.plain, self.tools: json.dumps(functions)}
        return dict(self.plain)

    def call(self, name: str, arguments: Mapping[str, Any], index: int) -> dict[str, Any]:
        """A call in the form that the template takes."""
        given: Any = dict(arguments)
        if self.arguments == "string":
            given = json.dumps(given, ensure_ascii=False)
        call_id = (s.ID, s.OTHER_ID, s.THIRD_ID)[index]
        if self.id_style:
            call_id = self.id_style.replace("$name", name).replace("$index", str(index))
        return s.call(name, given, call_id)


class Renderings:
    """Renders conversations with one template, each once.

    ``render`` takes messages and the template's arguments and returns text; whatever it raises as `TemplateError`
    counts as "cannot render this".
    """

    def __init__(self, render: Callable[..., str]) -> None:
        self._render = render
        self._known: dict[str, str | None] = {}
        self.errors: list[str] = []
        self.why_no_calls = ""  #: once `call_asking` has found none

    def text(self, messages: Sequence[Message], **kwargs: Any) -> str | None:
        """The whole rendering; None where the template raises."""
        key = json.dumps([messages, kwargs], default=str)
        if key not in self._known:
            try:
                self._known[key] = self._render([dict(message) for message in messages], **kwargs)
            except TemplateError as error:
                self._known[key] = None
                self.errors.append(error.message)
        return self._known[key]

    def turn(self, asking: Asking, *after: Message, tools: bool = False, **kwargs: Any) -> str | None:
        """What follows the user's text in a conversation that goes on with ``after``; None where it fails."""
        shown = asking.tool_arguments() if tools else dict(asking.plain)
        messages = [asking.shaped(message) for message in (*asking.opening(), *after)]
        text = self.text(messages, **{"add_generation_prompt": not after, **shown, **kwargs})
        if text is None or s.USER not in text:
            return None
        return text[text.rindex(s.USER) + len(s.USER) :]

    def turn_of_two(self, asking: Asking) -> tuple[str, str] | None:
        """What stands between an answer and the next user's text, and what follows that one."""
        text = self.turn(asking, s.assistant(s.ANSWER), s.user(s.NEXT))
        if text is None or s.ANSWER not in text or s.NEXT not in text:
            return None
        between = text[text.index(s.ANSWER) + len(s.ANSWER) :]
        return between[: between.index(s.NEXT)], between[between.index(s.NEXT) + len(s.NEXT) :]

    def prompt(self, asking: Asking, **kwargs: Any) -> str | None:
        """The whole generation prompt after one user message."""
        messages = [asking.shaped(message) for message in asking.opening()]
        return self.text(messages, add_generation_prompt=True, **{**asking.plain, **kwargs})

    # -- finding out how to ask

    def plain_asking(self) -> Asking:
        """The simplest form in which the template renders a user's message.

        Raises `TemplateError` with the template's own words where there is none.
        """
        wanted: list[dict[str, Any]] = [
            {},
            {"tools": []},
            {"tools": list(s.TOOLS)},
            {"functions": "[]", "datetime": "2024-01-01"},
        ]
        for parts, plain, system in product((False, True), wanted, (False, True)):
            asking = Asking(plain=plain, system=system, parts=parts)
            if self.turn(asking) is not None:
                return asking
        raise TemplateError(
            f"the chat template renders no plain message: {self.errors[0] if self.errors else 'it drops the text'}",
            place="chat_template",
        )

    def call_asking(self, plain: Asking) -> Asking | None:
        """The first form in which the template writes a call, arguments and all; None where it never does.

        ``why_no_calls`` then says what it does instead.
        """
        unread, before, renders = "", len(self.errors), False
        for asking in _ways_to_call(plain):
            text = self.turn(asking, self.calling(asking, [(s.NAME, s.BOTH)]), tools=True)
            if text is not None and _is_plainly_written(text):
                return asking
            unread, renders = unread or _seen(text or ""), renders or text is not None
        self.why_no_calls = "the chat template never writes tool calls"
        if unread:
            self.why_no_calls = f"the chat template writes tool calls in no shape that is read: {unread!r}"
        elif not renders and len(self.errors) > before:
            self.why_no_calls += f": {self.errors[before]}"
        return None

    def calling(
        self, asking: Asking, calls: Sequence[tuple[str, Mapping[str, Any]]], content: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """An assistant's message with these calls."""
        made = [asking.call(name, arguments, i) for i, (name, arguments) in enumerate(calls)]
        return s.assistant(content if content is not None else asking.content, tool_calls=made, **fields)


def _ways_to_call(plain: Asking) -> Iterator[Asking]:
    for id_style, system, tools, arguments, content in product(
        ("", "functions.$name:$index"),
        (plain.system, True),
        ("tools", "functions", ""),
        ("object", "string"),
        ("", None),
    ):
        base = dict(plain.plain)
        if tools == "functions":
            base = {"datetime": "2024-01-01"}
        elif tools and "tools" in base:
            base = {key: value for key, value in base.items() if key != "tools"}
        asking = replace(plain, system=system, tools=tools, arguments=arguments, content=content, id_style=id_style)
        yield replace(asking, plain=base if tools else plain.plain)


_SEEN = 120  # characters shown of calls that are not read


def _seen(text: str) -> str:
    """What a rendering holds of the sample call: the name, or else an argument, and what stands around it."""
    at = next((text.find(word) for word in (s.NAME, s.WORD) if word in text), -1)
    if at < 0:
        return ""
    begin = max(text.rfind("\n", 0, at) + 1, at - _SEEN // 4)
    return text[begin : begin + _SEEN]


def _is_plainly_written(text: str) -> bool:
    """Do name, keys and values stand there, as a model would write them: not as a string in a string, not as Python?"""
    if not all(word in text for word in (s.NAME, s.KEYS[0], s.WORD, str(s.NUMBER))):
        return False
    before = text[: text.index(s.KEYS[0])]
    return not before.endswith(('\\"', "{'"))
