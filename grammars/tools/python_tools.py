"""Python functions and pydantic models as tools: their schemas, and the conversion of a call's arguments."""

from __future__ import annotations

import difflib
import enum
import inspect
import pickle
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, cast

import pydantic
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from grammars.python_types.adapter import hint_of, modern_type, read_value, schema_of_type
from grammars.python_types.schema import PythonSchema, described
from grammars.values.tool import Tool
from special_tokens.errors import SchemaError, ToolError, shown

__all__ = ["FunctionTool", "ModelTool", "function_tool", "model_tool", "read_docstring"]

#: Types that docstrings and annotations name alike.
_PLAIN = {"int": int, "integer": int, "float": float, "str": str, "string": str, "bool": bool, "boolean": bool,
          "list": list, "dict": dict}  # fmt: skip


class _Default(enum.Enum):
    """Stands for the default of a parameter that a call leaves out."""

    ABSENT = 0


class _Local:
    """Code of this process: a copy is itself, and where pickle cannot name the code, nothing is left of it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> Any:
        (code,) = (getattr(self, field.name) for field in fields(cast(Any, self)))
        try:
            pickle.dumps(code)
        except Exception:  # a local function, a method of an object with a socket
            return _nothing, ()
        return type(self), (code,)


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class FunctionTool(_Local):
    """A function as a tool: arguments become the keyword arguments that it takes (dates, enums, models)."""

    function: Callable[..., Any]

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        stand_in: Any = _stand_in(self.function, without_defaults=True)
        return pydantic.TypeAdapter(stand_in)

    def read(self, arguments: str) -> dict[str, Any]:
        """Return the arguments of a call by parameter, those left out excepted; raises `pydantic.ValidationError`."""
        arguments_read = self._adapter.validate_json(arguments)
        return {name: value for name, value in arguments_read.items() if value is not _Default.ABSENT}

    def run(self, parsed: Mapping[str, Any]) -> Any:
        """Call the function."""
        return self.function(**parsed)


@dataclass(frozen=True)
class ModelTool(_Local):
    """A pydantic model as a tool: arguments become its instance, which is the result as well."""

    model: type[pydantic.BaseModel]

    def read(self, arguments: str) -> Any:
        """Return the instance; raises `pydantic.ValidationError`."""
        return read_value(self.model, arguments)

    def run(self, parsed: Any) -> Any:
        """Return the instance."""
        return parsed


def model_tool(model: type[pydantic.BaseModel]) -> Tool:
    """Return the tool of a pydantic model; raises `ToolError` for fields that JSON cannot carry."""
    place = f"tools.{model.__name__}"
    try:
        schema, rows = schema_of_type(model)
    except SchemaError as error:
        raise ToolError(error.message, place=place, expected=error.expected, hint=error.hint) from None
    description = inspect.cleandoc(model.__doc__ or "")
    return Tool(model.__name__, description, schema, rows=rows, python=ModelTool(model))


def function_tool(function: Callable[..., Any]) -> Tool:
    """Return the tool of a function, from signature, docstring and ``Annotated``.

    Raises `ToolError` for a function whose arguments cannot be written as JSON, or whose docstring contradicts it.
    """
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise ToolError("the function has no name", place="tools", hint="pass a def, or a dict with a name")
    place = f"tools.{name}"
    try:
        stand_in: Any = _stand_in(function)
        schema, rows = described(pydantic.TypeAdapter(stand_in).json_schema(schema_generator=PythonSchema))
    except RecursionError:
        raise ToolError("a type of the arguments refers to itself", place=place, hint="use a pydantic model") from None
    except (PydanticSchemaGenerationError, PydanticUserError, ImportError, NameError) as error:
        raise ToolError(
            f"no JSON schema for the arguments: {str(error).splitlines()[0]}",
            place=place,
            hint=hint_of(error),
        ) from None
    doc = read_docstring(inspect.getdoc(function) or "")
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    _check_docstring(function, stand_in, doc.parameters, place)
    for parameter, documented in doc.parameters.items():
        prop = schema["properties"].get(parameter)
        if isinstance(prop, dict) and documented.text:
            prop.setdefault("description", documented.text)
    return Tool(name, doc.description, schema, rows=rows, python=FunctionTool(function))


def _stand_in(function: Callable[..., Any], *, without_defaults: bool = False) -> Callable[..., dict[str, Any]]:
    """A function with the same annotations that takes and returns keyword arguments: tools are called by name."""
    signature = inspect.signature(function)
    place = f"tools.{getattr(function, '__name__', '')}"
    parameters = []
    for i, parameter in enumerate(signature.parameters.values()):
        if i == 0 and parameter.name in ("self", "cls"):
            raise ToolError("a method without its object", place=place, hint="pass the method of an object")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            raise ToolError(f"{star}{parameter.name} cannot be passed by name", place=place, hint="drop / and *")
        if parameter.kind is not parameter.VAR_KEYWORD:
            parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            if without_defaults and parameter.default is not parameter.empty:
                is_field = isinstance(parameter.default, FieldInfo)
                parameter = parameter if is_field else parameter.replace(default=_Default.ABSENT)
        parameters.append(parameter)

    def stand_in(**kwargs: Any) -> dict[str, Any]:
        return kwargs

    hints = typing.get_type_hints(function, include_extras=True)
    stand_in.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {p.name: _with_text(modern_type(hints.get(p.name, Any))) for p in parameters}
    return stand_in


def _with_text(hint: Any) -> Any:
    """``Annotated[int, "text"]``, and `typing_extensions.Doc`, with the text as pydantic's description."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    texts = [getattr(extra, "documentation", extra) for extra in hint.__metadata__]
    text = next((text for text in texts if isinstance(text, str)), None)
    has_own = any(isinstance(extra, FieldInfo) and extra.description for extra in hint.__metadata__)
    return hint if text is None or has_own else typing.Annotated[hint, pydantic.Field(description=text)]


