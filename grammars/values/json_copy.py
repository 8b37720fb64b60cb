"""Copies of JSON values, so that a plan does not change when its caller's schema does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["json_copy"]


def json_copy(value: Any) -> Any:
    """Return a deep copy of ``value``; a value nested too deeply raises `RecursionError`.

    Subclasses of strings and numbers (an ``IntEnum``, numpy's ``float64``) become plain strings and numbers: not every
    validator accepts them.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {
            key if type(key) is str else json_copy(key): item if type(item) in _SCALARS else json_copy(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [json_copy(item) for item in value]
    plain = next((scalar for scalar in (str, int, float) if isinstance(value, scalar)), None)
    return value if plain is None else getattr(plain, _READ[plain])(value)


_SCALARS = frozenset({str, int, float, bool, type(None)})
#: The method of a plain type that returns the plain value of a subclass, even one with another ``str`` or ``float``.
_READ = {str: "__str__", int: "__int__", float: "__float__"}
