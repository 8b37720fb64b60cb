"""Patterns of dates within limits, as pydantic's bounds of dates and times say them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

__all__ = ["within"]


def within(json_schema: dict[str, Any], limits: Sequence[tuple[str, datetime.date]]) -> dict[str, Any]:
    """Return ``json_schema`` with the patterns of dates within the limits."""
    day = datetime.timedelta(days=1)
    patterns = []
    for name, limit in limits:
        text = (limit + {"gt": day, "lt": -day}.get(name, 0 * day)).isoformat()
        patterns.append({"pattern": f"^(?:{_ordered(text, upwards=name in ('gt', 'ge'))})"})
    return {**json_schema, "allOf": patterns} if patterns else json_schema


def _ordered(text: str, *, upwards: bool) -> str:
    """Return the beginnings of dates that come after ``text`` (or before it), and the text itself."""
    options = [text]
    for at, char in enumerate(text):
        low, high = (int(char) + 1, 9) if upwards and char != "-" else (0, int(char) - 1) if char != "-" else (1, 0)
        if low <= high:
            options.append(f"{text[:at]}[{low}-{high}]")
    return "|".join(options)
