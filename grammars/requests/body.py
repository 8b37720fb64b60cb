"""The text of a request body: UTF-8, one JSON object with each key once, messages of known roles, within limits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from special_tokens.errors import RequestError, shown

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "MAX_VALUES", "check_role", "check_roles", "check_shape", "parse_body"]

#: OpenAI's; a template may know others, and then a client's message would be the system's.
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def parse_body(data: bytes) -> dict[str, Any]:
    """Return the object in ``data``; raise `RequestError` with the place for anything else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte {error.start} is {data[error.start]:#04x}"
        raise RequestError(message, place="body", expected="JSON in UTF-8") from None
    try:
        body = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except RequestError:
        raise
    except RecursionError:
        raise RequestError(f"nested more than {MAX_DEPTH} deep", place="body", expected="fewer levels") from None
    except ValueError as error:
        raise RequestError(f"not JSON: {error}", place="body", expected="a JSON object") from None
    if not isinstance(body, dict):
        raise RequestError(f"{type(body).__name__} is not an object", place="body", expected="a JSON object")
    check_shape(body)
    try:
        if b"\\u" in data:  # an escape alone can be half of a surrogate pair
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestError("it holds a lone surrogate", place="body", expected="Unicode text") from None
    return body


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise RequestError(f"{shown(twice)} is twice in one object", place=twice[:100], expected="each key once")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def check_roles(messages: Any) -> None:
    """Raise `RequestError` for a message of another role; what is not a message at all is refused elsewhere."""
    for i, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            check_role(message.get("role"), f"messages[{i}].role")


def check_role(role: Any, place: str) -> None:
    """Raise `RequestError` for a role that is not OpenAI's."""
    if not isinstance(role, str) or role not in _ROLES:
        raise RequestError(f"{shown(role)} is not a role", place=place, expected=" or ".join(_ROLES))


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
