"""Response formats that are not JSON schemas, as the values that callers pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from special_tokens.errors import RequestError

__all__ = ["Choice", "FormatOf", "Gbnf", "JsonSchema", "Lark", "Llguidance", "Regex", "StructuralTag"]

T_co = TypeVar("T_co", covariant=True)


class FormatOf(Generic[T_co]):
    """A response format whose value is of this type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Regex(FormatOf[str]):
    r"""Text that one regular expression matches as a whole (the syntax of Python's ``re``).

    ``\d``, ``\w`` and ``\s`` are ASCII; with ``unicode`` they are the digits, letters and spaces of every script.
    Look-around and word boundaries are allowed, in the syntax of JSON schemas' patterns.
    """

    pattern: str
    unicode: bool = False


@dataclass(frozen=True, slots=True)
class Choice(FormatOf[str]):
    """Exactly one of these texts.  Raises `RequestError` for options that are not a list."""

    options: Sequence[str]

    def __init__(self, options: Sequence[str]) -> None:
        if not isinstance(options, Iterable):
            raise RequestError(f"{type(options).__name__} is not a list", place="choice", expected="a list of texts")
        object.__setattr__(self, "options", (options,) if isinstance(options, str) else tuple(options))


@dataclass(frozen=True, slots=True)
class Lark(FormatOf[str]):
    """Text of a Lark grammar in the engine's dialect.

    ``trusted`` allows token syntax, ``@name`` and ``%llguidance``, with which a grammar could write control
    tokens; never set it for a grammar that a client sent.
    """

    grammar: str
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Gbnf(FormatOf[str]):
    """Text of a GBNF grammar (llama.cpp), which begins at ``root``."""

    grammar: str


@dataclass(frozen=True, slots=True)
class Llguidance(FormatOf[str]):
    """A grammar in llguidance's own form: ``{"grammars": [...]}`` with one, its JSON text, or Lark.

    ``trusted`` as in `Lark`.
    """

    grammar: Mapping[str, Any] | str
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class StructuralTag(FormatOf[str]):
    """Free text with tagged parts, in the structural-tag format of OpenAI-compatible servers.

    ``trusted`` allows its token-level formats and lets texts that spell markers be those tokens.
    """

    spec: Mapping[str, Any] | str
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON schema or a Python type; with ``strict`` it is refused where the masks cannot enforce all of it.

    ``documents`` are other documents by URI that its references may lead to; nothing is ever fetched.  Keys come in the
    order of the schema; ``key_order`` is the list of those that come first (``["reasoning"]``), or ``"any"``.
    ``separators``: those of the model's family, or ``"compact"``.  A text as schema is read as JSON.
    """

    schema: Any
    name: str = ""
    strict: bool | None = None
    documents: Mapping[str, Any] | None = None
    key_order: Literal["schema", "any"] | Sequence[str] = "schema"
    separators: Literal["family", "compact"] = "family"
