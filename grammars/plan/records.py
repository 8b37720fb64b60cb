"""Convert dataclasses to plain dicts for msgpack and back.  Reading checks each value against its field's annotation.

A record is a dict of a dataclass's fields; those at their default are left out.  A field of type ``Any`` holds JSON
values, and may also hold tuples and integers beyond 64 bits.
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
_MAX_DEPTH = 400
_MAX_DIGITS = 4_000  # of an integer; Python converts at most 4,300
_TOO_LONG = f"integer of more than {_MAX_DIGITS:,} digits"


class Misfit(ValueError):
    """A value that does not fit its field; ``place`` is the path to it."""

    def __init__(self, message: str, place: str) -> None:
        self.place = place
        super().__init__(message)


# -- writing


def to_record(value: Any, place: str = "plan") -> dict[str, Any]:
    """Return a dataclass as a dict, without fields marked local.  Raises `Misfit` for a value that is not JSON."""
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
    """False for derived fields (``init=False``) and for fields marked local (``metadata={"local": True}``)."""
    return field.init and not field.metadata.get("local")


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(field.default == value and type(field.default) is type(value))
    return field.default_factory is not dataclasses.MISSING and bool(field.default_factory() == value)


def _write(value: Any, annotation: Any, place: str) -> Any:
    if annotation is Any:
        return _json_value(value, place)
    if dataclasses.is_dataclass(value):
        return to_record(value, place=place)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        typed = zip(value, _item_types(annotation, len(value)), strict=True)
        return [_write(item, item_type, f"{place}[{i}]") for i, (item, item_type) in enumerate(typed)]
    return _json_value(value, place)


def _json_value(value: Any, place: str, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise Misfit(f"nested more than {_MAX_DEPTH} deep", place)
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            if -(2**63) <= value < 2**64:
                return value
            if abs(value) >= 10**_MAX_DIGITS:
                raise Misfit(_TOO_LONG, place)
            return msgpack.ExtType(_INTEGER, str(value).encode())
        case list():
            return [_json_value(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
        case tuple():
            items = [_json_value(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
            return msgpack.ExtType(_TUPLE, msgpack.packb(items))
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise Misfit(f"the key {shown(key)} is not a string", place)
            return {key: _json_value(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    raise Misfit(f"{type(value).__name__} is not a JSON value", place)


# -- reading


def unpack_extension(code: int, data: bytes) -> Any:
    """Return the value of one of our msgpack extensions; raises `ValueError` for any other."""
    if code == _TUPLE:
        return tuple(msgpack.unpackb(data, ext_hook=unpack_extension, strict_map_key=True))
    if code == _INTEGER:
        if len(data) > len("-") + _MAX_DIGITS:
            raise ValueError(_TOO_LONG)
        return int(data.decode("ascii"))
    raise ValueError(f"unknown extension {code}")


def from_record(kind: type[Any], data: Any, place: str = "plan") -> Any:
    """Return a dataclass from its dict; local fields have their defaults.

    Raises `Misfit` for an unknown or missing field, or a value that does not fit its field.
    """
    if not isinstance(data, dict):
        raise Misfit("not a map", place)
    hints = _hints(cast(Hashable, kind))
    fields = {field.name: field for field in dataclasses.fields(kind) if _is_sent(field)}
    for name in data:
        if name not in fields:
            raise Misfit(f"unknown field {shown(name)}", place)
    values = {name: _read(value, hints[name], f"{place}.{name}") for name, value in data.items()}
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Misfit(f"the field {shown(name)} is missing", place)
    return kind(**values)


def _read(value: Any, annotation: Any, place: str) -> Any:
    if annotation is Any:
        _json_value(value, place)  # refuses what `to_record` refuses: bytes, keys that are not strings
        return value
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _read_union(value, typing.get_args(annotation), place)
    if origin is typing.Literal:
        if value in typing.get_args(annotation) and isinstance(value, str):
            return value
        raise Misfit(f"{shown(value)} is not one of {', '.join(map(repr, typing.get_args(annotation)))}", place)
    if origin is tuple:
        if not isinstance(value, list):
            raise Misfit("not a list", place)
        item_types = _item_types(annotation, len(value))
        if len(item_types) != len(value):
            raise Misfit(f"expected {len(item_types)} values, got {len(value)}", place)
        typed = zip(value, item_types, strict=True)
        return tuple(_read(item, item_type, f"{place}[{i}]") for i, (item, item_type) in enumerate(typed))
    if origin is not None:  # the only other generic used in plans: Mapping[str, Any]
        if not isinstance(value, dict):
            raise Misfit("not a map", place)
        _json_value(value, place)
        return value
    return _read_plain(value, annotation, place)


def _read_plain(value: Any, annotation: Any, place: str) -> Any:
    if dataclasses.is_dataclass(annotation):
        return from_record(typing.cast(type, annotation), value, place=place)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        try:
            return annotation(value)
        except ValueError:
            raise Misfit(f"{shown(value)} is not of type {annotation.__name__}", place) from None
    if annotation is type(None):
        fits = value is None
    elif annotation is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, annotation)
    if not fits:
        raise Misfit(f"expected {getattr(annotation, '__name__', annotation)}, got {type(value).__name__}", place)
    return value


def _read_union(value: Any, annotations: tuple[Any, ...], place: str) -> Any:
    misfits: list[Misfit] = []
    for annotation in annotations:
        try:
            return _read(value, annotation, place)
        except Misfit as misfit:
            misfits.append(misfit)
    raise max(misfits, key=lambda misfit: len(misfit.place))  # report the option that matched furthest


def _item_types(annotation: Any, count: int) -> tuple[Any, ...]:
    """Return the types of the items of a tuple that has ``count`` of them."""
    arguments = typing.get_args(annotation)
    if not arguments and typing.get_origin(annotation) is None:
        return (Any,) * count
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next(
            (_item_types(option, count) for option in arguments if typing.get_origin(option) is tuple), (Any,) * count
        )
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return (arguments[0],) * count
    return arguments


@lru_cache(maxsize=64)
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)
