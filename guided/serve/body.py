"""The bytes of a request's body, within the limit."""

from __future__ import annotations

from starlette.requests import Request

from guided.serve.refusals import TooLarge

__all__ = ["read_body"]


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
