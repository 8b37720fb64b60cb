"""Frozen dataclasses to plain values (records) and back, guided by their annotations.

A record is a map from field to value without the fields that have their default value.  Values of ``Any`` are JSON
values; tuples in them and integers beyond 64 bits keep their type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, cast

import msgpack

from special_tokens.errors import shown

__all__ = ["Misfit", "from_record", "to_record", "unpack_extension"]

_TUPLE, _INTEGER = 1, 2  # codes of msgpack extensions
_DEEPEST = 400


class Misfit(ValueError):
    """A value of another type than its field; ``place`` is the path of fields that leads to it."""

    def __init__(self, message: str, place: str) -> None:
        self.place = place
        super().__init__(message)


# -- writing


def to_record(value: Any, place: str = "plan") -> dict[str, Any]:
    """Return a dataclass as a map without local fields.  Raises `Misfit` for a value that cannot be sent."""
    hints = _hints(cast(Hashable, type(value)))
    out: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        if not _is_sent(field):
            continue
        item = getattr(value, field.name)
        if _is_default(field, item):
            continue
        out[field.name] = _write(item, hints[field.name], f"{place}.{field.name}")
    return out


def _is_sent(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is neither derived from the others nor local to a process (``metadata={"local": True}``)."""
    return field.init and not field.metadata.get("local")


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(field.default == value and type(field.default) is type(value))
    if field.default_factory is not dataclasses.MISSING:
        return bool(field.default_factory() == value)
    return False


def _write(value: Any, kind: Any, place: str) -> Any:
    if kind is Any:
        return _json_value(value, place)
    if dataclasses.is_dataclass(value):
        return to_record(value, place=place)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        kinds = _items(kind, len(value))
        return [_write(item, k, f"{place}[{i}]") for i, (item, k) in enumerate(zip(value, kinds, strict=True))]
    return _json_value(value, place)


def _json_value(value: Any, place: str, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise Misfit(f"nested more than {_DEEPEST} deep", place)
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            fits = -(2**63) <= value < 2**64
            return value if fits else msgpack.ExtType(_INTEGER, str(value).encode())
        case list():
            return [_json_value(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
        case tuple():
            items = [_json_value(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
            return msgpack.ExtType(_TUPLE, msgpack.packb(items))
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise Misfit(f"the key {shown(key)} is not a text", place)
            return {key: _json_value(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    raise Misfit(f"{type(value).__name__} is not a JSON value", place)


# -- reading


def unpack_extension(code: int, data: bytes) -> Any:
    """Return the value of one of our msgpack extensions; raises `ValueError` for any other."""
    if code == _TUPLE:
        return tuple(msgpack.unpackb(data, ext_hook=unpack_extension, strict_map_key=True))
    if code == _INTEGER and len(data) <= 4_000:
        return int(data.decode("ascii"))
    raise ValueError(f"unknown extension {code}")


def from_record(kind: type[Any], data: Any, place: str = "plan") -> Any:
    """Return a dataclass from its map; local fields have their defaults.

    Raises `Misfit` for an unknown or missing field and a value of another type.
    """
    if not isinstance(data, dict):
        raise Misfit("not a map", place)
    hints = _hints(cast(Hashable, kind))
    fields = {field.name: field for field in dataclasses.fields(kind) if _is_sent(field)}
    for name in data:
        if name not in fields:
            raise Misfit(f"unknown field {shown(name)}", place)
    values = {name: _read(value, hints[fields[name].name], f"{place}.{name}") for name, value in data.items()}
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Misfit(f"the field {shown(name)} is missing", place)
    return kind(**{fields[name].name: value for name, value in values.items()})


def _read(value: Any, kind: Any, place: str) -> Any:
    if kind is Any:
        _json_value(value, place)  # refuses bytes and keys that are no text: `to_record` would refuse them, too
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(value, typing.get_args(kind), place)
    if origin is typing.Literal:
        if value in typing.get_args(kind) and isinstance(value, str):
            return value
        raise Misfit(f"{shown(value)} is none of {', '.join(map(repr, typing.get_args(kind)))}", place)
    if origin is tuple:
        if not isinstance(value, list):
            raise Misfit("not a list", place)
        kinds = _items(kind, len(value))
        if len(kinds) != len(value):
            raise Misfit(f"{len(value)} values, not {len(kinds)}", place)
        return tuple(_read(item, k, f"{place}[{i}]") for i, (item, k) in enumerate(zip(value, kinds, strict=True)))
    if origin is not None:  # Mapping[str, Any]
        if not isinstance(value, dict):
            raise Misfit("not a map of texts", place)
        _json_value(value, place)
        return value
    return _read_plain(value, kind, place)


def _read_plain(value: Any, kind: Any, place: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_record(typing.cast(type, kind), value, place=place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise Misfit(f"{shown(value)} is not of type {kind.__name__}", place) from None
    if kind is type(None):
        kind_ok = value is None
    elif kind is int:
        kind_ok = isinstance(value, int) and not isinstance(value, bool)
    else:
        kind_ok = isinstance(value, kind)
    if not kind_ok:
        raise Misfit(f"{type(value).__name__} instead of {getattr(kind, '__name__', kind)}", place)
    return value


def _read_union(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    misfit: Misfit | None = None
    for kind in kinds:
        try:
            return _read(value, kind, place)
        except Misfit as error:
            if misfit is None or len(error.place) > len(misfit.place):
                misfit = error
    assert misfit is not None
    raise misfit


def _items(kind: Any, count: int) -> tuple[Any, ...]:
    """The types of the items of a tuple that has ``count`` of them."""
    arguments = typing.get_args(kind)
    if not arguments and typing.get_origin(kind) is None:
        return (Any,) * count
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(
            (_items(option, count) for option in arguments if typing.get_origin(option) is tuple), (Any,) * count
        )
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return (arguments[0],) * count
    return arguments


@lru_cache(maxsize=64)
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)
