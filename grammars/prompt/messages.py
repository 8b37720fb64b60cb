"""Clients' messages, converted to the form that a template needs.

Clients send what OpenAI's API accepts: ``content: null`` with calls, arguments as JSON text, content as a list of
parts, the role ``developer``, results that name their call by id.  Templates need other forms (`InputNeeds`), and
raise or, worse, render something wrong silently where they get another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from grammars.tool_calls.names import make_id
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tools.parameters import CUSTOM_INPUT
from grammars.values.format import Format, InputNeeds
from grammars.values.tool import Call, Tool
from special_tokens.errors import RequestError, TemplateError, shown

__all__ = ["messages_for", "template_arguments"]

_Message: TypeAlias = dict[str, Any]

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_SYSTEM = ("system", "developer")


def messages_for(
    messages: Sequence[Mapping[str, Any]], format: Format, tools: Iterable[Tool] = (), *, system_text: str = ""
) -> list[_Message]:
    """Return the messages as this format's template takes them; the caller's own are not changed.

    ``system_text`` comes at the end of the system message, which is added where none begins the conversation.  Raises
    `RequestError` for a value that is not a message or content that is not a text, `TemplateError` for calls that the
    template cannot show.
    """
    read = [_read(message, f"messages[{i}]") for i, message in enumerate(messages)]
    if system_text and read and read[0].role in _SYSTEM:
        whole = f"{read[0].content}\n\n{system_text}" if read[0].content else system_text
        read[0] = replace(read[0], content=whole)
    elif system_text:
        read.insert(0, _Read("system", system_text))
    writer = _ConversationWriter(format, {tool.name: tool for tool in tools})
    made = _without_system(writer.write(read), format.inputs)
    return [_in_parts(message) for message in made] if format.inputs.content_as == "parts" else made


def _in_parts(message: _Message) -> _Message:
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def template_arguments(format: Format, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the template arguments that rendering needs, tools among them where the template shows tools."""
    needs = format.inputs
    arguments = dict(needs.kwargs)
    if tools and needs.tools == "native":
        shown: Any = [tool.to_openai() for tool in tools]
        if needs.tools_are_text:
            shown = json.dumps([tool["function"] for tool in shown], ensure_ascii=False)
        arguments[needs.tools_as] = shown
    return arguments


# -- reading what clients send


@dataclass(frozen=True, slots=True)
class _Read:
    """One message, in whichever form it was sent."""

    role: str
    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    name: str = ""
    other: Mapping[str, Any] = field(default_factory=dict)


_TAKEN = {"role", "content", "tool_calls", "function_call", "tool_call_id", "name", *_REASONING_FIELDS}


def _read(message: Any, place: str) -> _Read:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RequestError("this is not a message", place=place, expected='an object with a "role"')
    role = "tool" if message["role"] == "function" else message["role"]
    content, thought = _content(message.get("content"), f"{place}.content")
    given = next((message[key] for key in _REASONING_FIELDS if isinstance(message.get(key), str)), "")
    return _Read(
        role,
        content,
        reasoning=given or thought,
        calls=tuple(_calls(message, place)),
        call_id=str(message.get("tool_call_id") or ""),
        name=str(message.get("name") or ""),
        other={key: value for key, value in message.items() if key not in _TAKEN and value is not None},
    )


def _content(content: Any, place: str) -> tuple[str, str]:
    """The text of a message's content, and the reasoning among its parts."""
    if content is None or isinstance(content, str):
        return content or "", ""
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False), ""
    if not isinstance(content, list | tuple):
        raise RequestError(f"content is {type(content).__name__}", place=place, expected="text or a list of parts")
    texts: list[str] = []
    thoughts: list[str] = []
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "thinking":
            texts.append(_part_text(part, f"{place}[{i}]"))
            continue
        thought = part.get("thinking") or ""
        pieces = thought if isinstance(thought, list | tuple) else [thought]  # Mistral's own form has parts again
        thoughts += [_part_text(piece, f"{place}[{i}].thinking[{j}]") for j, piece in enumerate(pieces)]
    return "\n".join(text for text in texts if text), "".join(thoughts)


