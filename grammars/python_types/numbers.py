"""Patterns of the numbers that Python types write as text: decimals in strings, numbers as keys."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from grammars.json_schema.shapes.number_texts import multiples_regex, signed_bounds

__all__ = ["decimal_text_pattern", "key_pattern"]

_MAX_DIGITS = 40  # digits before the point, and after it, where the type sets no limit
_NUMBER_KEY = "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,6})?"
_INTEGER_KEY = "(?:0|-?[1-9][0-9]{0,99})"


def decimal_text_pattern(schema: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of a decimal in a string under pydantic's rules, and whether it keeps all of them.

    ``max_digits`` count all digits but zeros in front, ``decimal_places`` those after the point.
    """
    low, high = schema.get("gt", schema.get("ge")), schema.get("lt", schema.get("le"))
    try:
        ahead = signed_bounds(
            None if low is None else Fraction(low),
            None if high is None else Fraction(high),
            low_open="gt" in schema,
            high_open="lt" in schema,
        )
        step = schema.get("multiple_of")
        multiples = None if step is None else multiples_regex(Fraction(step))
    except ValueError:  # of too many digits
        ahead, step, multiples = (), 1, None
    is_kept = (step is None or multiples is not None) and not {"gt", "ge"} <= schema.keys()
    ahead += () if multiples is None else (multiples,)
    body = _digits(schema.get("max_digits"), schema.get("decimal_places"))
    return f"^{''.join(f'(?=(?:{regex})$)' for regex in ahead)}-?(?:{body})$", is_kept


def _digits(digits: int | None, places: int | None) -> str:
    if digits is None:
        return f"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS - 1}}}){_point(_MAX_DIGITS if places is None else places)}"
    if places is not None and digits <= places:
        return f"0\\.[0-9]{{1,{digits}}}"
    if places is not None:
        return f"(?:0|[1-9][0-9]{{0,{digits - places - 1}}}){_point(places)}"
    if digits > _MAX_DIGITS:  # one of the ways to share them
        return f"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS // 2 - 1}}}){_point(_MAX_DIGITS // 2)}"
    wholes = (f"[1-9][0-9]{{{size - 1}}}{_point(digits - size)}" for size in range(1, digits + 1))
    return "|".join([f"0{_point(digits)}", *wholes])


def _point(places: int) -> str:
    return f"(?:\\.[0-9]{{1,{places}}})?" if places > 0 else ""


def key_pattern(schema: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of keys that are numbers of ``schema``, and whether it keeps all of its bounds."""
    whole = schema["type"] == "integer"
    low_open, high_open = "exclusiveMinimum" in schema, "exclusiveMaximum" in schema
    low, high = (
        schema.get("exclusiveMinimum", schema.get("minimum")),
        schema.get("exclusiveMaximum", schema.get("maximum")),
    )
    bounds = signed_bounds(
        None if low is None else Fraction(low),
        None if high is None else Fraction(high),
        low_open=low_open,
        high_open=high_open,
        whole=whole,
    )
    ahead = "".join(f"(?=(?:{regex})$)" for regex in bounds)
    return f"^{ahead}{_INTEGER_KEY if whole else _NUMBER_KEY}$", "multipleOf" not in schema
