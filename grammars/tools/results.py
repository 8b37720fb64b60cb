"""Results of tools as the text that a model reads."""

from __future__ import annotations

from typing import Any

import pydantic

__all__ = ["result_text"]

_ANY: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)


def result_text(value: Any) -> str:
    """Return text as it is, the texts of an MCP result, and every other value as JSON, odd ones by their ``str``."""
    if isinstance(value, str):
        return value
    parts = getattr(value, "content", None)
    failed = getattr(value, "isError", getattr(value, "is_error", None))
    if isinstance(parts, list) and isinstance(failed, bool):
        texts = "\n".join(str(getattr(part, "text", part)) for part in parts)
        return f"Error: {texts}" if failed else texts
    try:
        return _ANY.dump_json(value, by_alias=True, fallback=str).decode()
    except ValueError:  # a circle, or a text that is no Unicode
        return str(value)