def _check_docstring(
    function: Callable[..., Any], stand_in: Any, documented: Mapping[str, _ParameterDoc], place: str
) -> None:
    """Raise if the docstring describes something that is not a parameter, or names another type than the annotation."""
    parameters = inspect.signature(inspect.unwrap(function)).parameters  # of a partial: those given as well
    takes_more = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, doc in documented.items():
        where = f"{place}.{name}"
        if name not in parameters and not takes_more:
            near = difflib.get_close_matches(name, parameters, 1)
            raise ToolError(
                f"the docstring describes {shown(name)}, which is not a parameter",
                place=where,
                expected=", ".join(parameters) or "no parameters",
                hint=f"is it {shown(near[0])}?" if near else "",
            )
        hint = stand_in.__annotations__.get(name)
        said = _PLAIN.get(doc.type.removesuffix(", optional").removesuffix(" optional").strip().lower())
        if said is not None and hint in _PLAIN.values() and {said, hint} != {int, float} and said is not hint:
            raise ToolError(f"the docstring says {doc.type}, the signature {hint.__name__}", place=where,
                            expected="the same type in both")  # fmt: skip


_SECTIONS = (
    "args|arguments|parameters|params|other parameters|keyword args|keyword arguments|attributes|returns?|raises"
    "|yields?|receives|warns|warnings?|examples?|notes?|references|see also|todo"
)
_OF_PARAMETERS = re.compile("args|arguments|parameters|params|other parameters|keyword args|keyword arguments")
_GOOGLE = re.compile(rf"({_SECTIONS})\s*:\s*$", re.IGNORECASE)
_NUMPY = re.compile(rf"({_SECTIONS})\s*$", re.IGNORECASE)
_RULE = re.compile(r"-{3,}\s*$")
_GOOGLE_ENTRY = re.compile(
    r"\*{0,2}(?P<names>\w+)\s*(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?\s*:(?:\s+(?P<text>.*))?$"
)
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::\s*(?P<type>.*))?$")
_SPHINX_ENTRY = re.compile(r"[:@]param(?:eter)?\s+(?:(?P<type>[^:]*?)\s+)?\*{0,2}(?P<names>\w+)\s*:\s*(?P<text>.*)$")
_SPHINX_TYPE = re.compile(r"[:@]type\s+(\w+)\s*:\s*(.*)$")
_SPHINX_OTHER = re.compile(r"[:@](?:return|returns|rtype|raises?|except|yields?|keyword|kwarg|var|ivar|cvar|meta)\b")


