"""``minimum``, ``maximum``, their exclusive forms and ``multipleOf``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.number_texts import multiples_regex
from grammars.json_schema.shapes.numbers import ANY_NUMBER, Numbers, complement
from grammars.values.report import Outcome, ReportRow

__all__ = ["KEYWORDS", "allow", "deny", "exact"]

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def exact(value: Any) -> Fraction:
    """A JSON number exactly as written: 0.1 is one tenth, not the nearest float."""
    return Fraction(value) if isinstance(value, int) else Fraction(float.__repr__(value))


def allow(schema: Mapping[str, Any], pointer: str = "") -> Numbers:
    """The numbers that satisfy the keywords of the schema at ``pointer``."""
    low, low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    steps = (exact(schema["multipleOf"]),) if "multipleOf" in schema else ()
    return Numbers(low, low_open, high, high_open, steps=steps, steps_at=(pointer,) if steps else ())


def _bound(schema: Mapping[str, Any], name: str, exclusive: str, tighter: Any) -> tuple[Fraction | None, bool]:
    given = [(exact(schema[key]), key == exclusive) for key in (name, exclusive) if key in schema]
    if not given:
        return None, False
    bound = tighter(value for value, _ in given)
    return bound, any(is_open for value, is_open in given if value == bound)


def deny(schema: Mapping[str, Any], place: Place, notes: list[ReportRow]) -> tuple[Numbers, ...]:
    """The numbers that break at least one keyword; all, with a note, if the last digits do not decide a step."""
    allowed = allow(schema)
    if any(multiples_regex(step) is None for step in allowed.steps):
        reason = "that a number is not a multiple cannot be enforced for this step"
        notes.append(ReportRow(place.pointer, "multipleOf", Outcome.RELAXED, reason))
        return (ANY_NUMBER,)
    return complement(allowed)
