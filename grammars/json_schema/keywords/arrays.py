"""The keywords of arrays: ``prefixItems``, ``items``, ``contains`` with its counts, ``minItems``, ``maxItems``,
``uniqueItems``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.shapes import ANY_ARRAY, TRUE, ArrayForm, Conj, Count, Evaluated, negation
from grammars.values.report import Outcome, ReportRow

__all__ = ["KEYWORDS", "allow", "countable", "deny", "upper_bound"]

_COUNTED = 2**31 - 1

KEYWORDS = ("prefixItems", "items", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems")

Child = Callable[..., Conj | None]


def allow(schema: Mapping[str, Any], place: Place, child: Child) -> ArrayForm | None:
    """The arrays that satisfy the keywords; None when the keywords contradict each other."""
    prefix = tuple(child(place, s, "prefixItems", i) for i, s in enumerate(schema.get("prefixItems", ())))
    other_items = child(place, schema["items"], "items") if "items" in schema else TRUE
    counts: tuple[Count, ...] = ()
    if "contains" in schema:
        item = child(place, schema["contains"], "contains")
        least, most = schema.get("minContains", 1), upper_bound(schema, "maxContains")
        if item is None:
            if least:
                return None
        else:
            counts = (Count(item, least, most),) if least or most is not None else ()
    return ArrayForm(
        prefix,
        other_items,
        schema.get("minItems", 0),
        upper_bound(schema, "maxItems"),
        counts,
        (place.number,) if schema.get("uniqueItems") else (),
        Evaluated(items=len(prefix), contains="contains" in schema, every_item="items" in schema),
    )


def deny(schema: Mapping[str, Any], place: Place, child: Child, notes: list[ReportRow]) -> tuple[ArrayForm, ...]:
    """Arrays that break at least one keyword."""
    out: list[ArrayForm] = []
    prefix = schema.get("prefixItems", ())
    for i, item in enumerate(prefix):
        broken = negation(child(place, item, "prefixItems", i))
        if broken is not None:
            out.append(ArrayForm((TRUE,) * i + (broken,), least=i + 1))
    if "items" in schema:
        broken = negation(child(place, schema["items"], "items"))
        if broken is not None:
            out.append(ArrayForm(counts=(Count(broken, 1, None, start=len(prefix)),)))
    if "contains" in schema:
        out += _deny_contains(schema, child(place, schema["contains"], "contains"))
    if schema.get("minItems"):
        out.append(ArrayForm(most=countable(schema["minItems"] - 1)))
    if upper_bound(schema, "maxItems") is not None:
        out.append(ArrayForm(least=schema["maxItems"] + 1))
    if schema.get("uniqueItems"):
        reason = "its negation is not enforced: that two items are equal cannot be demanded"
        notes.append(ReportRow(place.pointer, "uniqueItems", Outcome.RELAXED, reason))
        out.append(ANY_ARRAY)
    return tuple(out)


def _deny_contains(schema: Mapping[str, Any], item: Conj | None) -> list[ArrayForm]:
    least, most = schema.get("minContains", 1), upper_bound(schema, "maxContains")
    if item is None:
        return [ANY_ARRAY] if least else []
    out = [ArrayForm(counts=(Count(item, 0, countable(least - 1)),))] if least else []
    if most is not None:
        out.append(ArrayForm(counts=(Count(item, most + 1, None),)))
    return out


def upper_bound(schema: Mapping[str, Any], keyword: str) -> int | None:
    """The value of ``maxItems`` or a keyword like it, unless it is too large to matter."""
    return countable(schema.get(keyword))


def countable(most: int | None) -> int | None:
    """A bound, or None if it is too large to matter: no output is longer than the engine can count."""
    return most if most is None or most <= _COUNTED else None
