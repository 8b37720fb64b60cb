"""Copies of JSON values, so that a plan does not change when its caller's schema does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["json_copy"]


def json_copy(value: Any) -> Any:
    """The value with every list and object in it made anew; a value nested too deeply raises `RecursionError`."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: item if type(item) in _SCALARS else json_copy(item) for key, item in value.items()}
    return [json_copy(item) for item in value] if isinstance(value, list) else value


_SCALARS = frozenset({str, int, float, bool, type(None)})
