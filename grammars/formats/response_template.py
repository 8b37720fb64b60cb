"""Candidate formats from a tokenizer's ``response_template``.

transformers' response templates (version 1) describe how to *parse* an answer, by literals and regular expressions that
skip white space.  A grammar needs the exact text, so each template yields candidates with and without line breaks; the
cross-check against the chat template selects the one that is really written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from grammars.tool_calls.pattern import escape_literal
from grammars.values.format import Format, Option, ReasoningFormat, ToolCallFormat
from special_tokens.errors import ModelError, shown

__all__ = ["read_response_template", "unread"]

_NAME = re.compile(r"\(\?P<(\w+)>(?:[^()\\]|\\.)*\)")
_ESCAPED = re.compile(r"\\([^\w\s])")
_WHITE = ("\n", "")


def read_response_template(template: Mapping[str, Any]) -> tuple[Format, ...]:
    """The formats that the template may describe, most likely first; () if none can be written.

    Raises `ModelError`, naming the place, if the data is not a response template.
    """
    fields = _checked(template)
    reasoning = _reasoning(fields.get("reasoning_content") or fields.get("thinking"))
    calls: list[ToolCallFormat | None] = [*_calls(fields.get("tool_calls"))] or [None]
    return tuple(Format("described", reasoning=reasoning, tool_calls=form) for form in calls if form or reasoning)


def unread(template: Mapping[str, Any]) -> str:
    """A note if the template's description of calls cannot be turned into a format, else ""."""
    described = any(format.tool_calls is not None for format in read_response_template(template))
    if template["fields"].get("tool_calls") is None or described:
        return ""
    return "tokenizer.response_template describes calls by patterns from which they cannot be written"


_PLACE = "tokenizer.response_template"
_FIELDS = ("reasoning_content", "thinking", "tool_calls")


def _checked(template: Any) -> Mapping[str, Any]:
    """The template's fields; raises `ModelError` if they are malformed."""
    if not isinstance(template, Mapping):
        raise ModelError(
            f"{shown(template)} is not a response template", place=_PLACE, expected="an object with fields"
        )
    fields = template.get("fields")
    if not isinstance(fields, Mapping):
        raise ModelError("the response template has no fields", place=_PLACE, expected="an object")
    for name in _FIELDS:
        field = fields.get(name)
        if field is None:
            continue
        if not isinstance(field, Mapping):
            raise ModelError(f"{shown(field)} is not an object", place=f"{_PLACE}.fields.{name}", expected="an object")
        for key, value in field.items():
            _check_member(key, value, f"{_PLACE}.fields.{name}.{key}")
    return fields


def _check_member(key: str, value: Any, place: str) -> None:
    if key in ("open", "close") and value is not None:
        several = isinstance(value, list) and value and all(isinstance(text, str) for text in value)
        if not isinstance(value, str) and not several:
            raise ModelError(f"{shown(value)} is not a string", place=place, expected="a string, or a list of strings")
    if key == "content_args" and not isinstance(value, Mapping):
        raise ModelError(f"{shown(value)} is not an object", place=place, expected="an object")
    if key.endswith("_pattern") and value is not None:
        try:
            re.compile(value)
        except (re.error, TypeError) as error:
            raise ModelError(f"not a regular expression: {error}", place=place, expected="a Python pattern") from None


def _reasoning(field: Any) -> ReasoningFormat | None:
    if not isinstance(field, Mapping) or not isinstance(field.get("open"), str) or not field.get("close"):
        return None
    close = field["close"]
    return ReasoningFormat(field["open"], close if isinstance(close, str) else close[0])


def _calls(field: Any) -> Iterator[ToolCallFormat]:
    if not isinstance(field, Mapping):
        return
    for white in _WHITE:
        start, end = _marker(field, "open", white), _marker(field, "close", white)
        if start is None or end is None:
            continue
        match field.get("content"):
            case "json" if "$name" not in start:
                yield from _objects(start, end)
            case "json" if field.get("content_args", {}).get("string_delims"):
                yield _delimited(start, end, _quote(field["content_args"]["string_delims"]))
            case "json":
                yield _named(start, end)
            case "xml-inline":
                yield from _tagged(start, end, field.get("content_args", {}), white)


def _marker(field: Mapping[str, Any], which: str, white: str) -> str | None:
    """A delimiter as a pattern with holes: a literal, or a regex that has only white space and named groups besides."""
    literal = field.get(which)
    if isinstance(literal, list):
        literal = literal[0]
    if isinstance(literal, str):
        return escape_literal(literal)
    return _literal(field.get(f"{which}_pattern"), white)


def _literal(pattern: Any, white: str) -> str | None:
    if not isinstance(pattern, str):
        return None
    text = escape_literal(re.sub(r"^\\s[*+]|\\s[*+]$", "", pattern))
    text = _NAME.sub(lambda group: f"${group[1]}", text)
    text = re.sub(r"\\s[*+]", lambda _: white, text)
    text = _ESCAPED.sub(r"\1", text).replace("\\n", "\n")
    return None if re.search(r"[\\^*+?()\[\]]", text.replace("$$", "")) else text


def _objects(start: str, end: str) -> Iterator[ToolCallFormat]:
    for white in _WHITE:
        call_start, call_end = start + white, white + end
        yield ToolCallFormat("json_in_tags", call_start=call_start, call_end=call_end, between=white, gap=white)


def _named(start: str, end: str) -> ToolCallFormat:
    before, after = start.split("$name", 1)
    options: tuple[tuple[str, Option], ...] = (("call", f"$name{after}$arguments"),)
    return ToolCallFormat("name_then_json", call_start=before, call_end=end, options=options)


def _quote(delimiters: Any) -> str:
    match delimiters:
        case [[str(quote), *_], *_]:
            return quote
    place = f"{_PLACE}.fields.tool_calls.content_args.string_delims"
    raise ModelError(
        f"{shown(delimiters)} is not a list of delimiters", place=place, expected="a list of pairs of strings"
    )


def _delimited(start: str, end: str, quote: str) -> ToolCallFormat:
    before, after = start.split("$name", 1)
    options: dict[str, Option] = {
        "call": f"$name{after}{{$parameters",
        "parameter": "$key:$value",
        "separator": ",",
        "order": "sorted",
        "quote": quote,
    }
    return ToolCallFormat("gemma", call_start=before, call_end="}" + end, options=tuple(sorted(options.items())))


def _tagged(start: str, end: str, arguments: Mapping[str, Any], white: str) -> Iterator[ToolCallFormat]:
    tag = _literal(arguments.get("tag_pattern"), white)
    if tag is None or "$key" not in tag or "$value" not in tag or "$name" not in start:
        return
    before, after = start.split("$name", 1)
    options = (("call", f"$name{after}{white}$parameters"), ("parameter", tag + white))
    for between in _WHITE:
        yield ToolCallFormat("xml_equals", call_start=before, call_end=end, between=between, options=options)
