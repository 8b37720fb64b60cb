"""``minimum``, ``maximum``, their exclusive forms and ``multipleOf``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from grammars.json_schema.numbers import Numbers, negated

__all__ = ["KEYWORDS", "allow", "deny", "exact"]

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def exact(value: Any) -> Fraction:
    """A JSON number as it is written: 0.1 is one tenth, not the nearest float."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def allow(schema: Mapping[str, Any]) -> Numbers:
    """The numbers that satisfy the keywords."""
    low, low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    steps = (exact(schema["multipleOf"]),) if "multipleOf" in schema else ()
    return Numbers(low, low_open, high, high_open, steps=steps)


def _bound(schema: Mapping[str, Any], name: str, exclusive: str, tighter: Any) -> tuple[Fraction | None, bool]:
    given = [(exact(schema[key]), key == exclusive) for key in (name, exclusive) if key in schema]
    if not given:
        return None, False
    bound = tighter(value for value, _ in given)
    return bound, any(is_open for value, is_open in given if value == bound)


def deny(schema: Mapping[str, Any]) -> tuple[Numbers, ...]:
    """The numbers that break at least one keyword."""
    return negated(allow(schema))
