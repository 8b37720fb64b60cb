"""The client's side of a request: the bytes of its body, and chunks as server-sent events while someone reads them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from guided.serve.refusals import TooLarge
from special_tokens.errors import http_error

__all__ = [
    "DONE",
    "STREAM_HEADERS",
    "ChunkLists",
    "EventStream",
    "error_frames",
    "error_response",
    "read_body",
    "until_gone",
]

log = logging.getLogger("guided.serve")

T = TypeVar("T")

#: Chunks as they come, several at once.
ChunkLists: TypeAlias = AsyncGenerator[list[dict[str, Any]], None]

DONE = "data: [DONE]\n\n"

#: Seconds after which a client may try again, by status.
_RETRY_AFTER = {429: "1", 503: "5"}

STREAM_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def read_body(request: Request, most: int) -> bytes:
    """Return the bytes of the body; raise `TooLarge` as soon as there are more than ``most``, or are said to be."""
    said = request.headers.get("content-length", "")
    data = bytearray()
    if not (said.isdecimal() and int(said[:20]) > most):
        async for part in request.stream():
            data += part
            if len(data) > most:
                break
        else:
            return bytes(data)
    raise TooLarge("the body is too large", place="body", expected=f"at most {most:,} bytes")


async def until_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns; cancel it and raise `ClientDisconnect` when the client goes before."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


class EventStream:
    """A streamed answer that has begun, as an ASGI application; ``chunks`` are closed when the client goes.

    ``note`` is called with an error and its status, ``on_end`` once, whatever ends the stream; ``ends`` is the last
    text.
    """

    def __init__(
        self,
        chunks: ChunkLists,
        note: Callable[[BaseException, int], None],
        *,
        ends: str = DONE,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._chunks = chunks
        self._note = note
        self._ends = ends
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(receive, self._sent(send))
        except (ClientDisconnect, OSError):
            log.debug("a client has gone")
        finally:
            self._on_end()

    async def _sent(self, send: Send) -> None:
        headers = [(name.lower().encode(), value.encode()) for name, value in STREAM_HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        end = self._ends
        try:
            async with aclosing(self._chunks) as lists:
                async for chunks in lists:
                    body = "".join(map(_frame, chunks)).encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        except OSError:  # of the connection
            raise
        except Exception as error:
            self._note(error, http_error(error)[0])
            end = error_frames(error, is_named=not self._ends)
        await send({"type": "http.response.body", "body": end.encode()})


def _frame(chunk: dict[str, Any]) -> str:
    event = f"event: {chunk['type']}\n" if "type" in chunk else ""
    return f"{event}data: {json.dumps(chunk)}\n\n"


def error_frames(error: BaseException, *, is_named: bool) -> str:
    """Return the last frames of a stream that ``error`` breaks off; Responses names its events."""
    return f"{'event: error' * is_named}\ndata: {json.dumps(http_error(error)[1])}\n\n{DONE}".lstrip()


def error_response(error: BaseException) -> JSONResponse:
    """Return the answer to a request that ``error`` ends before it has one."""
    status, body = http_error(error)
    headers = {"Retry-After": _RETRY_AFTER[status]} if status in _RETRY_AFTER else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)
