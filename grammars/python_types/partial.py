"""The part of a JSON value that is final while its text is still being written, in the Python type that was asked for.

Texts, numbers and literals appear when they are complete and never change afterwards; objects and lists grow.  A
pydantic model is an instance without the fields that are not complete (``model_fields_set`` has the others); a list,
set, tuple or dict holds its complete members; dataclasses, TypedDicts and NamedTuples are dicts by field until they are
complete.  A value whose parts mean nothing alone (a model with its own validators, a union whose member is not decided
yet) is left out until it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pydantic
import typing_extensions
from pydantic.fields import FieldInfo

from grammars.python_types.adapter import read_value

__all__ = ["partial_value"]

_SPACE = re.compile(r"[\s,:]*")
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_DIGITS = re.compile("[-+.eE0-9]*")
_decode = json.JSONDecoder().raw_decode


class _Open:
    """An object or list that has not ended: each member by key or number, as its text or open itself."""

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.members: dict[Any, str | _Open] = {}


class _Absent(Exception):
    """Nothing is known of the value yet."""


def partial_value(python_type: Any, text: str) -> Any:
    """Return the final part of the value that ``text`` begins, None if no part is final; see the module.

    ``python_type`` None: plain JSON values.
    """
    try:
        value = _ValueReader(text.lstrip()).value(0)[0]
        return _plain(value) if python_type is None else _typed(python_type, value)
    except (_Absent, RecursionError):
        return None


# -- the text


class _ValueReader:
    """Reads one text: each whole value once, and on the way to the end the objects and lists that are open there."""

    def __init__(self, text: str) -> None:
        self.text = text
        opened: list[int] = []
        for sign in _SIGNS.finditer(text):
            if sign[0] in ("{", "["):
                opened.append(sign.start())
            elif sign[0] in ("}", "]") and opened:
                opened.pop()
        self.opened = frozenset(opened)

    def value(self, at: int) -> tuple[str | _Open, int]:
        """Return the value at ``at``, whole or open, and where it ends; raises `_Absent` where it is neither."""
        text = self.text
        if at in self.opened:
            return self._open(at), len(text)
        try:
            _, end = _decode(text, at)
        except (ValueError, IndexError):
            raise _Absent from None
        if text[at] in "-0123456789" and _DIGITS.fullmatch(text, end):
            raise _Absent  # more of the number may follow
        return text[at:end], end

    def _open(self, at: int) -> _Open:
        text = self.text
        container = _Open(text[at] == "{")
        at += 1
        try:
            while (at := self._skipped(at)) < len(text):
                key: Any = len(container.members)
                if container.is_object:
                    key, at = _decode(text, at)
                    at = self._skipped(at)
                container.members[key], at = self.value(at)
        except (_Absent, ValueError):
            pass
        return container

    def _skipped(self, at: int) -> int:
        space = _SPACE.match(self.text, at)
        return space.end() if space is not None else at


# -- the value


def _plain(parsed: str | _Open) -> Any:
    if isinstance(parsed, str):
        return json.loads(parsed)
    values = {key: _plain(value) for key, value in parsed.members.items()}
    return values if parsed.is_object else list(values.values())


def _typed(python_type: Any, parsed: str | _Open) -> Any:
    """Return the value in its type; raises `_Absent` where it is not known yet."""
    if isinstance(parsed, str):
        return _whole(lambda: read_value(python_type, parsed))
    python_type = _member(python_type, parsed)
    kind, arguments = typing.get_origin(python_type) or python_type, typing.get_args(python_type)
    if not isinstance(kind, type):
        raise _Absent
    if issubclass(kind, pydantic.BaseModel):
        return _model(kind, parsed)
    if (names := _names(kind)) is not None and parsed.is_object != _is_tuple(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return _entries(parsed, lambda key: (name := names[key], hints[name]))
    if parsed.is_object and issubclass(kind, dict):
        keys, values = arguments if len(arguments) == 2 else (str, (*arguments, Any)[0])
        return _entries(parsed, lambda key: (_key(keys, key), values))
    if parsed.is_object or not issubclass(kind, list | tuple | set | frozenset):
        raise _Absent
    if issubclass(kind, tuple) and arguments and arguments[-1] is not ...:
        return tuple(_entries(parsed, lambda at: (at, arguments[at])).values())
    item = arguments[0] if arguments else Any
    if issubclass(kind, set | frozenset):  # its members are final
        parsed.members = {key: value for key, value in parsed.members.items() if isinstance(value, str)}
    return _whole(lambda: kind(_entries(parsed, lambda at: (at, item)).values()))  # a set: of what can be hashed


def _entries(container: _Open, place_of: Callable[[Any], tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the members, up to the first one that is absent; ``place_of`` gives a member's name and type."""
    values: dict[Any, Any] = {}
    try:
        for key, value in container.members.items():
            name, python_type = place_of(key)
            values[name] = _typed(python_type, value)
    except (_Absent, LookupError):
        pass
    return values


