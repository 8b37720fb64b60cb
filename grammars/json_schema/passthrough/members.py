"""Keywords of objects and arrays in a schema that is passed through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from grammars.json_schema.grammar.key_bounds import KeyBounds, joined, key_bounds_of
from grammars.json_schema.keywords.text import pattern_readings
from grammars.json_schema.passthrough.applicators import can_intersect
from grammars.json_schema.passthrough.copy import KeywordReader, SchemaCopy
from grammars.json_schema.passthrough.patterns import engine_pattern, pattern_language, pattern_of_language
from grammars.json_schema.passthrough.refusal import NotPassedThrough
from grammars.json_schema.passthrough.values import copy_count, copy_verbatim
from grammars.regular.languages import (
    Ranges,
    Regular,
    alt,
    fixed_prefix,
    inter,
    lengths,
    matches,
    neg,
    shortest,
    text,
)
from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.regular.syntax.ecma import has_disputed_boundaries
from grammars.regular.syntax.ecma_parser import has_disputed_case

__all__ = ["READERS"]

_MAX_KEYS = 1_000
_MAX_OPTIONAL = 450  # of one object: the engine's row has four items for each, of at most 2,000
_MAX_COUNTED = 20  # of one object whose keys are counted: the engine's rules multiply
_MAX_COUNT = 1_000
_MAX_PATTERNS = 20
_BUDGET = 300  # states of a search for a key


def _properties(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if len(value) > _MAX_KEYS:
        raise NotPassedThrough
    if len(value) > _MAX_OPTIONAL and len(value.keys() - set(schema.get("required", ()))) > _MAX_OPTIONAL:
        raise NotPassedThrough
    if len(value) > _MAX_COUNTED and ("minProperties" in schema or "maxProperties" in schema):
        raise NotPassedThrough
    out["properties"] = {key: copy.below(sub, "properties", key) for key, sub in value.items()}
    copy.ordered = copy.ordered or len(value) > 1


def _additional(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    out["additionalProperties"] = copy.below(value, "additionalProperties")


def _pattern_properties(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if len(value) > _MAX_PATTERNS:
        raise NotPassedThrough
    known = [pattern_language(pattern) for pattern in value]
    widened = _widened(value, schema)
    known = [widened.get(pattern, term) for pattern, term in zip(value, known, strict=True)]
    if (
        len(known) > 1
        and not _begin_differently([fixed_prefix(term) for term in known])
        and not _share_no_first_character(known)
    ):
        raise NotPassedThrough
    listed = schema.get("properties", {})
    forbidden = [term for term, sub in zip(known, value.values(), strict=True) if sub is False]
    if any(matches(term, key) for term in forbidden for key in schema.get("required", ())):
        raise NotPassedThrough  # the engine would report an error in its grammar instead
    is_open = schema.get("additionalProperties", True) is not False
    _same_to_all(value.keys() - widened.keys() if is_open else value, listed, is_open=is_open)
    for term, sub in zip(known, value.values(), strict=True):
        taken = [key for key in listed if matches(term, key)]
        for key in taken:  # the engine merges both, as they both hold
            if not can_intersect(listed[key], sub, copy):
                raise NotPassedThrough
            copy.has_merges = True
        if taken and not isinstance(shortest(inter(term, neg(alt(*map(text, taken)))), _BUDGET), str):
            raise NotPassedThrough  # the engine fails where no other key is left
    copied = {}
    for pattern, sub in value.items():
        found = pattern_of_language(widened[pattern]) if pattern in widened else engine_pattern(pattern)
        if found is None:
            raise NotPassedThrough
        copied[copy.patterned("patternProperties", found)] = copy.below(sub, "patternProperties", pattern)
    if len(copied) < len(value):
        raise NotPassedThrough
    if copied:
        out["patternProperties"] = copied
        copy.free_keys = True
        if schema.get("additionalProperties", True) is False:
            terms = [term for term, sub in zip(known, value.values(), strict=True) if sub is not False]
            copy.key_bounds = joined(copy.key_bounds, key_bounds_of(terms))
        else:
            copy.key_bounds = joined(copy.key_bounds, KeyBounds(key_bounds_of(known).tight))


def _widened(patterns: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Regular]:
    """Patterns that readers match differently, with the union of all readings.

    Where other keys may hold anything, applying a pattern's schema to the union is right for every reader.
    """
    if schema.get("additionalProperties", True) is not True:
        return {}
    found = {}
    for pattern in patterns:
        surely, maybe = pattern_readings(pattern)
        is_said = has_disputed_boundaries(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern)
        same = all(matches(maybe, key) == matches(surely, key) for key in schema.get("properties", ()))
        if surely is not maybe and same and not is_said:
            found[pattern] = maybe
    return found


def _same_to_all(patterns: Iterable[str], listed: Iterable[str], *, is_open: bool) -> None:
    """Refuse keys on which readers of a pattern differ: the engine knows only one reading."""
    for pattern in patterns:
        surely, maybe = pattern_readings(pattern)
        if surely is not maybe and (is_open or any(matches(maybe, key) != matches(surely, key) for key in listed)):
            raise NotPassedThrough


def _begin_differently(prefixes: list[str]) -> bool:
    """Whether words with these prefixes surely differ."""
    ordered = sorted(prefixes)
    return all(a and not b.startswith(a) for a, b in pairwise(ordered))


def _share_no_first_character(terms: list[Regular]) -> bool:
    """Whether no two of the languages share a first character."""
    found = [_first(term) for term in terms]
    known = [ranges for ranges in found if ranges is not None]
    ordered = sorted(pair for ranges in known for pair in ranges)
    return len(known) == len(found) and all(a[1] < b[0] for a, b in pairwise(ordered))


def _first(term: Regular) -> Ranges | None:
    """The first characters of the words; None if that is not obvious, or the empty word is one."""
    match term.op:
        case "chars":
            ranges: Ranges = term.args
            return ranges
        case "words" if "" not in term.args:
            return tuple(sorted({(ord(word[0]), ord(word[0])) for word in term.args}))
        case "cat" if term.args:
            return _first(term.args[0])
        case "rep" if term.args[1]:
            return _first(term.args[0])
    return None


def _items(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    if not isinstance(value, dict | bool):
        raise NotPassedThrough
    out["items"] = copy.below(value, "items")


def _properties_count(keyword: str) -> KeywordReader:
    """Counts are exact for maps, and for one key out of a closed list."""
    take = copy_count(keyword, _MAX_COUNT)

    def read(copy: SchemaCopy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if schema.get("patternProperties") and not (value == 0 or _has_keys(copy, schema, value)):
            raise NotPassedThrough
        listed, required = schema.get("properties") or {}, schema.get("required") or ()
        if set(listed) == set(required) and isinstance(value, int) and value >= len(required) and keyword[:3] == "max":
            take(copy, value, schema, out)
            return
        if keyword == "minProperties" and isinstance(value, int) and value <= len(set(required)):
            return  # the required keys suffice
        if listed or required:
            one = value == 1 and schema.get("maxProperties", 1) == 1 and schema.get("minProperties", 1) == 1
            if not one or schema.get("additionalProperties") is not False or schema.get("required"):
                raise NotPassedThrough
        take(copy, value, schema, out)

    return read


def _has_keys(copy: SchemaCopy, schema: Mapping[str, Any], count: Any) -> bool:
    """Whether patterns alone surely allow enough different keys."""
    patterns = schema["patternProperties"]
    if schema.get("properties") or schema.get("required") or not isinstance(count, int):
        return False
    if schema.get("additionalProperties", True) is not False:
        return schema.get("additionalProperties", True) is True
    terms = [pattern_language(pattern) for pattern, sub in patterns.items() if sub is not False]
    return any(lengths(t)[1] is None or (count == 1 and isinstance(shortest(t), str)) for t in terms)


READERS: dict[str, KeywordReader] = {
    "properties": _properties,
    "required": copy_verbatim("required"),
    "additionalProperties": _additional,
    "patternProperties": _pattern_properties,
    "minProperties": _properties_count("minProperties"),
    "maxProperties": _properties_count("maxProperties"),
    "items": _items,
    "additionalItems": lambda copy, value, schema, out: None,  # it has no meaning with a single schema for items
    "minItems": copy_count("minItems", _MAX_COUNT),
    "maxItems": copy_count("maxItems", _MAX_COUNT),
}
