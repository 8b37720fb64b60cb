"""Python values as plain JSON, and results of tools as the text that a model reads."""

from __future__ import annotations

from typing import Any

import pydantic_core

__all__ = ["plain_value", "result_text"]


def plain_value(value: Any) -> Any:
    """Return the JSON value that a Python value is written as: models by alias, odd values by their ``str``."""
    return pydantic_core.to_jsonable_python(value, by_alias=True, fallback=str)


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
        return pydantic_core.to_json(value, by_alias=True, fallback=str).decode()
    except ValueError:  # a circle, or a text that is not Unicode
        return str(value)
