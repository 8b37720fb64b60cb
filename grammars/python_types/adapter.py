"""JSON Schemas of Python types, made by pydantic."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any

import pydantic
import typing_extensions
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from grammars.python_types.schema import PythonSchema, described
from grammars.values.report import ReportRow
from special_tokens.errors import SchemaError

__all__ = ["hint_of", "is_python_type", "modern_type", "read_value", "schema_of_type"]

_HINT = "annotate it with types that pydantic knows"


def is_python_type(value: Any) -> bool:
    """Whether pydantic can make a schema of ``value``: a class, generic alias, union, `Literal` or named type."""
    named = type | types.GenericAlias | types.UnionType | typing.NewType | typing_extensions.TypeAliasType
    return isinstance(value, named) or typing.get_origin(value) is not None


def schema_of_type(python_type: Any) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """Return the JSON Schema of a pydantic model, dataclass, TypedDict, enum or other type, and what it leaves out.

    Raises `SchemaError`, which names the type, if pydantic has no schema for it or JSON cannot carry its values.
    """
    try:
        return described(pydantic.TypeAdapter(modern_type(python_type)).json_schema(schema_generator=PythonSchema))
    except RecursionError:
        raise SchemaError(
            f"{python_type!r} refers to itself", place="response_format", hint="use a pydantic model for it"
        ) from None
    except (PydanticSchemaGenerationError, PydanticUserError, ImportError) as error:
        raise SchemaError(
            f"pydantic has no JSON schema for {python_type!r}: {str(error).splitlines()[0]}",
            place="response_format",
            hint=hint_of(error),
        ) from None


def hint_of(error: Exception) -> str:
    """The cure for a type that pydantic refuses."""
    if isinstance(error, ImportError):
        return "install the package"
    if isinstance(error, PydanticInvalidForJsonSchema):
        return ""  # pydantic knows the type, and the reason says what JSON lacks
    is_old = isinstance(error, PydanticUserError) and error.code == "typed-dict-version"
    return "take TypedDict from typing_extensions" if is_old else _HINT


def read_value(python_type: Any, text: str) -> Any:
    """Return the Python value of a JSON text, validated by its type; raises `pydantic.ValidationError`."""
    return pydantic.TypeAdapter(modern_type(python_type)).validate_json(text)


def modern_type(python_type: Any) -> Any:
    """The type with every ``typing.TypedDict`` replaced by its ``typing_extensions`` twin, as pydantic needs before
    3.12.
    """
    if sys.version_info >= (3, 12):
        return python_type
    if typing.is_typeddict(python_type):
        fields = typing.get_type_hints(python_type, include_extras=True)
        optional = python_type.__optional_keys__
        twins = {key: modern_type(value) for key, value in fields.items()}
        twins |= {key: typing_extensions.NotRequired[twins[key]] for key in optional}
        return typing_extensions.TypedDict(python_type.__name__, twins)  # type: ignore[operator]
    arguments, origin = typing.get_args(python_type), typing.get_origin(python_type)
    if origin is typing.Annotated:
        return typing.Annotated[(modern_type(arguments[0]), *arguments[1:])]
    if isinstance(python_type, types.UnionType):
        return typing.Union[tuple(map(modern_type, arguments))]  # noqa: UP007
    if arguments and origin is not typing.Literal and hasattr(python_type, "copy_with"):
        return python_type.copy_with(tuple(map(modern_type, arguments)))
    if isinstance(python_type, types.GenericAlias):
        return types.GenericAlias(typing.cast(type, python_type.__origin__), tuple(map(modern_type, arguments)))
    return python_type