def _part_text(part: Any, place: str) -> str:
    """The text of a part; raises `RequestError` for an image, a file, sound, or a text of another type."""
    kind: Any = type(part).__name__
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        kind = part.get("type")
        text = part.get("text", part.get("refusal"))
        if kind in ("text", "input_text", "output_text", "refusal", None) and isinstance(text, str):
            return text
    raise RequestError(
        f"a part of type {shown(kind)} without text", place=place, expected='text, or {"type": "text", "text": ...}'
    )


def _calls(message: Mapping[str, Any], place: str) -> Iterable[Call]:
    given = message.get("tool_calls") or ()
    if not given and isinstance(message.get("function_call"), Mapping):
        given = [{"type": "function", "function": message["function_call"]}]
    if not isinstance(given, list | tuple):
        raise RequestError(f"{type(given).__name__} is not a list", place=f"{place}.tool_calls", expected="calls")
    for i, call in enumerate(given):
        where = f"{place}.tool_calls[{i}]"
        if not isinstance(call, Mapping):
            raise RequestError("this is not a call", place=where, expected="an object")
        body = call.get("function") or call.get("custom") or call
        if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
            raise RequestError("the call has no name", place=where, expected='{"function": {"name": ...}}')
        yield Call(body["name"], _arguments(body, where), str(call.get("id") or ""))


