"""Make a `Format` from plain data: the ``[format]`` section of a family file, or JSON.

Unknown keys are errors, so that a typo in a family file is not silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from grammars.values.format import (
    Anchor,
    ContentFormat,
    EffortSwitch,
    Ends,
    Format,
    InputNeeds,
    ReasoningFormat,
    Switch,
    ToolCallFormat,
)
from grammars.values.spelling import Spelling
from special_tokens import Family
from special_tokens.errors import ModelError, shown

__all__ = ["format_from_data", "format_of_family"]

T = TypeVar("T")


def format_of_family(family: Family) -> Format:
    """The format stated in a family file."""
    data = format_from_data({"name": family.id, **family.format}, place=f"{family.id}.toml [format]")
    ends = data.ends if data.ends.content else Ends(family.ends, data.ends.calls, family.not_ends)
    evidence = tuple((key, f"family {family.id}") for key in family.format)
    return Format(family.id, data.reasoning, data.content, data.tool_calls, ends, data.inputs, data.spelling, evidence)


def format_from_data(data: Mapping[str, Any], *, place: str = "format") -> Format:
    """Make a format from plain values; raises `ModelError` naming an unknown key and its place."""
    body = dict(data)
    parts: dict[str, Any] = {
        "reasoning": _reasoning,
        "content": lambda d, p: _record(ContentFormat, d, p),
        "tool_calls": _tool_calls,
        "ends": lambda d, p: _record(Ends, _tuples(d), p),
        "inputs": lambda d, p: _record(InputNeeds, _pairs(d, "kwargs"), p),
        "spelling": lambda d, p: _record(Spelling, d, p),
    }
    for key, read in parts.items():
        if body.get(key) is not None:
            body[key] = read(body[key], f"{place}.{key}")
        else:
            body.pop(key, None)
    if "evidence" in body:
        body["evidence"] = tuple((key, how) for key, how in body["evidence"])
    return _record(Format, body, place)


def _reasoning(data: Mapping[str, Any], place: str) -> ReasoningFormat:
    body = dict(data)
    if body.get("switch") is not None:
        body["switch"] = _record(Switch, body["switch"], f"{place}.switch")
    if body.get("effort_switch") is not None:
        body["effort_switch"] = _record(EffortSwitch, _tuples(body["effort_switch"]), f"{place}.effort_switch")
    return _record(ReasoningFormat, body, place)


def _tool_calls(data: Mapping[str, Any], place: str) -> ToolCallFormat:
    body = _pairs(data, "options")
    if body.get("spelling") is not None:
        body["spelling"] = _record(Spelling, body["spelling"], f"{place}.spelling")
    body["anchors"] = tuple(_record(Anchor, anchor, f"{place}.anchors") for anchor in body.get("anchors", ()))
    return _record(ToolCallFormat, body, place)


def _pairs(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    body = dict(data)
    if key in body:
        value = body[key]
        body[key] = tuple(sorted(value.items() if isinstance(value, Mapping) else ((k, v) for k, v in value)))
    return body


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


def _record(kind: type[T], data: Mapping[str, Any], place: str) -> T:
    field_names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(data) - field_names)
    if unknown:
        raise ModelError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(field_names)))
    try:
        return kind(**data)
    except TypeError as error:
        raise ModelError(str(error), place=place, expected=", ".join(sorted(field_names))) from None