def _whole(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:  # pydantic.ValidationError, or what a validator of the caller raises
        raise _Absent from None


def _key(python_type: Any, key: str) -> Any:
    return _whole(lambda: next(iter(read_value(dict[python_type, Any], json.dumps({key: None})))))


def _names(kind: type) -> dict[Any, str] | None:
    """Key or number -> field, of a dataclass, TypedDict or NamedTuple; None for other types."""
    if dataclasses.is_dataclass(kind):
        return {field.name: field.name for field in dataclasses.fields(kind)}
    if typing.is_typeddict(kind) or typing_extensions.is_typeddict(kind):
        return {name: name for name in typing.get_type_hints(kind)}
    return dict(enumerate(kind._fields)) if _is_tuple(kind) and hasattr(kind, "_fields") else None


def _is_tuple(kind: type) -> bool:
    return issubclass(kind, tuple)


# -- pydantic models


def _model(kind: type[pydantic.BaseModel], container: _Open) -> Any:
    decided = kind.__pydantic_decorators__
    own_code = kind.__init__ is not pydantic.BaseModel.__init__ and not issubclass(kind, pydantic.RootModel)
    own_code |= kind.model_post_init is not pydantic.BaseModel.model_post_init and not kind.__private_attributes__
    if decided.model_validators or decided.root_validators or own_code:
        raise _Absent
    judged = {name for each in decided.field_validators.values() for name in each.info.fields}
    fields = {name: field for name, field in kind.model_fields.items() if not judged & {name, "*"}}
    if issubclass(kind, pydantic.RootModel):
        return kind.model_construct(root=_field(kind, "root", container))
    if not container.is_object:
        raise _Absent
    names = {key: name for name, field in fields.items() for key in _keys(name, field)}
    values: dict[str, Any] = {}
    for key, value in container.members.items():
        with contextlib.suppress(_Absent):
            if key in names:
                values[names[key]] = _field(kind, names[key], value, key)
    made = kind.model_construct(_fields_set=set(values), **values)
    for name in vars(made).keys() - values.keys():  # defaults, which may not be the end of it
        del vars(made)[name]
    return made


def _field(kind: type[pydantic.BaseModel], name: str, value: str | _Open, key: str = "") -> Any:
    if isinstance(value, str):
        text = f"{{{json.dumps(key)}: {value}}}"
        return getattr(_whole(lambda: _part(kind, name).model_validate_json(text)), name)
    field = kind.model_fields[name]
    if any(map(_is_code, field.metadata)):
        raise _Absent
    return _typed(field.annotation, value)


def _keys(name: str, field: FieldInfo) -> list[str]:
    """The keys that a field may be read from."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, pydantic.AliasChoices) else [alias]
    return [name, *(choice for choice in choices if isinstance(choice, str))]


@lru_cache(maxsize=512)
def _part(kind: type[pydantic.BaseModel], name: str) -> type[pydantic.BaseModel]:
    """A model of one field of ``kind``, which reads it as ``kind`` does."""
    field = kind.model_fields[name]
    members: Any = {name: (field.annotation, field)}
    part: type[pydantic.BaseModel] = pydantic.create_model("Part", __config__=kind.model_config, **members)
    return part


# -- which type


def _is_code(extra: Any) -> bool:
    """Whether this part of ``Annotated`` may change a value: then it is known when it is whole."""
    return hasattr(extra, "__get_pydantic_core_schema__") and not isinstance(extra, pydantic.StringConstraints)


def _member(python_type: Any, container: _Open) -> Any:
    """The type without aliases and ``Annotated``; of a union the one member that the open value can only be."""
    while True:
        python_type = getattr(python_type, "__value__", getattr(python_type, "__supertype__", python_type))
        if typing.get_origin(python_type) is typing.Annotated:
            if any(map(_is_code, python_type.__metadata__)):
                raise _Absent
            python_type = python_type.__origin__
        elif typing.get_origin(python_type) in (typing.Union, types.UnionType):
            options = [option for option in typing.get_args(python_type) if _can_be(option, container)]
            if len(options) != 1:
                raise _Absent
            python_type = options[0]
        else:
            return python_type


def _can_be(python_type: Any, container: _Open) -> bool:
    """Whether the open value may be of this member of a union: by its kind, and by the `Literal` fields that it has."""
    try:
        python_type = _member(python_type, container)
    except _Absent:
        return True  # of a union in the union, or code: not known
    kind = typing.get_origin(python_type) or python_type
    if not isinstance(kind, type):
        return kind is Any
    if issubclass(kind, pydantic.RootModel):
        return True
    if issubclass(kind, pydantic.BaseModel):
        hints = {key: field.annotation for name, field in kind.model_fields.items() for key in _keys(name, field)}
    elif _names(kind) is not None:
        hints = {} if _is_tuple(kind) else typing.get_type_hints(kind)
    else:
        return issubclass(kind, dict if container.is_object else list | tuple | set | frozenset) or kind is object
    if container.is_object == _is_tuple(kind):
        return False
    given = {key: json.loads(value) for key, value in container.members.items() if isinstance(value, str)}
    literals = {key: typing.get_args(hint) for key, hint in hints.items() if typing.get_origin(hint) is typing.Literal}
    return all(given[key] in values for key, values in literals.items() if key in given)
