"""An answer on the terminal, while it is written."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from guided.cli.consoles import REGION_STYLES, show_error
from guided.output.message import AnswerEnd, Message
from guided.output.parser import ContentDelta, Event, ReasoningDelta, ToolCallArguments, ToolCallEnd, ToolCallStart

__all__ = ["EventPrinter", "show_message"]


class EventPrinter:
    """Prints events as they come, each region in its colour; reasoning on ``aside``, by default the same console.

    On a console that is not a terminal, text is written as it is and each call is a line of JSON with its name and
    arguments.
    """

    def __init__(self, console: Console, *, response: bool = False, aside: Console | None = None) -> None:
        self._console, self._aside = console, aside or console
        self._content_style = REGION_STYLES["response" if response else "content"]
        self._last: type[Event] | None = None
        self._call: tuple[str, str] | None = None  # name and arguments, as far as written
        self._at_line_start = True

    def __call__(self, event: Event | AnswerEnd) -> None:
        if isinstance(event, AnswerEnd):
            return
        if self._last is ReasoningDelta and not isinstance(event, ReasoningDelta):
            self._write("\n\n", "", self._aside)
        match event:
            case ReasoningDelta(text=text):
                self._write(text, REGION_STYLES["reasoning"], self._aside)
            case ContentDelta(text=text):
                self._write(text, self._content_style)
            case ToolCallStart(name=name) if self._console.is_terminal:
                self._write(f"{name}(", "bold cyan")
            case ToolCallArguments(text=text) if self._console.is_terminal:
                self._write(text, REGION_STYLES["tool_calls"])
            case ToolCallEnd() if self._console.is_terminal:
                self._write(")\n", "bold cyan")
            case ToolCallStart(name=name):
                self._end_line()
                self._call = (name, "")
            case ToolCallArguments(text=text) if self._call is not None:
                self._call = (self._call[0], self._call[1] + text)
            case ToolCallEnd() if self._call is not None:
                self._write(_call_json(*self._call), "")
        self._last = type(event)

    def close(self) -> None:
        """End the last line."""
        if self._last is ReasoningDelta:
            self._write("\n", "", self._aside)
        self._end_line()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n", "")

    def _write(self, text: str, style: str, console: Console | None = None) -> None:
        console = console or self._console
        if console is self._console and text:
            self._at_line_start = text.endswith("\n")
        if console.is_terminal:
            console.print(Text(text, style=style), end="", soft_wrap=True)
        else:
            console.file.write(text)
            console.file.flush()


def _call_json(name: str, arguments: str) -> str:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):  # a custom tool takes text
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}\n'


def show_message(console: Console, message: Message) -> None:
    """Violations, the error, why it was cut and where it landed, if so, then one line of numbers."""
    refused = (message.parse_error.message,) if message.parse_error is not None else ()
    for violation in (*message.violations, *refused):
        console.print(Text(f"not valid: {violation}", style="red"))
    if message.error is not None:
        show_error(console, message.error)
    for note in message.notes if message.finish_reason == "length" else ():
        console.print(Text(note, style="yellow"))
    if message.landed is not None:
        console.print(Text(f"landed: from token {message.landed} on the budget decided as well", style="yellow"))
    usage, guidance = message.usage, message.guidance
    console.print(
        f"[dim]{message.finish_reason} | {usage.completion_tokens} tokens ({usage.reasoning_tokens} reasoning) | "
        f"{guidance.overridden} of {guidance.masks} steps changed by guidance[/dim]"
    )
