"""The way of a value through a schema: the subschemas that its parts are held against.

A row of the report excuses that a value is refused only where it lies on that value's way, and mentions what the
value has there: a row for numbers excuses no string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.values.report import ReportRow
from special_tokens.errors import GuidedError

__all__ = ["excuses", "in_named_order", "speaks_of_order", "way"]


def speaks_of_order(row: ReportRow) -> bool:
    """Whether a row is about the order of keys; one about word boundaries is not."""
    return re.search(r"\border\b", row.reason) is not None


def excuses(schema: Any, value: Any, documents: Mapping[str, Any] | None, rows: Iterable[ReportRow]) -> Iterator[bool]:
    """For each row whether it may be why ``value`` is refused; of the order of keys none is."""
    met = way(schema, value, documents)
    everything = list(_parts(value))
    for row in rows:
        general = next((holds for words, holds in _GENERAL if words in row.reason), None)
        if speaks_of_order(row):
            yield False
        elif "calls it an annotation" in row.reason:
            named = (
                parts for place, parts in met.values() if isinstance(place.schema, dict) and "format" in place.schema
            )
            yield any(isinstance(part, str) for parts in named for part in parts)
        elif general is not None and not row.pointer:
            yield any(map(general, everything))
        elif row.keyword == "$schema":
            yield True
        else:
            kind = _KINDS.get(row.keyword, object)
            held = (part for at, (_, parts) in met.items() if _is_at(row.pointer, at) for part in parts)
            yield any(_is_of(part, kind) for part in held)


def way(schema: Any, value: Any, documents: Mapping[str, Any] | None = None) -> dict[str, tuple[Place, list[Any]]]:
    """By pointer the subschemas on the way, each with the parts of the value that are held against it."""
    known = Documents(schema, documents)
    met: dict[str, tuple[Place, list[Any]]] = {}
    seen: set[tuple[int, int]] = set()
    todo = [(known.root, value)]
    while todo:
        place, part = todo.pop()
        if (id(place), id(part)) in seen:
            continue
        seen.add((id(place), id(part)))
        met.setdefault(place.pointer, (place, []))[1].append(part)
        if isinstance(place.schema, dict):
            try:
                todo += _below(known, place, part)
            except GuidedError:  # a reference that leads nowhere
                continue
    return met


def in_named_order(schema: Any, value: Any, documents: Mapping[str, Any] | None = None) -> Any:
    """The value with the keys of its objects in the order in which the schemas on its way name them."""
    ranks: dict[int, dict[str, int]] = {}
    for place, parts in way(schema, value, documents).values():
        named = place.schema.get("properties", ()) if isinstance(place.schema, dict) else ()
        for part in parts:
            if isinstance(part, dict):
                own = ranks.setdefault(id(part), {})
                for key in named:
                    own.setdefault(key, len(own))

    def ordered(part: Any) -> Any:
        if isinstance(part, list):
            return [ordered(item) for item in part]
        if not isinstance(part, dict):
            return part
        own = ranks.get(id(part), {})
        return {key: ordered(part[key]) for key in sorted(part, key=lambda key: own.get(key, len(own)))}

    return ordered(value)


def _below(known: Documents, place: Place, part: Any) -> Iterator[tuple[Place, Any]]:
    schema = place.schema
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            yield known.target(place, schema[keyword], keyword), part
    if "$ref" in schema and place.dialect.ref_ignores_siblings:
        return
    for keyword in ("allOf", "anyOf", "oneOf"):
        for i, sub in enumerate(schema.get(keyword, ())):
            yield known.at(place, sub, keyword, i), part
    for keyword in ("not", "if", "then", "else"):
        if keyword in schema:
            yield known.at(place, schema[keyword], keyword), part
    if isinstance(part, dict):
        yield from _members(known, place, part)
    elif isinstance(part, list):
        yield from _items(known, place, part)


def _members(known: Documents, place: Place, part: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    schema = place.schema
    listed, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, value in part.items():
        if key in listed:
            yield known.at(place, listed[key], "properties", key), value
        found = [pattern for pattern in patterns if _is_found(pattern, key)]
        for pattern in found:
            yield known.at(place, patterns[pattern], "patternProperties", pattern), value
        if "additionalProperties" in schema and key not in listed and not found:
            yield known.at(place, schema["additionalProperties"], "additionalProperties"), value
        if "unevaluatedProperties" in schema:
            yield known.at(place, schema["unevaluatedProperties"], "unevaluatedProperties"), value
        if "propertyNames" in schema:
            yield known.at(place, schema["propertyNames"], "propertyNames"), key
        for keyword in ("dependentSchemas", "dependencies"):
            sub = schema.get(keyword, {}).get(key)
            if isinstance(sub, dict | bool):
                yield known.at(place, sub, keyword, key), part


def _items(known: Documents, place: Place, part: list[Any]) -> Iterator[tuple[Place, Any]]:
    schema = place.schema
    items = schema.get("items")
    by_position = "items" if isinstance(items, list) else "prefixItems"
    prefix = schema.get(by_position, ())
    for i, value in enumerate(part):
        if i < len(prefix):
            yield known.at(place, prefix[i], by_position, i), value
        elif isinstance(items, dict | bool):
            yield known.at(place, items, "items"), value
        elif "additionalItems" in schema:
            yield known.at(place, schema["additionalItems"], "additionalItems"), value
        for keyword in ("contains", "unevaluatedItems"):
            if keyword in schema:
                yield known.at(place, schema[keyword], keyword), value


def _is_found(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:  # what Python cannot read may match
        return True


def _is_at(pointer: str, place: str) -> bool:
    """Whether the row's pointer is that of a place, or of a constant inside it."""
    return pointer == place or pointer.startswith((f"{place}/enum", f"{place}/const"))


# -- what a row mentions


def _parts(value: Any) -> Iterator[Any]:
    """All values inside a value, keys of objects too."""
    todo = [value]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, dict):
            todo += [*part, *part.values()]
        elif isinstance(part, list):
            todo += part


def _is_number(part: Any) -> bool:
    return isinstance(part, int | float) and not isinstance(part, bool)


#: Rows for a schema as a whole, by words of their reason.
_GENERAL: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("digits in a row", lambda part: _is_number(part) and (isinstance(part, float) or abs(part) >= 10**64)),
    ("integers are written without point", lambda part: isinstance(part, float) and part.is_integer()),
    ("control characters", lambda part: isinstance(part, str) and any(char < " " or char == "\x7f" for char in part)),
    ("line separator", lambda part: isinstance(part, str) and not {"\r", "\u2028", "\u2029"}.isdisjoint(part)),
)

#: The keywords that are about values of one type alone.
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "type", "enum", "const"), float
    ),
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), str),
    **dict.fromkeys(("required", "dependencies", "dependentRequired", "minProperties", "maxProperties"), dict),
    **dict.fromkeys(("unevaluatedItems", "contains", "uniqueItems"), list),
}


def _is_of(part: Any, kind: type) -> bool:
    return _is_number(part) if kind is float else isinstance(part, kind)