@dataclass
class _ParameterDoc:
    """One parameter as a docstring describes it; ``type`` is its words for the type, empty without any."""

    text: str = ""
    type: str = ""


@dataclass
class _Docstring:
    """``description`` is all that comes before the parameters, results and examples, one line for each paragraph."""

    description: str = ""
    parameters: Mapping[str, _ParameterDoc] = field(default_factory=dict)


def read_docstring(doc: str) -> _Docstring:
    """Return the contents of a docstring; ``doc`` is dedented, as `inspect.getdoc` returns it."""
    lines = [line.rstrip() for line in doc.strip().splitlines()]
    first = next((i for i in range(len(lines)) if _begins_section(lines, i)), len(lines))
    parameters: dict[str, _ParameterDoc] = {}
    for names, kind, text in [*_from_sections(lines[first:]), *_from_fields(lines[first:])]:
        for name in re.split(r"[\s,*]+", names.strip("* ")):
            entry = parameters.setdefault(name, _ParameterDoc())
            entry.text, entry.type = entry.text or text, entry.type or kind
    return _Docstring(_joined(lines[:first]), parameters)


def _begins_section(lines: list[str], at: int) -> bool:
    line = lines[at]
    if _SPHINX_ENTRY.match(line) or _SPHINX_TYPE.match(line) or _SPHINX_OTHER.match(line):
        return True
    return bool(_GOOGLE.match(line) or (_NUMPY.match(line) and at + 1 < len(lines) and _RULE.match(lines[at + 1])))


def _from_sections(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names, type and text of the entries of Google's and NumPy's sections of parameters."""
    section, entry, entry_indent, body = "", None, 0, list[str]()
    for line in [*lines, "Returns:"]:
        heading = _GOOGLE.match(line) or (_NUMPY.match(line) if section != "google" else None)
        indent = len(line) - len(line.lstrip())
        pattern = _GOOGLE_ENTRY if section == "google" else _NUMPY_ENTRY
        match = pattern.match(line.strip()) if section and (entry is None or indent <= entry_indent) else None
        if (heading or match) and entry is not None:
            yield entry["names"], (entry["type"] or "").strip(), _joined([*body])
            entry = None
        if heading:
            section = ("google" if ":" in line else "numpy") if _OF_PARAMETERS.fullmatch(heading[1].lower()) else ""
        elif match and line.strip() and not _RULE.match(line):
            entry, entry_indent = match, indent
            body = [match["text"] or ""] if section == "google" else []
        elif entry is not None:
            body.append(line.strip())


def _from_fields(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names, type and text of the fields of Sphinx (``:param int size: text``)."""
    entry, body = None, list[str]()
    for line in [*lines, ":return:"]:
        match = _SPHINX_ENTRY.match(line)
        ends = match or _SPHINX_TYPE.match(line) or _SPHINX_OTHER.match(line)
        if entry is not None and (ends or (line and not line[0].isspace())):
            yield entry["names"], (entry["type"] or "").strip(), _joined(body)
            entry = None
        if match:
            entry, body = match, [match["text"]]
        elif entry is not None:
            body.append(line.strip())
        if typed := _SPHINX_TYPE.match(line):
            yield typed[1], typed[2].strip(), ""


def _joined(lines: Iterable[str]) -> str:
    """The paragraphs of these lines, each on one line."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
