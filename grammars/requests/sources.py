"""The constraint of a request: in exactly one of several places, under the names of several servers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from grammars.compose.response_format import read_response_format
from grammars.requests.keys import CONSTRAINT_ALIASES
from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Llguidance, Regex, StructuralTag
from special_tokens.errors import GrammarError, RequestError, SchemaError, shown

__all__ = ["STRUCTURED_OUTPUTS", "constraint_of"]

#: The fields of ``structured_outputs``, of which exactly one must be there.
STRUCTURED_OUTPUTS = ("choice", "regex", "json", "json_object", "grammar", "structural_tag")
_CONSTRAINT_TYPES = ("regex", "lark", "json_schema", "json", "llguidance")
#: Other servers' fields next to them, with the values that change nothing.
_NEUTRAL = {
    "disable_fallback": (True, False),
    "disable_any_whitespace": (False,),
    "disable_additional_properties": (False,),
    "whitespace_pattern": (),
    "backend": ("auto", "llguidance", "guidance"),
}


def constraint_of(body: Mapping[str, Any], *, trusted: bool) -> tuple[str, Any]:
    """Return the name of the place of the constraint and the constraint; ``("", None)`` where there is none.

    Raises `RequestError` where two places have one, or where it cannot be read.
    """
    constraints: list[tuple[str, Any]] = []
    for place, given in (("response_format", body.get("response_format")), ("text.format", _text_format(body))):
        constraint = _response_format(given, place, trusted)
        if constraint is not None:
            constraints.append((place, constraint))
    if body.get("structured_outputs") is not None:
        constraints.append(_structured(body["structured_outputs"], trusted))
    for key, name in CONSTRAINT_ALIASES.items():
        if body.get(key) is not None:
            constraints.append((key, _of_kind(name, body[key], key, trusted)))
    if body.get("constraint") is not None or body.get("constraint_type") is not None:
        constraints.append(_legacy(body, trusted))
    if len(constraints) > 1:
        places = " and ".join(place for place, _ in constraints)
        raise RequestError(f"{len(constraints)} constraints at once", place=places, expected="exactly one")
    return constraints[0] if constraints else ("", None)


def _response_format(value: Any, place: str, trusted: bool) -> Any:
    if value == {}:
        raise RequestError("there is no type", place=place, expected='{"type": ...}')
    return read_response_format(value, place, trusted=trusted) if isinstance(value, Mapping) else value


def _text_format(body: Mapping[str, Any]) -> Any:
    """The format of the Responses API."""
    text = body.get("text")
    if text is None:
        return None
    if not isinstance(text, Mapping):
        raise RequestError("not an object", place="text", expected='{"format": {...}}')
    unknown = sorted(set(text) - {"format", "verbosity"})
    if unknown:
        raise RequestError(f"unknown key {shown(unknown[0])}", place="text", expected="format")
    return text.get("format")


def _structured(value: Any, trusted: bool) -> tuple[str, Any]:
    place = "structured_outputs"
    if isinstance(value, str):
        value = _json(value, place)
    if not isinstance(value, Mapping):
        raise RequestError("not an object", place=place, expected=_one_of())
    for key, neutral in _NEUTRAL.items():
        if value.get(key) is not None and value[key] not in neutral:
            raise RequestError(f"{shown(value[key])} is not supported", place=f"{place}.{key}", expected="no such key")
    unknown = sorted(set(value) - {*STRUCTURED_OUTPUTS, *_NEUTRAL})
    if unknown:
        raise RequestError(f"unknown key {shown(unknown[0])}", place=place, expected=_one_of())
    given = [name for name in STRUCTURED_OUTPUTS if value.get(name) is not None]
    if value.get("json_object") is False:
        given.remove("json_object")
    if len(given) != 1:
        message = f"{len(given)} constraints at once" if given else "there is no constraint"
        raise RequestError(message, place=place, expected=_one_of())
    place = f"{place}.{given[0]}"
    return place, _of_kind(given[0], value[given[0]], place, trusted)


def _one_of() -> str:
    return "exactly one of " + ", ".join(STRUCTURED_OUTPUTS)


def _of_kind(kind: str, value: Any, place: str, trusted: bool) -> Any:
    match kind:
        case "choice":
            if not isinstance(value, list | tuple):
                raise GrammarError(f"{type(value).__name__} is not a list", place=place, expected="a list of texts")
            return Choice(value)
        case "regex":
            return Regex(value)
        case "json":
            return _schema(value, place)
        case "json_object":
            if value is not True:
                raise RequestError(f"{shown(value)} is not true", place=place)
            return JsonSchema({"type": "object"})
        case "structural_tag":
            return StructuralTag(value, trusted)
    return _grammar(value, place, trusted)


def _schema(value: Any, place: str) -> JsonSchema:
    if isinstance(value, str):
        value = _json(value, place)
    if not isinstance(value, Mapping | bool):
        raise SchemaError(f"{type(value).__name__} is not a schema", place=place, expected="an object or JSON text")
    return JsonSchema(value)


_GBNF = re.compile(r"(?m)^[ \t]*[A-Za-z0-9_-]+[ \t]*::=")


def _grammar(value: Any, place: str, trusted: bool) -> Any:
    """A grammar in one of three syntaxes: GBNF has ``::=``, llguidance's own form is an object, the rest is Lark."""
    if isinstance(value, Mapping) and set(value) == {"type", "value"}:  # mistral.rs
        kinds = {"regex": "regex", "json_schema": "json"}
        kind = value["type"]
        if isinstance(kind, str) and kind in kinds:
            return _of_kind(kinds[kind], value["value"], f"{place}.value", trusted)
        if kind not in ("lark", "llguidance"):
            raise RequestError(f"unknown type {shown(kind)}", place=f"{place}.type",
                               expected="regex, json_schema, lark or llguidance")  # fmt: skip
        return Llguidance(value["value"], trusted)
    if isinstance(value, Mapping):
        return Llguidance(value, trusted)
    if not isinstance(value, str) or not value.strip():
        raise GrammarError("the grammar is empty", place=place, expected="Lark or GBNF text")
    if value.lstrip().startswith("{"):
        return Llguidance(value, trusted)
    return Gbnf(value) if _GBNF.search(value) else Lark(value, trusted)


def _legacy(body: Mapping[str, Any], trusted: bool) -> tuple[str, Any]:
    value, kind = body.get("constraint"), body.get("constraint_type") or "regex"
    if value is None:
        raise RequestError("there is no constraint", place="constraint", expected="a text next to constraint_type")
    if kind not in _CONSTRAINT_TYPES:
        raise RequestError(
            f"unknown type {shown(kind)}", place="constraint_type", expected=", ".join(_CONSTRAINT_TYPES)
        )
    if kind == "regex":
        return "constraint", Regex(value)
    if kind == "lark":
        return "constraint", Lark(value, trusted)
    if kind == "llguidance":
        if not trusted:
            raise RequestError(
                "a grammar for the engine as it stands, from a caller that is not trusted",
                place="constraint_type",
                expected="regex, lark, json_schema or json",
                hint="pass trusted=True for grammars of your own, or send it as structured_outputs.grammar, "
                "where it is checked",
            )
        if not isinstance(value, str | Mapping):
            raise GrammarError(f"{type(value).__name__} is not a grammar", place="constraint",
                               expected='{"grammars": [...]}, its JSON text, or Lark')  # fmt: skip
        return "constraint", Llguidance(value, trusted)
    return "constraint", _schema(value, "constraint")


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON: {error}", place=place, expected="a JSON object") from None
