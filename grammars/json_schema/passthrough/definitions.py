"""The definitions of a copied schema: whether each can end, and the size after the engine's merges.

The engine merges the siblings of ``allOf`` and ``anyOf`` with each of their parts, references resolved, so every part
occurs once for each choice of branches, with everything below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["is_productive", "merged_size"]

_PREFIX = len("#/$defs/")
_ONE = {"properties", "patternProperties"}
_BELOW = ("items", "additionalProperties")


def is_productive(root: Any, defs: Mapping[str, Any]) -> bool:
    """Whether every definition, and the root, has a finite value."""
    done: set[str] = set()

    def ends(schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is True
        if "$ref" in schema:
            return schema["$ref"][_PREFIX:] in done
        if not all(map(ends, schema.get("allOf", ()))):
            return False
        if "anyOf" in schema and not any(map(ends, schema["anyOf"])):
            return False
        types = schema.get("type")
        if types == "object":
            listed = schema.get("properties", {})
            free = [schema.get("additionalProperties", True)]
            if "patternProperties" in schema:  # which of them matches the key was checked before
                free = [sub for sub in (*free, *schema["patternProperties"].values()) if sub is not False]
            return all(
                ends(listed[key]) if key in listed else all(map(ends, free)) for key in schema.get("required", ())
            )
        if types == "array" and schema.get("minItems", 0):
            return ends(schema.get("items", True))
        return True

    while True:
        found = {name for name, schema in defs.items() if name not in done and ends(schema)}
        if not found:
            return len(done) == len(defs) and ends(root)
        done |= found


def merged_size(root: Any, defs: Mapping[str, Any]) -> int | None:
    """Return an upper bound on the schemas in the document after the engine's merges; None if merging would not end."""
    known: dict[str, tuple[int, int] | None] = {}

    def definition(name: str) -> tuple[int, int] | None:
        """Alternatives and size of a definition that is merged into another."""
        if name not in known:
            known[name] = None  # while it is read: a merge that leads back here has no end
            known[name] = parts(defs[name])
        return known[name]

    def parts(schema: Any) -> tuple[int, int] | None:
        """Alternatives of the schema, and the size of them all."""
        if not isinstance(schema, dict):
            return 1, 1
        if "$ref" in schema:
            return definition(schema["$ref"][_PREFIX:])
        many, size = 1, 1
        for sub in _subschemas(schema):
            below = alone(sub)
            if below is None:
                return None
            size += below
        groups = [[part] for part in schema.get("allOf", ())]
        groups += [schema["anyOf"]] if "anyOf" in schema else []
        for options in groups:
            read = [parts(option) for option in options]
            known_parts = [found for found in read if found is not None]
            if len(known_parts) < len(read):
                return None
            here, total = sum(n for n, _ in known_parts), sum(s for _, s in known_parts)
            many, size = many * here, size * here + many * total
        return many, size

    def alone(schema: Any) -> int | None:
        """The size of a schema where nothing is merged into it."""
        if not isinstance(schema, dict) or "$ref" in schema:
            return 1
        if schema.keys() == {"anyOf"}:
            sizes = [alone(option) for option in schema["anyOf"]]
            return None if None in sizes else 1 + sum(s for s in sizes if s is not None)
        found = parts(schema)
        return None if found is None else found[1]

    whole = 0
    for schema in (root, *defs.values()):
        size = alone(schema)
        if size is None:
            return None
        whole += size
    return whole


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword, value in schema.items():
        if keyword in _ONE:
            yield from value.values()
        elif keyword in _BELOW:
            yield value
