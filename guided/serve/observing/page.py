"""The page of a server: one file, the stream of what it shows, and the trace of an answer of its playground."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from guided.hf.completing import ChatForm
from guided.output.message import Message
from guided.serve.observing.records import UPDATE_S

__all__ = ["PAGE_HEADERS", "TraceForm", "page", "updates"]

#: Nothing is loaded from elsewhere, and nothing may frame the page.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@cache
def page() -> str:
    """Return the page, which shows nothing by itself."""
    return files("guided.serve.observing").joinpath("page.html").read_text(encoding="utf-8")


async def updates(update: Callable[[int], dict[str, Any]], is_over: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield the frames of an event stream until all ``is_over``; ``update`` gets the number of known ended requests."""
    since = 0
    while True:
        data = update(since)
        since = data["num_ended"]
        yield f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
        if is_over():
            return
        await asyncio.sleep(UPDATE_S)


class TraceForm(ChatForm):
    """The objects of Chat Completions, with the page of the answer's trace."""

    def whole(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the ``chat.completion``, with the key ``trace``."""
        return super().whole(messages) | {"trace": _trace(messages)}

    def last(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the chunks that end the choices, then the trace."""
        return [*super().last(messages), {"object": "guided.trace", "trace": _trace(messages)}]


def _trace(messages: Sequence[Message]) -> str | None:
    trace = messages[0].trace
    return trace.to_html() if trace is not None else None
