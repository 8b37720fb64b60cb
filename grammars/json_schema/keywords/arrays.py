"""``prefixItems``, ``items``, ``contains`` and its counts, ``minItems``, ``maxItems``, ``uniqueItems``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grammars.json_schema.document.places import Place
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.shapes.shapes import ANY_ARRAY, TRUE, ArrayForm, Conj, Count, Seen

__all__ = ["KEYWORDS", "allow", "counted", "deny", "most_of"]

_COUNTED = 2**31 - 1
_CONTAINS_EVALUATES = 9  # the order of draft 2020-12

KEYWORDS = ("prefixItems", "items", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems")

Child = Callable[..., Conj | None]


def allow(schema: Mapping[str, Any], place: Place, child: Child, *, widest: bool = False) -> ArrayForm | None:
    """The arrays that satisfy the keywords; None when the keywords contradict each other.

    ``contains`` evaluates no items in draft 2019-09; validators let it, which is what ``widest`` asks for.
    """
    prefix = tuple(child(place, s, "prefixItems", i) for i, s in enumerate(schema.get("prefixItems", ())))
    rest = child(place, schema["items"], "items") if "items" in schema else TRUE
    counts: tuple[Count, ...] = ()
    contained: tuple[Conj, ...] = ()
    not_contained = False
    if "contains" in schema:
        item = child(place, schema["contains"], "contains")
        least, most = schema.get("minContains", 1), most_of(schema, "maxContains")
        if item is None:
            if least:
                return None
        else:
            counts = (Count(item, least, most),) if least or most is not None else ()
            not_contained = place.dialect.order < _CONTAINS_EVALUATES and not widest
            contained = () if not_contained else (item,)
    return ArrayForm(
        prefix,
        rest,
        schema.get("minItems", 0),
        most_of(schema, "maxItems"),
        counts,
        (place.number,) if schema.get("uniqueItems") else (),
        Seen(items=len(prefix), contains=contained, every_item="items" in schema, not_contains=not_contained),
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
        out.append(ArrayForm(most=counted(schema["minItems"] - 1)))
    if most_of(schema, "maxItems") is not None:
        out.append(ArrayForm(least=schema["maxItems"] + 1))
    if schema.get("uniqueItems"):
        reason = "its negation is not enforced: that two items are equal cannot be demanded"
        notes.append(ReportRow(place.pointer, "uniqueItems", Outcome.RELAXED, reason))
        out.append(ANY_ARRAY)
    return tuple(out)


def _deny_contains(schema: Mapping[str, Any], item: Conj | None) -> list[ArrayForm]:
    least, most = schema.get("minContains", 1), most_of(schema, "maxContains")
    if item is None:
        return [ANY_ARRAY] if least else []
    out = [ArrayForm(counts=(Count(item, 0, counted(least - 1)),))] if least else []
    if most is not None:
        out.append(ArrayForm(counts=(Count(item, most + 1, None),)))
    return out


def negation(conj: Conj | None) -> Conj | None:
    """The negation of what `child` gave: of one literal, of everything, or of nothing."""
    if conj is None:
        return TRUE
    return None if not conj else (-conj[0],)


def most_of(schema: Mapping[str, Any], keyword: str) -> int | None:
    """A ``maxItems`` and its like where it can matter."""
    return counted(schema.get(keyword))


def counted(most: int | None) -> int | None:
    """A bound where it can matter: nothing writes more than the engine can count."""
    return most if most is None or most <= _COUNTED else None
