"""Keywords of single values in a schema that is passed through: types, constants, numbers, strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from grammars.json_schema.document.string_formats import FORMATS, later_format_reason, unknown_format_reason
from grammars.json_schema.keywords.numeric import allow
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.passthrough.copy import KeywordReader, SchemaCopy
from grammars.json_schema.passthrough.lengths import pattern_next_to_length, pattern_with_length
from grammars.json_schema.passthrough.patterns import (
    NEEDS_LONG_ESCAPE,
    EnginePattern,
    engine_pattern,
    format_pattern,
    pattern_language,
)
from grammars.json_schema.passthrough.refusal import NotPassedThrough
from grammars.json_schema.shapes.equality_keys import distinct_values
from grammars.json_schema.shapes.numbers import shortest_number
from grammars.limits.schema_limits import timely
from grammars.regular.backtracking import backtracking_steps
from grammars.regular.languages import Regular, lengths, matches, shortest
from grammars.values.json_copy import json_copy
from grammars.values.report import Outcome

__all__ = ["READERS", "copy_count", "copy_verbatim"]

_MAX_LITERAL = 10_000  # characters of one constant: the engine's first mask grows with its square
_MAX_CONSTANTS = 500  # items and members of all constants (at least 1 each): each is a rule of the engine
_MAX_CONSTANT_DEPTH = 8
_MOST_EFFORT = 1_000_000  # of a pattern over one constant
_DRAFT_4 = 4
_SAFE = 2**53  # whole numbers below are exact in the engine
_LONG = 2**63 - 1  # the engine's largest integer
_LONG_ROUNDED = 9_223_372_036_854_776_000  # the same as JavaScript writes it
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = {"minLength": 10_000, "maxLength": 2**31}


def copy_verbatim(keyword: str) -> KeywordReader:
    """Return a reader that copies the value unchanged."""

    def read(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        out[keyword] = value.copy() if type(value) is list else value

    return read


def copy_count(keyword: str, most: int) -> KeywordReader:
    """Return a reader of counts up to ``most``."""

    def read(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise NotPassedThrough
        out[keyword] = value

    return read


# -- constants


def _enum(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value or "const" in schema:
        raise NotPassedThrough
    _constants(copy, value, schema, out)


def _constants(copy: SchemaCopy, values: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if any(isinstance(one, list | dict) for one in values) and not schema.keys() & CHECKS.keys() <= _ALONE:
        raise NotPassedThrough  # other keywords are not checked against them
    if not _CONSTRAINING.isdisjoint(schema) and not any(_satisfies(one, schema) for one in values):
        raise NotPassedThrough  # unsatisfiable: our own compiler says where
    if all(type(one) is str for one in values):
        whole = "".join(values)
        if len(whole) > _MAX_LITERAL and max(map(len, values)) > _MAX_LITERAL:
            raise NotPassedThrough
        if "pattern" in schema and _is_costly_to_intersect(schema["pattern"], max(map(len, values))):
            raise NotPassedThrough
        copy.has_long_escapes = copy.has_long_escapes or NEEDS_LONG_ESCAPE.search(whole) is not None
        out["enum"] = values.copy()
        return
    if any(isinstance(one, list | dict) for one in values):
        values = [one for _, one in distinct_values(timely(values))]  # each is a rule of the engine
    out["enum"] = [_constant(copy, one) for one in values]
    if any(isinstance(one, float) for one in values):
        copy.note(
            "enum" if "enum" in schema else "const", Outcome.NARROWED, "whole numbers are written without a point"
        )


def _is_costly_to_intersect(pattern: Any, length: int) -> bool:
    """Whether the engine may give up intersecting words of this length with a pattern, though we test each word."""
    return isinstance(pattern, str) and backtracking_steps(pattern, length) > _MOST_EFFORT


def _constant(copy: SchemaCopy, value: Any, depth: int = _MAX_CONSTANT_DEPTH) -> Any:
    """The value, whole numbers without a decimal point."""
    match value:
        case str():
            if len(value) > _MAX_LITERAL:
                raise NotPassedThrough
            copy.has_long_escapes = copy.has_long_escapes or NEEDS_LONG_ESCAPE.search(value) is not None
            return value if type(value) is str else json_copy(value)
        case None | bool():
            return value
        case list() | dict():
            copy.constants += max(len(value), 1)
            if depth == 0 or copy.constants > _MAX_CONSTANTS:
                raise NotPassedThrough
            if isinstance(value, list):
                return [_constant(copy, one, depth - 1) for one in value]
            copy.ordered = copy.ordered or len(value) > 1
            return {_constant(copy, key): _constant(copy, one, depth - 1) for key, one in value.items()}
        case float() if value.is_integer():
            value = int(value)
    _check_safe(value)
    return value if type(value) in (int, float) else json_copy(value)


def _const(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if copy.dialect.order < 6 or "enum" in schema:
        raise NotPassedThrough
    _constants(copy, [value], schema, out)


_ALONE = {"type", "enum", "const"}
_CONSTRAINING = frozenset((*_BOUNDS, *_LENGTHS, "multipleOf", "pattern", "format"))


def _satisfies(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a constant satisfies its sibling bounds, lengths, patterns and formats."""
    if isinstance(value, str):
        least, most = (schema.get(keyword) for keyword in _LENGTHS)
        fits = (least is None or _number(least) <= len(value)) and (most is None or len(value) <= _number(most))
        return fits and all(matches(term, value) for term in _terms(schema))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    asked = {keyword: _number(schema[keyword]) for keyword in (*_BOUNDS, "multipleOf") if keyword in schema}
    step = asked.get("multipleOf", 0)
    return (
        asked.get("minimum", value) <= value <= asked.get("maximum", value)
        and ("exclusiveMinimum" not in asked or asked["exclusiveMinimum"] < value)
        and ("exclusiveMaximum" not in asked or value < asked["exclusiveMaximum"])
        and (step <= 0 or _is_multiple(value, step))
    )


