"""A conversation on the terminal, kept in a file as the body of a request."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guided.cli.answer import EventPrinter, show_message
from guided.cli.consoles import err, out
from guided.cli.inputs import parse_json, read_text
from guided.output.trace_records import check_writable
from special_tokens.errors import GuidedError, RequestError

__all__ = ["ChatFile", "talk"]


@dataclass
class ChatFile:
    """The messages of one chat and the file that holds them, written after each answer."""

    path: Path
    messages: list[dict[str, Any]]

    @classmethod
    def open(cls, path: Path, system: str | None) -> ChatFile:
        """Return the chat in ``path``, or a new one; raises `RequestError` for a file that holds none."""
        check_writable(path, "file")
        if not path.exists():
            return cls(path, [{"role": "system", "content": system}] if system else [])
        if system:
            raise RequestError("a system message for a chat that has begun", place="--system", hint="name a new file")
        body = parse_json(read_text(path, "file"), f"file {path}")
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            raise RequestError("the file holds no chat", place=f"file {path}", expected='{"messages": [...]}')
        return cls(path, body["messages"])

    def add(self, *messages: dict[str, Any]) -> None:
        """Add messages and write the file."""
        self.messages += messages
        text = json.dumps({"messages": self.messages}, ensure_ascii=False, indent=1)
        self.path.write_text(text + "\n", encoding="utf-8")


def talk(guide: Any, plan: Any, chat: ChatFile, sampling: dict[str, Any]) -> None:
    """Answer line after line, until the input ends or says /quit.  Ctrl-C ends an answer, which is not kept."""
    err.print(f"{chat.path}: {len(chat.messages)} messages; /quit or Ctrl-D ends", style="dim")
    while (line := _line()) is not None:
        if not line.strip():
            continue
        asked, stream = {"role": "user", "content": line}, None
        try:
            stream = guide.stream([*chat.messages, asked], plan, **sampling)
            printer = EventPrinter(out, response=plan.response is not None, aside=err)
            for event in stream:
                printer(event)
            printer.close()
        except KeyboardInterrupt:
            if stream is not None:
                stream.close()
            out.print()
            err.print("left out", style="dim")
            continue
        except GuidedError as error:  # a chat that the template refuses, or that is too long
            err.print(str(error), style="bold red", markup=False)
            continue
        show_message(err, stream.message)
        chat.add(asked, stream.message.to_chat())


def _line() -> str | None:
    """Return the next line of the input; None at its end."""
    try:
        if sys.stdin.isatty():
            import readline  # noqa: F401  # editing and history

            line = input("> ")
        else:
            line = sys.stdin.readline()
            if not line:
                return None
    except (EOFError, KeyboardInterrupt):
        return None
    return None if line.strip() == "/quit" else line.rstrip("\n")
