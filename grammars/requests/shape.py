"""The shape that every request body must have: JSON values within limits of depth, size and digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from special_tokens.errors import RequestError, shown

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "MAX_VALUES", "check_shape"]

MAX_DEPTH = 700
#: Digits of an integer; Python itself writes none of more than 4,300.
MAX_DIGITS = 1_000
#: Values at one level; an object that Python shares counts at each place.
MAX_VALUES = 1_000_000
_MAX_BITS = int(MAX_DIGITS * 3.33)


def check_shape(body: Mapping[str, Any], *, skip: tuple[str, ...] = ()) -> None:
    """Raise `RequestError`, with the place, for a value that no JSON body holds; keys in ``skip`` are not checked."""
    for key, value in body.items():
        if not isinstance(key, str):
            raise RequestError(f"the key {shown(key)} is not a text", place="body", expected="JSON")
        if key not in skip:
            _check(value, key)


def _check(value: Any, place: str) -> None:
    level: list[tuple[Any, str]] = [(value, place)]
    for _ in range(MAX_DEPTH):
        following: list[tuple[Any, str]] = []
        for inner, at in level:
            if type(inner) is int:
                if inner.bit_length() > _MAX_BITS:
                    raise RequestError(f"a number of more than {MAX_DIGITS} digits", place=at,
                                       expected="a smaller number")  # fmt: skip
            elif isinstance(inner, dict):
                for key, item in inner.items():
                    if not isinstance(key, str) and not (place == "logit_bias" and type(key) is int):
                        raise RequestError(f"the key {shown(key)} is not a text", place=at, expected="JSON")
                    if not isinstance(item, str | bool | None):
                        following.append((item, f"{at}.{key}"))
            elif isinstance(inner, list | tuple):
                following += [
                    (item, f"{at}[{i}]") for i, item in enumerate(inner) if not isinstance(item, str | bool | None)
                ]
        if not following:
            return
        if len(following) > MAX_VALUES:
            raise RequestError(f"more than {MAX_VALUES} values", place=place, expected="fewer values")
        level = following
    raise RequestError(f"nested more than {MAX_DEPTH} deep", place=place, expected="fewer levels")
