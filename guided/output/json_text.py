"""Read JSON text, and report faults that most parsers ignore: duplicate keys, and numbers that overflow."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["read_json"]


def read_json(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a JSON text, and its faults: a duplicate key, a number too large for a double.

    Raises `ValueError` for invalid JSON, ``NaN`` and ``Infinity`` included.
    """
    faults: dict[str, None] = {}

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(members)
        if len(value) < len(members):
            keys = [key for key, _ in members]
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            faults[f"JSON: the key {json.dumps(twice[:100], ensure_ascii=False)} is written twice in one object"] = None
        return value

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            faults[f"JSON: the number {digits[:100]} is larger than a double can be"] = None
        return value

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is not a JSON value")

    value = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)
    return value, tuple(faults)
