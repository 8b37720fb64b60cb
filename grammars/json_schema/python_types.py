"""JSON Schemas of Python types and function signatures, made by pydantic."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
import typing_extensions
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from grammars.json_schema.python_schema import PythonSchema, described
from grammars.values.report import ReportRow
from special_tokens.errors import SchemaError, ToolError

__all__ = ["is_python_type", "read_value", "schema_of_function", "schema_of_type"]

_HINT = "annotate it with types that pydantic knows"
_PARAGRAPH = re.compile(r"\n\s*\n")
_ARGS_HEADING = re.compile(r"^\s*(Args|Arguments|Parameters)\s*:?\s*$")
_ANY_HEADING = re.compile(r"^\s*(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?)\s*:?\s*$")
_GOOGLE_ARG = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")
_SPHINX_ARG = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.+)$")


def is_python_type(value: Any) -> bool:
    """Whether ``value`` is a class, generic alias, union or `Literal`, from which pydantic can make a schema."""
    return isinstance(value, type | types.GenericAlias | types.UnionType) or typing.get_origin(value) is not None


def schema_of_type(python_type: Any) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """Return the JSON Schema of a pydantic model, dataclass, TypedDict, enum or other type, and what it leaves out.

    Raises `SchemaError`, which names the type, if pydantic has no schema for it or JSON cannot carry its values.
    """
    try:
        return described(pydantic.TypeAdapter(_modern(python_type)).json_schema(schema_generator=PythonSchema))
    except RecursionError:
        raise SchemaError(
            f"{python_type!r} refers to itself", place="response_format", hint="use a pydantic model for it"
        ) from None
    except (PydanticSchemaGenerationError, PydanticUserError, pydantic.errors.PydanticInvalidForJsonSchema) as error:
        raise SchemaError(
            f"pydantic has no JSON schema for {python_type!r}: {str(error).splitlines()[0]}",
            place="response_format",
            hint="take TypedDict from typing_extensions" if "TypedDict" in str(error) else _HINT,
        ) from None


def read_value(python_type: Any, text: str) -> Any:
    """Return the Python value of a JSON text, validated by its type; raises `pydantic.ValidationError`."""
    return pydantic.TypeAdapter(_modern(python_type)).validate_json(text)


def _modern(python_type: Any) -> Any:
    """The type with every ``typing.TypedDict`` replaced by its ``typing_extensions`` twin, as pydantic needs before
    3.12.
    """
    if sys.version_info >= (3, 12):
        return python_type
    if typing.is_typeddict(python_type):
        fields = typing.get_type_hints(python_type, include_extras=True)
        optional = python_type.__optional_keys__
        twins = {key: _modern(value) for key, value in fields.items()}
        twins |= {key: typing_extensions.NotRequired[twins[key]] for key in optional}
        return typing_extensions.TypedDict(python_type.__name__, twins)  # type: ignore[operator]
    arguments, origin = typing.get_args(python_type), typing.get_origin(python_type)
    if origin is typing.Annotated:
        return typing.Annotated[(_modern(arguments[0]), *arguments[1:])]
    if isinstance(python_type, types.UnionType):
        return typing.Union[tuple(map(_modern, arguments))]  # noqa: UP007
    if arguments and origin is not typing.Literal and hasattr(python_type, "copy_with"):
        return python_type.copy_with(tuple(map(_modern, arguments)))
    if isinstance(python_type, types.GenericAlias):
        return types.GenericAlias(typing.cast(type, python_type.__origin__), tuple(map(_modern, arguments)))
    return python_type


def schema_of_function(function: Callable[..., Any]) -> tuple[str, str, dict[str, Any]]:
    """Return name, description and JSON Schema of the arguments, from signature, docstring and ``Annotated``.

    Raises `ToolError` for a function whose arguments cannot be written as JSON.
    """
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise ToolError("the function has no name", place="tools", hint="pass a def, or a dict with a name")
    try:
        schema, _ = described(
            pydantic.TypeAdapter(typing.cast(Any, _keyword_only(function))).json_schema(schema_generator=PythonSchema)
        )
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        raise ToolError(
            f"no JSON schema for the arguments: {str(error).splitlines()[0]}",
            place=f"tools.{name}",
            hint="take TypedDict from typing_extensions" if "TypedDict" in str(error) else _HINT,
        ) from None
    doc = inspect.getdoc(function) or ""
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    for parameter, text in _parameter_docs(doc).items():
        prop = schema["properties"].get(parameter)
        if isinstance(prop, dict):
            prop.setdefault("description", text)
    return name, _PARAGRAPH.split(doc.strip(), maxsplit=1)[0].replace("\n", " "), schema


def _keyword_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in with the same annotations and keyword-only parameters: tools are always called by name."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            raise ToolError(
                f"{star}{parameter.name} cannot be passed by name", place=f"tools.{getattr(function, '__name__', '')}"
            )
        if parameter.kind is not parameter.VAR_KEYWORD:
            parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters.append(parameter)

    def stand_in(**kwargs: Any) -> None: ...

    hints = typing.get_type_hints(function, include_extras=True)
    stand_in.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {p.name: hints.get(p.name, Any) for p in parameters}
    return stand_in


def _parameter_docs(doc: str) -> Mapping[str, str]:
    """Parameter -> text, from Google-style ``Args:`` sections and from ``:param name:`` lines."""
    found: dict[str, str] = {}
    inside, last = False, ""
    for line in doc.splitlines():
        sphinx = _SPHINX_ARG.match(line)
        if sphinx:
            found[sphinx[1]] = sphinx[2].strip()
        elif _ANY_HEADING.match(line):
            inside, last = bool(_ARGS_HEADING.match(line)), ""
        elif inside and (google := _GOOGLE_ARG.match(line)):
            last = google[2]
            found[last] = google[3].strip()
        elif inside and last and line.startswith("    ") and line.strip():
            found[last] += " " + line.strip()
    return found