def _arguments(body: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    if "input" in body and "arguments" not in body:  # a custom tool's text
        return {CUSTOM_INPUT: body["input"]}
    arguments = body.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise RequestError(
                f"the arguments are not JSON: {error}",
                place=f"{place}.function.arguments",
                expected="a JSON object",
                hint="a call that was cut off cannot go into the history",
            ) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise RequestError(
            f"the arguments are {json.dumps(arguments)}", place=f"{place}.function.arguments", expected="a JSON object"
        )
    return arguments


# -- writing what the template takes


class _ConversationWriter:
    """Writes one conversation; maps clients' call ids to the template's, and counts calls."""

    def __init__(self, format: Format, tools: Mapping[str, Tool]) -> None:
        self.format = format
        self.needs = format.inputs
        self.tools = tools
        self._ids: dict[str, tuple[str, str]] = {}  # the client's id -> the template's, and the function's name
        self._num_calls = 0

    def write(self, messages: Sequence[_Read]) -> list[_Message]:
        out: list[_Message] = []
        for message in self._one_call_each(messages):
            match message.role:
                case "assistant":
                    out.append(self._assistant(message))
                case "tool":
                    self._add_result(out, message)
                case "developer" if not self.needs.developer_role:
                    out.append(self._plain(replace(message, role="system")))
                case _:
                    out.append(self._plain(message))
        return out

    def _one_call_each(self, messages: Sequence[_Read]) -> Iterable[_Read]:
        """One message per call, followed by its result, where a turn can hold one call only."""
        form = self.format.tool_calls
        if form is None or form.max_calls != 1:
            yield from messages
            return
        results = {message.call_id: message for message in messages if message.role == "tool" and message.call_id}
        moved: set[str] = set()  # calls whose results come directly after them
        for message in messages:
            if message.role == "tool" and message.call_id in moved:
                continue
            if len(message.calls) < 2:
                yield message
                continue
            for i, call in enumerate(message.calls):
                single = replace(message, calls=(call,))
                yield single if i == 0 else replace(single, content="", reasoning="")
                if call.id in results:
                    moved.add(call.id)
                    yield results[call.id]

    def _plain(self, message: _Read) -> _Message:
        made: _Message = {"role": message.role, "content": message.content}
        if message.name:
            made["name"] = message.name
        return {**message.other, **made}

    # -- the assistant's messages

    def _assistant(self, message: _Read) -> _Message:
        content, reasoning = self._without_thoughts(message)
        if message.calls and self.needs.tool_calls == "described":
            return self._with_reasoning(message, f"{content}{self._written(message.calls, bool(content))}", reasoning)
        if not message.calls:
            return self._with_reasoning(message, content, reasoning)
        if self.needs.text_beside_calls == "instead":
            content = ""  # the template would drop the calls
        if self.needs.text_beside_calls == "thought" and content and reasoning:
            content, reasoning = "", f"{reasoning}\n\n{content}"
        made = self._with_reasoning(message, content, reasoning)
        if not made["content"] and self.needs.content_of_calls == "none":
            made["content"] = None
        made["tool_calls"] = [self._call(call) for call in message.calls]
        return made

    def _without_thoughts(self, message: _Read) -> tuple[str, str]:
        """Content and reasoning, separated where a client left the reasoning inside the content."""
        content, form = message.content, self.format.reasoning
        if form is None or message.reasoning:
            return content, message.reasoning
        start, end = form.start.strip(), form.end.strip()
        if not end or not content.lstrip().startswith(start) or end not in content:
            return content, ""
        thought, answer = content.lstrip().removeprefix(start).split(end, 1)
        return answer.lstrip("\n"), thought.strip("\n")

    def _with_reasoning(self, message: _Read, content: str, reasoning: str) -> _Message:
        made: _Message = {**message.other, "role": "assistant", "content": content}
        field = self.needs.reasoning_as
        if reasoning and field == "parts":
            text = [{"type": "text", "text": content}] if content else []
            made["content"] = [{"type": "thinking", "thinking": reasoning}, *text]
        elif reasoning and field not in ("", "parts"):
            made[field] = reasoning
        return made

    def _call(self, call: Call) -> _Message:
        call_id = self._id_of(call)
        arguments: Any = dict(call.arguments) if isinstance(call.arguments, Mapping) else call.arguments
        if self.needs.arguments == "string":
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _id_of(self, call: Call) -> str:
        form = self.format.tool_calls
        style = form.id_style if form is not None else ""
        given = call.id or f"call_{self._num_calls}"
        made = make_id(style, call.name, self._num_calls, given) if style else given
        self._ids[given] = (made, call.name)
        self._num_calls += 1
        return made

    def _written(self, calls: Sequence[Call], after_text: bool) -> str:
        """Calls as the model itself writes them, for a template that cannot render calls."""
        form = self.format.tool_calls
        if form is None:
            raise TemplateError("the chat template cannot show tool calls", place="messages", hint="leave them out")
        named = [Call(call.name, call.arguments, self._id_of(call)) for call in calls]
        return (form.gap if after_text else form.gap_without_text) + syntax(form.syntax).render(form, named, self.tools)

    # -- results

    def _add_result(self, out: list[_Message], message: _Read) -> None:
        call_id, name = self._ids.get(message.call_id, (message.call_id, message.name))
        if self.needs.tool_results == "native":
            made: _Message = {**message.other, "role": "tool", "content": message.content, "tool_call_id": call_id}
            out.append(made | ({"name": message.name or name} if message.name or name else {}))
            return
        text = f"<tool_response>\n{message.content}\n</tool_response>"
        if out and out[-1].get("role") == "user" and out[-1].get("_results"):
            out[-1]["content"] += f"\n{text}"
        else:
            out.append({"role": "user", "content": text, "_results": True})


def _without_system(messages: list[_Message], needs: InputNeeds) -> list[_Message]:
    """The messages, with system text in front of the first user's text where the template has no role for it."""
    for message in messages:
        message.pop("_results", None)
    if needs.system_role:
        return messages
    texts = [str(message["content"]) for message in messages if message["role"] in _SYSTEM]
    others = [message for message in messages if message["role"] not in _SYSTEM]
    if not texts:
        return others
    first = next((i for i, message in enumerate(others) if message["role"] == "user"), None)
    if first is None:
        return [{"role": "user", "content": "\n\n".join(texts)}, *others]
    content = "\n\n".join([*texts, others[first]["content"]])
    return [*others[:first], {**others[first], "content": content}, *others[first + 1 :]]
