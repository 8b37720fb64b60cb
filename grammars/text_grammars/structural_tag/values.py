"""Reads and checks the values of a structural tag; errors name their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from special_tokens.errors import GrammarError, shown

__all__ = [
    "only_keys", "read_count", "read_flag", "read_format", "read_list", "read_object", "read_rules",
    "read_string", "read_strings",
]  # fmt: skip


def read_object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise GrammarError("not an object", place=place, expected="a format object with a type")
    return value


def read_format(value: Any, kind: str, place: str) -> Mapping[str, Any]:
    body = read_object(value, place)
    if body.get("type", kind) != kind:
        raise GrammarError(f"unexpected format {shown(body['type'])}", place=f"{place}.type", expected=kind)
    only_keys(body, {"type", "begin", "content", "end"}, place)
    return body


def only_keys(body: Mapping[str, Any], allowed_keys: AbstractSet[str], place: str) -> None:
    unknown = sorted(set(body) - allowed_keys)
    if unknown:
        raise GrammarError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(allowed_keys)))


def read_list(value: Any, place: str, *, empty: bool = False) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or not (value or empty):
        raise GrammarError("not a list" if value else "the list is empty", place=place, expected="a list")
    return value


def read_strings(value: Any, place: str) -> list[str]:
    strings = list(read_list(value, place, empty=True))
    for i, text in enumerate(strings):
        if not isinstance(text, str) or not text:
            raise GrammarError(f"{shown(text)} is not a text", place=f"{place}[{i}]", expected="at least one character")
    return strings


def read_string(body: Mapping[str, Any], key: str, place: str, *, empty: bool = False) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise GrammarError(f"{shown(value)} is not a text", place=f"{place}.{key}", expected="at least one character")
    return value


def read_count(body: Mapping[str, Any], key: str, place: str, *, needed: bool = False) -> int | None:
    value = body.get(key)
    if value is None and not needed:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100_000:
        raise GrammarError(
            f"{shown(value)} is not a count", place=f"{place}.{key}", expected="a number from 0 to 100,000"
        )
    return value


def read_flag(body: Mapping[str, Any], key: str, place: str, *, default: bool = False) -> bool:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise GrammarError(f"{shown(value)} is not true or false", place=f"{place}.{key}")
    return value


def read_rules(body: Mapping[str, Any], place: str) -> Sequence[tuple[Any, Any]]:
    rules = read_list(body.get("rules"), f"{place}.rules")
    for i, rule in enumerate(rules):
        if not isinstance(rule, list | tuple) or len(rule) != 2:
            raise GrammarError("not a pair", place=f"{place}.rules[{i}]", expected="[pattern, format]")
    return rules
