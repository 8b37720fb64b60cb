"""Keywords of single values: types, constants, numbers, lengths, patterns, formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grammars.json_schema.direct.copy import Copy, NotDirect, Reader
from grammars.json_schema.direct.patterns import engine_pattern, format_pattern, pattern_language
from grammars.json_schema.formats import FORMATS, ignored_format
from grammars.json_schema.keywords.numeric import allow
from grammars.json_schema.keywords.text import written_out
from grammars.json_schema.numbers import shortest_number
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.regular import ANY, inter, rep, shortest
from grammars.json_schema.report import Outcome

__all__ = ["READERS", "counted", "keep"]

_MAX_LITERAL = 10_000  # characters of one constant: the engine's first mask grows with its square
_MAX_TOGETHER = 2_000  # characters of patterns and formats that meet a length or each other
_SAFE = 2**53
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = {"minLength": 10_000, "maxLength": 2**31}


def keep(keyword: str) -> Reader:
    """A reader that takes the value as it is, once it is of the right kind."""
    is_right = CHECKS[keyword][0]

    def read(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not is_right(value):
            raise NotDirect
        out[keyword] = value

    return read


def counted(keyword: str, most: int) -> Reader:
    """A reader of counts up to ``most``."""

    def read(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise NotDirect
        out[keyword] = value

    return read


# -- constants


def _enum(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value or "const" in schema or "nullable" in schema:
        raise NotDirect
    for one in value:
        if isinstance(one, str):
            if len(one) > _MAX_LITERAL:
                raise NotDirect
            copy.rare_text = copy.rare_text or _RARE.search(one) is not None
        elif one is not None and not isinstance(one, bool):
            _check_safe(one)
    out["enum"] = value


def _const(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if copy.dialect.order < 6:
        raise NotDirect
    _enum(copy, [value], {}, out)


_RARE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")  # what needs an escape that is not a short one


# -- numbers


def _bound(keyword: str) -> Reader:
    """Whole bounds are exact in the engine; ``integer`` and ``number`` only, as a type says which."""
    exclusive, bound = f"exclusive{keyword.capitalize()}", keyword.removeprefix("exclusive").lower()
    other = exclusive if keyword == bound else bound

    def read(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        kinds = _kinds(schema)
        if kinds and not kinds & {"integer", "number"}:
            return  # says nothing about other types
        if not kinds or abs(value) >= 2**63 - 1 or (isinstance(value, float) and "integer" in kinds):
            raise NotDirect
        if isinstance(value, int) and "number" not in kinds and abs(value) >= _SAFE and int(float(value)) == value:
            copy.note(keyword, Outcome.NARROWED, "integers are written up to 64 bits")
        elif not isinstance(value, float) or keyword[0] == "e" or round(value, 6) != value or abs(value) > 10**9:
            _check_safe(value)  # fractions are exact in the engine where they are inclusive
        if other in schema:
            raise NotDirect
        out[keyword] = value
        if "number" in kinds:
            copy.note(keyword, Outcome.NARROWED, "numbers with bounds are written without exponent")

    return read


def _multiple_of(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Whole steps, and powers of ten, are exact up to the zeros that a number may end with."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    power = value in (0.1, 0.01, 0.001, 0.0001)
    kinds = _kinds(schema)
    if not kinds & {"integer", "number"} or isinstance(value, bool):
        raise NotDirect
    if not (power or (isinstance(value, int) and 1 <= value <= 1_000)):
        raise NotDirect
    bounds = {k: schema[k] for k in _BOUNDS if k in schema}
    if any(isinstance(v, bool) for v in bounds.values()):
        raise NotDirect
    if bounds and shortest_number(allow({**bounds, "multipleOf": value})) is None:
        raise NotDirect  # no multiple between them was found
    out["multipleOf"] = value
    if "number" in kinds:
        copy.note("multipleOf", Outcome.NARROWED, "multiples are written without exponent or zeros at the end")


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    named = schema.get("type")
    return {named} if isinstance(named, str) else set(named) if isinstance(named, list) else set()


def _check_safe(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -_SAFE < value < _SAFE:
        raise NotDirect


# -- strings


def _pattern(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    found = engine_pattern(value) if isinstance(value, str) else None
    if found is None:
        raise NotDirect
    out["pattern"] = found
    named = schema.get("format")
    if "minLength" in schema or "maxLength" in schema or (isinstance(named, str) and named in FORMATS):
        _check_words(schema)


def _format(copy: Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, str):
        raise NotDirect
    row = FORMATS.get(value)
    if row is None:
        copy.note("format", Outcome.EXACT, ignored_format(value))
        return
    found = format_pattern(value)
    if found is None or ("pattern" in schema and "allOf" in schema):
        raise NotDirect
    if row.reason:
        copy.note("format", row.outcome, row.reason)
    if "pattern" in schema:
        out["allOf"] = [{"pattern": found}]
        copy.merges *= 2
        return
    out["pattern"] = found
    if "minLength" in schema or "maxLength" in schema:
        _check_words(schema)


def _check_words(schema: Mapping[str, Any]) -> None:
    """Patterns, formats and lengths that stand together must surely leave a word, or the engine refuses them."""
    if not all(isinstance(schema.get(k, 0), int) for k in _LENGTHS):
        raise NotDirect
    terms = [pattern_language(schema["pattern"])] if "pattern" in schema else []
    terms += [FORMATS[schema["format"]].language] if schema.get("format") in FORMATS else []
    if sum(map(written_out, terms)) > _MAX_TOGETHER // len(terms) ** 2 or (
        "format" in schema and written_out(terms[-1]) > 400
    ):
        raise NotDirect  # the engine gives up on asking whether anything is left
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    word = shortest(terms[0]) if len(terms) == 1 else None
    if isinstance(word, str) and least <= len(word) <= (len(word) if most is None else most):
        return
    if least > 500 or not isinstance(shortest(inter(rep(ANY, least, most), *terms), 600), str):
        raise NotDirect


READERS: dict[str, Reader] = {
    "type": keep("type"),
    "enum": _enum,
    "const": _const,
    **{keyword: _bound(keyword) for keyword in _BOUNDS},
    "multipleOf": _multiple_of,
    **{keyword: counted(keyword, most) for keyword, most in _LENGTHS.items()},
    "pattern": _pattern,
    "format": _format,
}
