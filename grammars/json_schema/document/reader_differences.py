"""Where validators read a schema otherwise than we do: words of other dialects, a ``$schema`` that begins no resource.

What is found here has a row in the report, and proofs for all validators take it into account
(`grammars.json_schema.solver.solver.Space.widest`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from grammars.json_schema.document.dialects import DIALECTS, Dialect, dialect_of
from grammars.json_schema.document.string_formats import FORMATS
from grammars.json_schema.document.places import Place

__all__ = [
    "asks_for_more",
    "disputed_words",
    "has_later_formats",
    "is_astray",
    "read_alike",
    "reads_differ",
    "stray_dialects",
    "unheard",
]


def reads_differ(place: Place, *, is_document: bool = False) -> bool:
    """May a validator take more than we would write for what stands at the place, because it reads it otherwise?

    That is where a format is wider when it is negated, or not of the dialect, where a pattern is, ``unevaluated*``
    narrowed, or a word read as another dialect does.  What a reference leads to may hold one; of a whole
    document only a reference that leads out of it.
    """
    order, todo = place.dialect.order, [place.schema]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            named, refs = value.get("format"), [value[word] for word in _REFERENCES if word in value]
            if isinstance(named, str) and named in FORMATS and (FORMATS[named].outer or FORMATS[named].since > order):
                return True
            if "$schema" in value and (value is not place.schema or is_astray(place)):  # of another dialect
                return True
            if not _UNEVALUATED.isdisjoint(value) or disputed_words(value, order):
                return True
            keys = value.get("patternProperties")
            patterns = [value.get("pattern"), *(keys if isinstance(keys, dict) else ())]
            if any(isinstance(pattern, str) and _DIFFERENT.search(pattern) for pattern in patterns):
                return True
            if any(not is_document or (isinstance(ref, str) and not ref.startswith("#")) for ref in refs):
                return True
            todo += value.values()
    return False


_DIFFERENT = re.compile(r"\.|\(\?|\$|\\[bB]")
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


# -- words that we read as another dialect does


def disputed_words(schema: Mapping[str, Any], order: int) -> list[str]:
    """Keywords that we read as another dialect does, since schemas of this one mean it: some validators do not.

    ``order`` is the dialect's.  In draft 4 bounds that are numbers, as in draft 6; ``dependencies`` after draft 7.
    """
    if order > 7:
        return ["dependencies"] if schema.get("dependencies") else []
    if order > 4:
        return []
    return [flag for flag in ("exclusiveMinimum", "exclusiveMaximum") if type(schema.get(flag)) in (int, float)]


# -- a $schema that is not heard


def unheard(dialect: Dialect) -> str:
    """What is said of a ``$schema`` that is not heard."""
    return f"not heard where no resource begins: read as {dialect.name}"


def is_astray(place: Place) -> bool:
    """Is a dialect named there that is not heard, and would say something else?"""
    schema = place.schema
    named = dialect_of(schema, place.dialect)
    return named != place.dialect and (has_later_formats(schema) or not read_alike(schema, named, place.dialect))


def stray_dialects(place: Place) -> list[Dialect]:
    """Dialects that are named there or around it where no resource begins: some validators heed them, we do not."""
    found = []
    at: Place | None = place
    while at is not None and at.dialect == place.dialect:
        found.append(dialect_of(at.schema, place.dialect))
        at = at.parent
    return [dialect for dialect in found if dialect != place.dialect]


def asks_for_more(schema: Mapping[str, Any], named: Dialect, ours: Dialect) -> list[str]:
    """Keywords of a schema that ask for more in the dialect that is named, for what stands beside them."""
    found = []
    if "contains" in schema:
        least, knows = schema.get("minContains"), "minContains" not in ours.unknown
        is_more = "minContains" in named.unknown and type(least) in (int, float) and least == 0
        if is_more if knows else not {"minContains", "maxContains"} <= named.unknown and _is_counted(schema):
            found.append("contains")
    if "prefixItems" in schema and "prefixItems" in named.unknown - ours.unknown:
        found += [word for word in ("items", "unevaluatedItems") if word in schema]
    return found


def _is_counted(schema: Mapping[str, Any]) -> bool:
    return "minContains" in schema or "maxContains" in schema


def read_alike(schema: Mapping[str, Any], other: Dialect, ours: Dialect) -> bool:
    """Do the words of a schema surely mean in ``other`` what we read in ``ours``, formats and its own name aside?

    False as well for one of more than `_MOST` objects.
    """
    if other == ours:
        return True
    different = (other.unknown ^ ours.unknown) | _RENAMED
    is_alone = other.ref_stands_alone != ours.ref_stands_alone
    if is_alone and ours.ref_stands_alone:
        different |= {"dependencies"}
    if (other.order > 4) != (ours.order > 4):
        different |= {"exclusiveMinimum", "exclusiveMaximum"}
    several = list(islice(_schemas(schema), _MOST))
    for value in several:
        if value is not schema and any(isinstance(value.get(word), str) for word in ("$id", "id")):
            return False
        if isinstance(value.get("items"), list) or not different.isdisjoint(value):
            return False
        if is_alone and "$ref" in value and len(value) > 1:
            return False
    return len(several) < _MOST


def has_later_formats(schema: Mapping[str, Any]) -> bool:
    """May a schema, or one below, name a format that draft 4 does not have?  True for more than `_MOST` objects."""
    several = list(islice(_schemas(schema), _MOST))
    named = [FORMATS.get(name) for value in several if isinstance(name := value.get("format"), str)]
    return len(several) == _MOST or any(row is not None and row.since > DIALECTS[0].order for row in named)


def _schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and those below, its other objects among them, but for data."""
    todo: list[Any] = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            yield value
            for word, below in value.items():
                if word in _MAPS and isinstance(below, dict):
                    todo += below.values()
                elif word not in _DATA:
                    todo.append(below)


_MOST = 500  # objects: each schema that names another dialect is looked through
_RENAMED = frozenset(("$recursiveRef", "$dynamicRef", "additionalItems", "unevaluatedItems"))
_MAPS = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired", "dependencies")
)
_DATA = frozenset(("const", "enum", "default", "example", "examples", "required"))
