"""The name of a conversation, made from the beginning that all its turns share."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["session_of"]

#: Characters or tokens of a raw prompt that its later turns begin with as well.
_BEGINNING = 100


def session_of(data: bytes) -> str:
    """Return a digest of what the turns of a conversation begin with, up to the user's first message.

    It is "" for what is no request: a replica says what is wrong with it.
    """
    try:
        body = json.loads(data)
        asked = body.get("messages") or body.get("input") or (body.get("prompt") or "")[:_BEGINNING]
        items = [{"role": "user", "content": asked}] if "prompt" in body or isinstance(asked, str) else asked
        first = next((i for i, item in enumerate(items) if item.get("role") == "user"), 0)
        beginning = [body.get("instructions"), *(_text(item.get("content")) for item in items[: first + 1])]
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return ""
    return hashlib.sha256(json.dumps(beginning).encode()).hexdigest()


def _text(content: Any) -> Any:
    """The text of a message, whose parts a client may give on one turn and not on another."""
    is_parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    return "".join(part.get("text", "") for part in content) if is_parts else content
