"""Formats of structural tags."""

from __future__ import annotations

from typing import Any

__all__ = ["FREE", "const", "json_of", "of", "regex", "tag"]

FREE: dict[str, Any] = {"type": "any_text"}


def const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def regex(pattern: str) -> dict[str, Any]:
    return {"type": "regex", "pattern": pattern}


def json_of(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema, **more}


def tag(begin: str, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


#: Where formats of several parts hold them; all others hold one content.
_PARTS = {"triggered_tags": "tags", "tags_with_separator": "tags", "dispatch": "rules"}
_PARTS |= dict.fromkeys(("sequence", "or"), "elements")


def of(kind: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """Return a format of others: sequences, options, tags and rules have several parts, repeats one."""
    return {"type": kind, **({_PARTS[kind]: list(parts)} if kind in _PARTS else {"content": parts[0]}), **more}