def _is_multiple(value: float, step: float) -> bool:
    try:
        return Decimal(str(value)) % Decimal(str(step)) == 0
    except InvalidOperation:  # too many digits
        raise NotPassedThrough from None


def _number(value: Any) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise NotPassedThrough
    return value


# -- numbers


def _bound(keyword: str) -> KeywordReader:
    """A reader of bounds: whole ones are exact in the engine, for ``integer`` and ``number``, depending on the type.

    Exclusive bounds of integers far out are refused: the engine adds one to them as a double, which loses it.
    """
    exclusive, bound = f"exclusive{keyword.capitalize()}", keyword.removeprefix("exclusive").lower()
    other = exclusive if keyword == bound else bound

    def read(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if isinstance(value, bool) or (keyword != bound and copy.dialect.order == _DRAFT_4):
            raise NotPassedThrough
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        kinds = _kinds(schema) or {"number"}
        if not kinds & {"integer", "number"}:
            return  # does not constrain other types
        if isinstance(value, float) and "integer" in kinds:
            raise NotPassedThrough
        if "number" not in kinds and keyword == bound and _SAFE <= abs(value) < _LONG and int(float(value)) == value:
            copy.note(keyword, Outcome.NARROWED, "integers are written up to 64 bits")
        elif "number" not in kinds and bound == "maximum" and _LONG + (keyword != bound) <= value <= _LONG_ROUNDED:
            copy.note(keyword, Outcome.NARROWED, "integers are written up to 64 bits")
            value = _LONG
        elif not isinstance(value, float) or keyword != bound or not _is_kept_by_engine(value, bound):
            _check_safe(value)
        if other in schema or (keyword != bound and value != 0 and "number" in kinds):
            raise NotPassedThrough  # 0.99999999999999999999 is 1 to a reader that keeps doubles: digits count there
        out[keyword] = value
        if "number" in kinds:
            copy.note(keyword, Outcome.NARROWED, "numbers with bounds are written without exponent")

    return read


def _is_kept_by_engine(value: float, bound: str) -> bool:
    """Whether the inclusive bound is exact in the engine.

    llguidance 1.9.1 refuses 99.9 under a maximum of 99.99: a prefix of the bound's own digits, towards zero.
    """
    outward = (value > 0) == (bound == "maximum")
    return abs(value) <= 10**9 and round(value, 1 if outward else 6) == value


def _multiple_of(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Whole steps, and powers of ten, are exact up to the zeros that a number may end with."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    power = value in (0.1, 0.01, 0.001, 0.0001)
    kinds = _kinds(schema)
    if not kinds & {"integer", "number"} or isinstance(value, bool):
        raise NotPassedThrough
    if not (power or (isinstance(value, int) and 1 <= value <= 1_000)):
        raise NotPassedThrough
    bounds = {k: schema[k] for k in _BOUNDS if k in schema}
    if any(isinstance(v, bool) for v in bounds.values()):
        raise NotPassedThrough
    if bounds and shortest_number(allow({**bounds, "multipleOf": value})) is None:
        raise NotPassedThrough  # no multiple between them was found
    out["multipleOf"] = value
    if "number" in kinds:
        copy.note("multipleOf", Outcome.NARROWED, "multiples are written without exponent or zeros at the end")


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    named = schema.get("type")
    many = named if isinstance(named, list) else [named]
    return {kind for kind in many if isinstance(kind, str)}


def _check_safe(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -_SAFE < value < _SAFE:
        raise NotPassedThrough


# -- strings


def _length(keyword: str, most: int) -> KeywordReader:
    """A reader of lengths; those that patterns and formats imply are dropped."""
    take = copy_count(keyword, most)

    def read(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        take(copy, value, schema, out)
        if _is_kept(keyword, value, _terms(schema)) or _fitted(schema) is not None:
            del out[keyword]

    return read


def _fitted(schema: Mapping[str, Any]) -> EnginePattern | None:
    """The pattern of a schema with its lengths merged in, if there are any and that is possible."""
    least, most = _bounds(schema)
    if not isinstance(schema.get("pattern"), str) or (not least and most is None):
        return None
    return pattern_with_length(schema["pattern"], least, most)


def _bounds(schema: Mapping[str, Any]) -> tuple[int, int | None]:
    """The lengths of a schema; raises `NotPassedThrough` if they are not valid."""
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    for size in (least, 0 if most is None else most):
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LENGTHS["maxLength"]:
            raise NotPassedThrough
    return least, most


def _terms(schema: Mapping[str, Any]) -> list[Regular]:
    """The languages of a pattern and a format."""
    named = schema.get("format")
    terms = [pattern_language(schema["pattern"])] if isinstance(schema.get("pattern"), str) else []
    return [*terms, FORMATS[named].language] if isinstance(named, str) and named in FORMATS else terms


def _is_kept(keyword: str, value: int, terms: Sequence[Regular]) -> bool:
    for low, high in map(lengths, terms):
        if low >= value if keyword == "minLength" else high is not None and high <= value:
            return True
    return False


def _pattern(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    terms = _terms(schema)
    if len(terms) > 1:
        raise NotPassedThrough  # the engine may give up intersecting a pattern with a format
    bounds = [(k, schema[k]) for k in _LENGTHS if k in schema]
    is_kept = all(isinstance(size, int) and _is_kept(keyword, size, terms) for keyword, size in bounds)
    found = (
        (engine_pattern(value) if is_kept else None)
        or _fitted(schema)
        or pattern_next_to_length(value, *_bounds(schema))
    )
    if found is None:
        raise NotPassedThrough
    out["pattern"] = copy.patterned("pattern", found)


def _format(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    row = FORMATS.get(value)
    if row is None:
        copy.note("format", Outcome.EXACT, unknown_format_reason(value))
        return
    found = format_pattern(value)
    if found is None or "pattern" in schema:
        raise NotPassedThrough
    for reason in (later_format_reason(value, copy.dialect), row.reason):
        if reason:
            copy.note("format", Outcome.NARROWED, reason)
    out["pattern"] = found
    if "minLength" in schema or "maxLength" in schema:
        _check_lengths(schema)


def _check_lengths(schema: Mapping[str, Any]) -> None:
    """A format and lengths together must allow its shortest word, or the engine may refuse them."""
    least, most = (schema.get(k) for k in _LENGTHS)
    if not all(n is None or (isinstance(n, int) and not isinstance(n, bool)) for n in (least, most)):
        raise NotPassedThrough
    (term,) = _terms(schema)
    if least is not None and _is_kept("minLength", least, [term]):
        least = None
    if most is not None and _is_kept("maxLength", most, [term]):
        most = None
    if least is None and most is None:
        return
    word = shortest(term)
    if not isinstance(word, str) or not (least or 0) <= len(word) <= (len(word) if most is None else most):
        raise NotPassedThrough  # the engine may give up deciding emptiness; lengths that this word meets are safe


READERS: dict[str, KeywordReader] = {
    "type": copy_verbatim("type"),
    "enum": _enum,
    "const": _const,
    **{keyword: _bound(keyword) for keyword in _BOUNDS},
    "multipleOf": _multiple_of,
    **{keyword: _length(keyword, most) for keyword, most in _LENGTHS.items()},
    "pattern": _pattern,
    "format": _format,
}
